"""Helpers for the tests of the assistant: a model that echoes the question, the bot as a process, and its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from cortext.agents.assistant.context import HEADINGS
from tests.support.cli import SCRIPTS, Ran, run
from tests.support.model_reply import Reply, Turn
from tests.support.model_server import ModelServer
from tests.support.telegram_server import TOKEN, TelegramServer
from tests.support.waiting import wait_until

SUMMARY_REQUEST = "Write the summary now."


class Parrot(ModelServer):
    """Answers "Answer to …", and writes summaries with all sections, unless the test pushes replies."""

    slow = 0.0  # seconds of pause in the middle of an answer

    def _next_reply(self, conversation: tuple[Turn, ...]) -> Reply:
        asked = next((turn.text for turn in reversed(conversation) if turn.role == "user"), "")
        if self._script or asked.startswith("TOOLCALL:"):
            return super()._next_reply(conversation)
        if SUMMARY_REQUEST in asked:
            return Reply(text="\n".join(f"## {heading}\nnone" for heading in HEADINGS))
        if not self.slow:
            return Reply(text=f"Answer to {asked}")
        # The rest of the answer comes later, so that a test can act in between.
        rest = threading.Event()
        threading.Timer(self.slow, rest.set).start()
        return Reply(text=f"Answer to {asked}", hold=rest, hold_at=2)

    def summaries(self) -> list[str]:
        """Return the requests for summaries."""
        return [
            turn.text for request in self.turns for turn in request.conversation[-1:] if SUMMARY_REQUEST in turn.text
        ]  # fmt: skip


def environment(home: Path, model: ModelServer | None = None, telegram: TelegramServer | None = None) -> dict[str, str]:
    """Return the environment of a process, without anything of this machine's user."""
    env = {
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    if model is not None:
        env |= {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "test-key", "CORTEXT_MODEL": "openai/test"}
    if telegram is not None:
        env |= {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_URL": telegram.url}
    return env


def alfred(env: dict[str, str], *arguments: str, stdin: str = "") -> Ran:
    """Run `alfred`."""
    return run([str(SCRIPTS / "alfred"), *arguments], env=env, stdin=stdin)


def sessions_of(home: Path) -> Path:
    """Return the folder of the sessions."""
    return home / ".local" / "share" / "alfred" / "sessions"


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def messages_of(home: Path, session_id: str) -> list[dict[str, Any]]:
    """Return the messages in the files of a session, those of the archive first."""
    folder = sessions_of(home) / session_id
    found = []
    for name in ("archive.jsonl", "current.jsonl"):
        if (folder / name).exists():
            found += [line for line in lines_of(folder / name) if "role" in line]
    return found


class Bot:
    """`alfred telegram` as a process; `with Bot(env, telegram) as bot:` stops it at the end of the block."""

    def __init__(self, env: dict[str, str], telegram: TelegramServer, *arguments: str, allowed: str = "4711") -> None:
        self._env = {**env, "CORTEXT_TELEGRAM_ALLOWED_USERS": allowed}
        self._telegram, self._arguments = telegram, arguments
        self.log = Path(env["HOME"]) / "bot.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        """Start the process; by default, wait until it asks for updates."""
        polls = self._telegram.count("getUpdates") + self._telegram.count("setWebhook")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cortext.agents.alfred.main", "telegram", *self._arguments],
                env=self._env,
                stdout=log,
                stderr=log,
                cwd=self._env["HOME"],
            )
        if wait:
            self._telegram.wait_for(
                lambda: (
                    self._telegram.count("getUpdates") + self._telegram.count("setWebhook") > polls
                    or (self.process is not None and self.process.poll() is not None)
                ),
                60,
            )
            assert self.process.poll() is None, self.logged()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stop the process with SIGTERM; return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def logged(self) -> str:
        """Return the whole log."""
        return self.log.read_text(encoding="utf-8")

    def wait_for_log(self, text: str, timeout: float = 60.0) -> None:
        """Wait until this text is in the log."""
        wait_until(lambda: text in self.logged(), timeout, self.logged)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
