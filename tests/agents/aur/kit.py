"""Helpers for the tests of `aur`: the real command with a model on loopback, and session files of other programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support.cli import SCRIPTS, Ran, run
from tests.support.model_server import ModelServer
from tests.support.screen import ShellScreen

METADATA_KEYS = ["type", "session_id", "agent", "created_at", "status"]
TURN_KEYS = ["type", "role", "content", "timestamp", "tokens"]


class Aur:
    """Runs `aur` with a model, in a folder and a home of the test."""

    def __init__(self, server: ModelServer, home: Path, folder: Path) -> None:
        self.server, self.home, self.folder = server, home, folder
        # Ollama's client is the quickest to import, and these tests start many processes.
        self.env = {"OLLAMA_HOST": server.url, "CORTEXT_MODEL": "ollama/test-model"}
        self.sessions = home / ".aurora" / "spawn" / "sessions"

    def __call__(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> Ran:
        return run([str(SCRIPTS / "aur"), *arguments], cwd=self.folder, stdin=stdin, env={**self.env, **(env or {})})

    def screen(self, *arguments: str, limit: str = "", name: str = "one") -> ShellScreen:
        """Start `aur` in a terminal. `limit` are the arguments of a `ulimit` before it."""
        folder = self.home / f"screen-{name}"
        folder.mkdir(exist_ok=True)
        environ = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", "LANG": "C.UTF-8", **self.env}
        return ShellScreen(folder, [str(SCRIPTS / "aur"), *arguments], environ, self.folder, "100x40", limit=limit)

    def file(self, session_id: str = "") -> Path:
        """Return the file of a session, by default of the only one."""
        if session_id:
            return self.sessions / f"{session_id}.jsonl"
        [path] = self.sessions.glob("*.jsonl")
        return path

    def lines(self, session_id: str = "") -> list[dict[str, Any]]:
        """Return the records of a session's file."""
        return [json.loads(line) for line in self.file(session_id).read_text(encoding="utf-8").splitlines()]

    def turns(self, session_id: str = "") -> list[tuple[str, str]]:
        """Return the role and the text of each turn."""
        return [(line["role"], line["content"]) for line in self.lines(session_id)[1:]]

    def write(self, session_id: str, agent: str = "qa-test", status: str = "completed", **more: Any) -> Path:
        """Write a session with the required keys of the format and no others, as another program may write it."""
        day = more.get("day", "2026-01-10")
        turns = more.get("turns", (("user", "What is flaky?"), ("assistant", "The clock test.")))
        metadata = {
            "type": "metadata",
            "session_id": session_id,
            "agent": agent,
            "created_at": f"{day}T10:00:00Z",
            "status": status,
        }
        records = [
            {"type": "turn", "role": role, "content": text, "timestamp": f"{day}T10:00:{index % 60:02}Z", "tokens": 4}
            for index, (role, text) in enumerate(turns)
        ]
        self.sessions.mkdir(parents=True, exist_ok=True)
        path = self.file(session_id)
        path.write_text("".join(json.dumps(line) + "\n" for line in (metadata, *records)), encoding="utf-8")
        return path
