"""What the tests need of an AI program: a private home, a model on loopback, and one turn at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, ClassVar

from tests.support.ai_programs import ensure, programs_folder
from tests.support.model_reply import Json, Reply

# Nothing listens on port 9 ("discard"), so any connection beyond loopback fails at once.
CLOSED_PROXY = "http://127.0.0.1:9"
API_KEY = "sk-test-cortext-0123456789-abcdefghij"
MODEL = "test-model"
ANOTHER_MODEL = "another-model"


class Tool(ABC):
    """One AI program with its own home folder."""

    name: ClassVar[str]
    # The folder in the home with the conversations; Aider keeps them in the projects.
    store: ClassVar[str]
    # The tool that runs a shell command, and the argument that takes the command.
    shell_tool: ClassVar[str]
    shell_argument: ClassVar[str] = "command"
    another_model: ClassVar[str] = ANOTHER_MODEL

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
            # Compiled scripts of the programs that run on node: up to half a second less for each start.
            "NODE_COMPILE_CACHE": str(programs_folder() / "compiled"),
        }
        self.configure()

    @abstractmethod
    def configure(self) -> None:
        """Write the settings and extend the environment so that the program reaches the model without asking."""

    @abstractmethod
    def choose_another_model(self) -> None:
        """Configure another model, of another provider if the program has names for providers."""

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

    def files_of(self, key: str) -> Path:
        """Return the file with one stored conversation, or its folder if it has one of its own."""
        return self.transcripts()[self.sessions().index(key)]

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


def write_json(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def oldest_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode("utf-8", "replace")


def _kill_group(group: int) -> None:
    """Kill a process group that we started, unless it has already exited."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
