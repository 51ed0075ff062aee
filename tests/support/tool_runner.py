"""The four AI programs behind one interface: a private home, a model on loopback, and one turn at a time.

tool = make_tool("claude-code", tmp_path / "home", server.url)
done = tool.run("hello", cwd=project)
done = tool.run("and then?", cwd=project, resume=tool.sessions()[-1])
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, ClassVar

from tests.support.ai_programs import ensure
from tests.support.model_reply import Json, Reply

# Nothing listens on port 9 ("discard"), so any connection beyond loopback fails at once.
CLOSED_PROXY = "http://127.0.0.1:9"
API_KEY = "sk-test-cortext-0123456789-abcdefghij"
MODEL = "test-model"


class Tool(ABC):
    """One AI program with its own home folder."""

    name: ClassVar[str]
    # The tool that runs a shell command, and the argument that takes the command.
    shell_tool: ClassVar[str]
    shell_argument: ClassVar[str] = "command"

    def __init__(self, folder: Path, server_url: str, *, proxy: str = CLOSED_PROXY) -> None:
        self.program = ensure(self.name)
        self.home = folder
        self.server_url = server_url
        for part in ("tmp", ".config", ".local/share", ".local/state", ".cache"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            "XDG_DATA_HOME": str(folder / ".local/share"),
            "XDG_STATE_HOME": str(folder / ".local/state"),
            "XDG_CACHE_HOME": str(folder / ".cache"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "HTTP_PROXY": proxy,
            "HTTPS_PROXY": proxy,
            "http_proxy": proxy,
            "https_proxy": proxy,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }
        self.configure()

    @abstractmethod
    def configure(self) -> None:
        """Write the settings and extend the environment so that the program reaches the model without asking."""

    @abstractmethod
    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        """Return the command line of one headless turn."""

    @abstractmethod
    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        """Return the command line of the interactive program."""

    @abstractmethod
    def transcripts(self) -> list[Path]:
        """Return the files with the program's conversations, oldest first."""

    @abstractmethod
    def sessions(self) -> list[str]:
        """Return the ids of the stored conversations, oldest first, as `resume` takes them."""

    def shell(self, command: str) -> Reply:
        """Return a reply that runs a shell command with this program's tool."""
        described = {} if self.shell_argument == "cmd" else {"description": "run a command"}
        return Reply.call(self.shell_tool, **{self.shell_argument: command}, **described)

    @abstractmethod
    def trust(self, project: Path) -> None:
        """Let the program work in a folder without asking, as the interactive start and hooks require."""

    def records(self) -> list[Json]:
        """Return every stored record of every conversation."""
        return [
            json.loads(line)
            for path in self.transcripts()
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]

    def run(
        self,
        prompt: str,
        *,
        cwd: Path,
        resume: str | None = None,
        extra_args: Sequence[str] = (),
        timeout: float = 120.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run one headless turn; after the timeout, kill its process group and raise TimeoutExpired."""
        command = self.headless(prompt, resume, extra_args)
        return self.execute(command, cwd=cwd, timeout=timeout, stdin=self.headless_stdin(prompt))

    def headless_stdin(self, prompt: str) -> str:
        """Return the standard input of a headless turn; empty for most programs."""
        return ""

    def execute(
        self, command: Sequence[str], *, cwd: Path, timeout: float = 120.0, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line with exactly this tool's environment."""
        # Files instead of pipes: a grandchild that keeps a pipe open would make us wait for it.
        with self._scratch(stdin) as given, self._scratch() as out, self._scratch() as err:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=self.env,
                stdin=given if stdin else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired as late:
                _kill_group(process.pid)
                process.wait()
                raise subprocess.TimeoutExpired(command, timeout, _text(out), _text(err)) from late
            finally:
                # The program may leave a helper process behind even if it succeeds.
                _kill_group(process.pid)
            return subprocess.CompletedProcess(command, process.returncode, _text(out), _text(err))

    @contextmanager
    def _scratch(self, content: str = "") -> Iterator[IO[bytes]]:
        with tempfile.TemporaryFile(dir=self.home / "tmp") as file:
            file.write(content.encode())
            file.seek(0)
            yield file


class ClaudeCode(Tool):
    """Claude Code: JSON Lines below ~/.claude/projects."""

    name = "claude-code"
    shell_tool = "Bash"

    def configure(self) -> None:
        self.env |= {
            "ANTHROPIC_BASE_URL": self.server_url,
            "ANTHROPIC_API_KEY": API_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        allowed = ["Bash", "Read", "Write", "Edit", "Glob", "Grep"]
        _write_json(self.home / ".claude" / "settings.json", {"permissions": {"allow": allowed}})
        # Without these three the first screen asks for a theme, for the key, and for trust in the folder.
        onboarded = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {}}
        key = {"customApiKeyResponses": {"approved": [API_KEY[-20:]], "rejected": []}}
        if not (self.home / ".claude.json").exists():  # a home that was used before keeps its state
            _write_json(self.home / ".claude.json", {**onboarded, **key})

    def trust(self, project: Path) -> None:
        path = self.home / ".claude.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["projects"][str(project)] = {"hasTrustDialogAccepted": True}
        _write_json(path, settings)

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, *resumed, *extra, "-p", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, *resumed, *([prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return _oldest_first((self.home / ".claude" / "projects").glob("*/*.jsonl"))

    def sessions(self) -> list[str]:
        return [path.stem for path in self.transcripts()]


class GeminiCli(Tool):
    """Gemini CLI: JSON Lines below ~/.gemini/tmp/<project>/chats."""

    name = "gemini-cli"
    shell_tool = "run_shell_command"

    def configure(self) -> None:
        self.env |= {
            "GEMINI_API_KEY": API_KEY,
            "GOOGLE_GEMINI_BASE_URL": self.server_url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            # Without this it restarts itself to get more memory.
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }
        _write_json(
            self.home / ".gemini" / "settings.json",
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                # Its retention can delete a conversation that was resumed.
                "general": {
                    "sessionRetention": {"enabled": False},
                    "enableAutoUpdate": False,
                    "enableAutoUpdateNotification": False,
                },
                "privacy": {"usageStatisticsEnabled": False},
            },
        )

    def trust(self, project: Path) -> None:
        pass  # an environment variable trusts every folder

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, "--approval-mode", "yolo", *resumed, *extra, "-p", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, *resumed, *(["-i", prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return _oldest_first((self.home / ".gemini" / "tmp").glob("*/chats/session-*.jsonl"))

    def sessions(self) -> list[str]:
        # A resumed conversation may continue in a second file with the same id.
        first_lines = [path.read_text(encoding="utf-8").splitlines()[0] for path in self.transcripts()]
        return list(dict.fromkeys(json.loads(line)["sessionId"] for line in first_lines))


class OpenCode(Tool):
    """OpenCode: an SQLite database below XDG_DATA_HOME."""

    name = "opencode"
    shell_tool = "bash"

    def configure(self) -> None:
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE")
        self.env |= {f"OPENCODE_DISABLE_{what}": "1" for what in off}
        folder = self.home / ".config" / "opencode"
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Test",
            "options": {"baseURL": f"{self.server_url}/v1", "apiKey": API_KEY},
            "models": {MODEL: {"name": "Test model", "limit": {"context": 200_000, "output": 8_000}}},
        }
        settings = {
            "$schema": "https://opencode.ai/config.json",
            "model": f"test/{MODEL}",
            "small_model": f"test/{MODEL}",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
            "provider": {"test": provider},
        }
        _write_json(folder / "opencode.json", settings)
        self.settle(folder)

    def trust(self, project: Path) -> None:
        pass  # it never asks

    @staticmethod
    def settle(folder: Path) -> None:
        """Make a config folder look installed: otherwise, with a plugin in it, a start waits a minute for npm."""
        (folder / "node_modules").mkdir(parents=True, exist_ok=True)
        # It only compares the names in the lock file's root with those it wants.
        root = {"dependencies": {"@opencode-ai/plugin": "*"}}
        _write_json(folder / "package-lock.json", {"lockfileVersion": 3, "packages": {"": root}})

    @property
    def database(self) -> Path:
        """The database with all conversations."""
        return self.home / ".local/share" / "opencode" / "opencode.db"

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["-s", resume] if resume else []
        return [self.program, "run", *resumed, *extra]

    def headless_stdin(self, prompt: str) -> str:
        # An argument with a space would reach the model in quotation marks.
        return prompt

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["-s", resume] if resume else []
        return [self.program, *resumed, *(["--prompt", prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return [self.database] if self.database.exists() else []

    def sessions(self) -> list[str]:
        return [row[0] for row in self._query("SELECT id FROM session ORDER BY time_created, id")]

    def records(self) -> list[Json]:
        messages = self._query("SELECT id, data FROM message ORDER BY time_created, id")
        parts = self._query("SELECT message_id, data FROM part ORDER BY id")
        return [
            {
                "id": message,
                "info": json.loads(data),
                "parts": [json.loads(part) for owner, part in parts if owner == message],
            }
            for message, data in messages
        ]

    def _query(self, sql: str) -> list[Any]:
        if not self.database.exists():
            return []
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


class Codex(Tool):
    """Codex: JSON Lines below ~/.codex/sessions/<year>/<month>/<day>."""

    name = "codex"
    shell_tool = "exec_command"
    shell_argument = "cmd"

    def configure(self) -> None:
        self.env |= {"TEST_MODEL_KEY": API_KEY}
        settings = f"""\
model = "{MODEL}"
model_provider = "test"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
# A daemon would outlive the test; the others use the network at every start.
daemon_auto_start = false
plugins = false
apps = false
plugin_discovery_prefetch = false
unbounded_connection_retries = false

[model_providers.test]
name = "Test"
base_url = "{self.server_url}/v1"
wire_api = "responses"
env_key = "TEST_MODEL_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
        path = self.home / ".codex" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(settings, encoding="utf-8")

    def trust(self, project: Path) -> None:
        path = self.home / ".codex" / "config.toml"
        heading = f"[projects.{json.dumps(str(project))}]"
        settings = path.read_text(encoding="utf-8")
        if heading not in settings:  # the program may have written it already, and a duplicate table is an error
            path.write_text(f'{settings}\n{heading}\ntrust_level = "trusted"\n', encoding="utf-8")

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["resume"] if resume else []
        options = ["--skip-git-repo-check", *extra]
        return [self.program, "exec", *resumed, *options, *([resume] if resume else []), prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["resume", resume] if resume else []
        return [self.program, *resumed, *([prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return _oldest_first((self.home / ".codex" / "sessions").glob("*/*/*/rollout-*.jsonl"))

    def sessions(self) -> list[str]:
        # rollout-2026-01-02T03-04-05-<uuid>.jsonl
        return [path.stem[-36:] for path in self.transcripts()]


TOOLS: dict[str, type[Tool]] = {kind.name: kind for kind in (ClaudeCode, GeminiCli, OpenCode, Codex)}


def make_tool(name: str, folder: Path, server_url: str, *, proxy: str = CLOSED_PROXY) -> Tool:
    """Return the tool of that name with its home in the folder, using the model at the URL."""
    return TOOLS[name](folder, server_url, proxy=proxy)


def _write_json(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _oldest_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode("utf-8", "replace")


def _kill_group(group: int) -> None:
    """Kill a process group that we started, unless it has already exited."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
