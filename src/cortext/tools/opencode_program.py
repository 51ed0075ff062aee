"""Running OpenCode itself: where it is, which version, and one command with a time limit."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from cortext.errors import NotFound, WriteFailed

COMMAND = "opencode"
TESTED_VERSION = "1.18.18"
_VERSION_SECONDS = 30.0
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

# What a program file said its version was: by path and time of change, so that an upgrade is noticed.
_versions: dict[tuple[str, int], str] = {}


class Program:
    """The installed program with the environment that it is to see."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self.home = home
        self.environ = environ

    def path(self) -> str:
        """Where it is: on PATH, else where its own installer puts it; empty where it is not installed."""
        own = os.path.join(self.home, ".opencode", "bin", COMMAND)
        found = shutil.which(COMMAND, path=self.environ.get("PATH", os.defpath))
        return found or (own if os.access(own, os.X_OK) else "")

    def version(self, path: str) -> str:
        """What it says its version is; empty where it says nothing of use."""
        try:
            known = (path, os.stat(path).st_mtime_ns)
        except OSError:
            return ""
        if known not in _versions:
            try:
                code, said = self._run([path, "--version"], self.home or os.sep, _VERSION_SECONDS)
            except (OSError, subprocess.TimeoutExpired):
                return ""
            words = said.split()
            _versions[known] = words[-1] if code == 0 and words else ""
        return _versions[known]

    def run(self, arguments: Sequence[str], *, cwd: str, seconds: float) -> tuple[int, str]:
        """Run a command of OpenCode's in a folder: its exit status and what it said."""
        path = self.path()
        if not path:
            raise NotFound(
                "OpenCode is not installed here",
                kept="nothing was changed",
                hint="install it (npm install -g opencode-ai), or choose another tool with --ai",
            )
        # Plugins are left out: they have no part in this, and would make it wait for a package registry.
        command = [path, "--pure", *arguments]
        try:
            return self._run(command, cwd, seconds)
        except subprocess.TimeoutExpired as error:
            raise WriteFailed(
                f"OpenCode did not finish within {seconds:g} s: {' '.join(arguments)}",
                kept="the conversation, in our store",
                hint="try again; if it happens again, start opencode once by hand and look what it waits for",
            ) from error
        except OSError as error:
            raise NotFound(f"OpenCode could not be started in {cwd}: {error}", kept="nothing was changed") from error

    def _run(self, command: Sequence[str], cwd: str, seconds: float) -> tuple[int, str]:
        quiet = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        # A file, not a pipe: a process that it leaves behind would keep a pipe open, and us waiting.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**self.environ, **quiet},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
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
            output.seek(0)
            said = output.read().decode("utf-8", "replace")
        return process.returncode, _ESCAPES.sub("", said).strip()
