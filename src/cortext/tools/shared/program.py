"""The program of an AI tool: where it is, which version it is, and running it with a time limit.

Every hook imports this with its adapter and starts nothing, so what only a start needs is imported there: 10 ms of
the 100 that a hook may take.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from cortext.errors import UsageError
from cortext.safety.environment import for_child
from cortext.tools.base import Detected
from cortext.tools.shared.jsonc import read_object

UNKNOWN = "unknown"
_LONGEST_ARGUMENT = 128 * 1024 - 1  # bytes: the limit of Linux for one argument
_VERSION_SECONDS = 30.0
_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")
_NOTHING: Mapping[str, str] = MappingProxyType({})

# What each program file said, by path and time of change: an upgrade is noticed.
_versions: dict[tuple[str, int], str] = {}


class Output(NamedTuple):
    """What a finished program left: its exit status and what it printed."""

    code: int
    out: str
    err: str


class Program:
    """A program on the PATH of `environ`, else at the path `elsewhere`.

    `package` is the npm package that it comes in, if that is a quicker way to its version than to ask it. `version_env`
    is added to the environment in which it is asked.
    """

    def __init__(
        self,
        command: str,
        environ: Mapping[str, str],
        *,
        elsewhere: str = "",
        package: str = "",
        version_env: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.command = command
        self.environ = environ
        self._elsewhere = elsewhere
        self._package = package
        self._version_env = version_env

    def path(self) -> str:
        """Where it is; empty where it is not installed."""
        import shutil

        found = shutil.which(self.command, path=self.environ.get("PATH", os.defpath))
        return found or (self._elsewhere if os.access(self._elsewhere, os.X_OK) else "")

    def detect(self, tested_version: str) -> Detected | None:
        """Whether it is installed, which version, and whether that is the tested one."""
        path = self.path()
        if not path:
            return None
        version = self._version(path)
        return Detected(program=path, version=version, tested=version == tested_version)

    def _version(self, path: str) -> str:
        real = os.path.realpath(path)
        key = (real, os.stat(real).st_mtime_ns)
        if key not in _versions:
            _versions[key] = _packaged_version(real, self._package) or self._reported_version(path)
        return _versions[key]

    def _reported_version(self, path: str) -> str:
        import subprocess

        try:
            said = run([path, "--version"], self.environ, cwd=os.sep, seconds=_VERSION_SECONDS, env=self._version_env)
        except (OSError, subprocess.TimeoutExpired):
            return UNKNOWN
        found = _VERSION.search(said.out)
        return found[0] if found else UNKNOWN


def run(
    argv: Sequence[str], environ: Mapping[str, str], *, cwd: str, seconds: float, env: Mapping[str, str] = _NOTHING
) -> Output:
    """Run a program to its end, without what only we need of the environment and with `env`.

    subprocess.TimeoutExpired where it takes longer; what it started and left running is killed with it.
    """
    import signal
    import subprocess
    import tempfile

    # Files, not pipes: a process that it leaves behind would keep a pipe open, and us waiting.
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
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it ended by itself, with all that it had started
            process.wait()
        return Output(process.returncode, _text(out), _text(err))


def check_argument(prompt: str) -> None:
    """Refuse a prompt that no program can be given on its command line."""
    if len(prompt.encode("utf-8", "replace")) > _LONGEST_ARGUMENT:
        raise UsageError(
            f"a first prompt of {len(prompt):,} characters is too long for a command line",
            kept="nothing was started",
            hint="hand the text over inside the session, and send a short prompt",
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
