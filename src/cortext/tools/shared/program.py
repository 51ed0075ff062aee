"""The program of an AI tool: finding it, asking for its version, running it with a time limit, and as a model.

Every hook imports this module with its adapter but starts no program, so modules that only a start needs are imported
in the functions: they would take 10 of the 100 ms that a hook may take.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from glob import escape, glob
from types import MappingProxyType
from typing import Any, NamedTuple

from cortext.errors import UsageError
from cortext.io import durable
from cortext.model.answer import AnswerPiece, AnswerText, Done, Usage
from cortext.safety.credentials import for_child
from cortext.safety.framing import fence
from cortext.tools.base import Detected, Launch
from cortext.tools.shared.jsonc import read_object

_LONGEST_ARGUMENT = 128 * 1024 - 1  # bytes: the limit of Linux for one argument
_VERSION_SECONDS = 30.0
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:\S*\w)?")  # the full stop of a sentence is not part of it
_SHORT_VERSION = re.compile(r"\b\d+\.\d+\b")
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

# By path and modification time, so that an upgrade is noticed.
_versions: dict[tuple[str, int], str] = {}


class Output(NamedTuple):
    """The exit status of a program and what it printed."""

    code: int
    out: str
    err: str


class Program:
    """A program on the PATH of `environ`, else at the path `elsewhere`.

    `package` is its npm package, and `distribution` its Python package: reading the version there is quicker than
    running `--version`. `version_env` is added to the environment of `--version`.
    """

    def __init__(
        self,
        command: str,
        environ: Mapping[str, str],
        *,
        elsewhere: str = "",
        package: str = "",
        distribution: str = "",
        version_env: Mapping[str, str] = _NO_VARIABLES,
    ) -> None:
        self.command = command
        self.environ = environ
        self._elsewhere = elsewhere
        self._package = package
        self._distribution = distribution
        self._version_env = version_env

    def path(self) -> str:
        """Return its path; empty if it is not installed."""
        import shutil

        conversation = shutil.which(self.command, path=self.environ.get("PATH", os.defpath))
        return conversation or (self._elsewhere if os.access(self._elsewhere, os.X_OK) else "")

    def executable(self) -> str:
        """Return how a command line names it: its path, or its name if it is not installed."""
        return self.path() or self.command

    def detect(self, tested_version: str) -> Detected | None:
        """Return its version and whether that is the tested one; None if it is not installed."""
        path = self.path()
        if not path:
            return None
        version = self._version(path)
        return Detected(program=path, version=version, tested=version == tested_version)

    def _version(self, path: str) -> str:
        real = os.path.realpath(path)
        key = (real, os.stat(real).st_mtime_ns)
        if key not in _versions:
            found = _packaged_version(real, self._package) or _distributed_version(real, self._distribution)
            _versions[key] = found or self._reported_version(path)
        return _versions[key]

    def _reported_version(self, path: str) -> str:
        try:
            output = run([path, "--version"], self.environ, cwd=os.sep, seconds=_VERSION_SECONDS, env=self._version_env)
        except OSError:
            return ""
        found = _VERSION.search(output.out) or _SHORT_VERSION.search(output.out)
        return found[0] if found else ""


def run(
    argv: Sequence[str], environ: Mapping[str, str], *, cwd: str, seconds: float, env: Mapping[str, str] = _NO_VARIABLES
) -> Output:
    """Run a program to its end, without our own environment variables and with `env` added.

    Raise TimeoutError if it takes longer. Processes that it started and left running are killed.
    """
    import subprocess
    import tempfile

    # Files, not pipes: a process that it leaves running would keep a pipe open, and reading it would block.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**for_child(environ), **env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{argv[0]} did not end within {seconds:g} s") from error
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # the whole process group has ended
            process.wait()
        return Output(process.returncode, _text(out), _text(err))


def check_argument(prompt: str) -> None:
    """Raise UsageError if a prompt is too long for a command line."""
    if len(prompt.encode("utf-8", "replace")) > _LONGEST_ARGUMENT:
        raise UsageError(
            f"a first prompt of {len(prompt):,} characters is too long for a command line",
            kept="nothing was started",
            hint="put the long text into the session and send a short prompt",
        )


def with_options(launch: Launch, *options: str) -> Launch:
    """Return a launch with more options of the program, before its others."""
    return Launch(
        argv=[launch.argv[0], *options, *launch.argv[1:]], cwd=launch.cwd, env=launch.env, changed=launch.changed
    )


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode("utf-8", "replace"))


def _packaged_version(real: str, package: str) -> str:
    folder = os.path.dirname(real)
    for _ in range(3 if package else 0):
        found = read_object(os.path.join(folder, "package.json"))
        if found.get("name") == package:
            return str(found.get("version", ""))
        folder = os.path.dirname(folder)
    return ""


def _distributed_version(real: str, distribution: str) -> str:
    """Return the version of a Python package in the environment that a program belongs to; empty if it is unknown."""
    environment = escape(os.path.dirname(os.path.dirname(real)))
    pattern = f"{distribution.replace('-', '_')}-*.dist-info"
    found = glob(os.path.join(environment, "lib", "python3*", "site-packages", pattern)) if distribution else []
    return os.path.basename(found[0]).removesuffix(".dist-info").rpartition("-")[2] if len(found) == 1 else ""


# ── as a model, without its terminal interface ─────────────────────────────────────────────────────

# A zero-width word joiner. Some programs read every file that is named after an @, anywhere in a prompt.
JOINER = "\u2060"


class AnswerReader:
    """Interprets the lines that a program prints during one run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._has_text = False
        self._begins_paragraph = False  # whether a blank line separates the next text from the earlier one
        self._model = ""

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one line."""
        raise NotImplementedError

    def _text(self, text: str) -> Iterator[AnswerPiece]:
        """Yield a part of the answer."""
        if text:
            yield AnswerText(f"\n\n{text}" if self._begins_paragraph and self._has_text else text)
            self._has_text, self._begins_paragraph = True, False

    def _paragraph(self, text: str) -> Iterator[AnswerPiece]:
        """Yield a complete message of the answer."""
        if text.strip():
            self._begins_paragraph = True
            yield from self._text(text)

    def _done(self, usage: Usage, stop: str = "end") -> Done:
        return Done(stop, usage, self._model)


def instructions(system: str) -> str:
    """Return a system prompt to put before the prompt, for programs that accept none, or none of this length."""
    if not system.strip():
        return ""
    tag = f"instructions-{fence([system])}"
    return f"Follow these instructions:\n<{tag}>\n{system}\n</{tag}>\n\n"


def system_file(scratch: str, system: str) -> str:
    """Return the path of a file with the system prompt, which only the user can read.

    The prompt may contain what `alfred` remembers, and every user of the machine can read the arguments of a program.
    The file is named by its content, so that the same prompt is written once.
    """
    data = system.encode("utf-8", "replace")
    path = os.path.join(scratch, f"system-{hashlib.sha256(data).hexdigest()[:16]}.md")
    if not os.path.exists(path):
        durable.replace_file(path, [data])
    return path


def without_file_names(text: str) -> str:
    """Return the text with a joiner after each @, so that it names no file. `with_file_names` removes the joiners."""
    return text.replace("@", f"@{JOINER}")


def with_file_names(text: str) -> str:
    """Return the model's text without our joiners."""
    return text.replace(JOINER, "")


# ── a tool on this machine ─────────────────────────────────────────────────────────────────────────


class LocalTool:
    """A tool whose files are below a home folder. `command` starts it; `package` is its npm package, `distribution` its
    Python package.
    """

    command = ""
    package = ""
    distribution = ""
    tested_version = ""

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        own = self.environ.get("HOME") or os.path.expanduser("~")
        self.home = home or own
        # Variables such as CODEX_HOME are about the user's own home, not about another one.
        self.own_environ: Mapping[str, str] = self.environ if self.home == own else {}
        self.program = self._find_program()

    def _find_program(self) -> Program:
        return Program(self.command, self.environ, package=self.package, distribution=self.distribution)

    def detect(self) -> Detected | None:
        """Return the installed program and its version; None if it is not installed."""
        return self.program.detect(self.tested_version)
