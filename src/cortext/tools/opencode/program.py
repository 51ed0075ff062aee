"""Running OpenCode itself: where it is, which version, and one command with a time limit."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cortext.errors import NotFound, WriteFailed
from cortext.io import files as fsio
from cortext.safety.environment import for_child
from cortext.tools.shared.programs import program_on

COMMAND = "opencode"
TESTED_VERSION = "1.18.18"
_VERSION_SECONDS = 30.0
_INLINE_CONFIG = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT")
_INSTALLED = b'{"lockfileVersion": 3, "packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}\n'
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
        found = program_on(self.environ.get("PATH", os.defpath), COMMAND)
        return found or (own if os.access(own, os.X_OK) else "")

    def version(self, path: str) -> str:
        """What it says its version is; empty where it says nothing of use."""
        try:
            known = (path, os.stat(path).st_mtime_ns)
        except OSError:
            return ""
        if known not in _versions:
            import subprocess

            try:
                code, said = self._run([path, "--version"], self.home or os.sep, _VERSION_SECONDS)
            except (OSError, subprocess.TimeoutExpired):
                return ""
            words = said.split()
            _versions[known] = words[-1] if code == 0 and words else ""
        return _versions[known]

    def run(self, arguments: Sequence[str], *, cwd: str, seconds: float) -> tuple[int, str]:
        """Run a command of OpenCode's in a folder: its exit status and what it said."""
        import subprocess
        import tempfile

        path = self.path()
        if not path:
            raise NotFound(
                "OpenCode is not installed here",
                kept="nothing was changed",
                hint="install it (npm install -g opencode-ai), or choose another tool with --ai",
            )
        try:
            with tempfile.TemporaryDirectory(prefix="cortext-", dir=self.environ.get("TMPDIR") or None) as folder:
                return self._run([path, "--pure", *arguments], cwd, seconds, self._alone(folder))
        except subprocess.TimeoutExpired as error:
            raise WriteFailed(
                f"OpenCode did not finish within {seconds:g} s: {' '.join(arguments)}",
                kept="the conversation, in our store",
                hint="try again; if it happens again, start opencode once by hand and look what it waits for",
            ) from error
        except OSError as error:
            raise NotFound(f"OpenCode could not be started in {cwd}: {error}", kept="nothing was changed") from error

    def _alone(self, folder: str) -> dict[str, str]:
        """An environment in which it sees no config, and so finds nothing to install.

        At every start it begins to install its plugin package into each config folder that has none. A short command
        ends before that does, and leaves a lock for which the next start waits a minute.
        """
        own = os.path.join(folder, COMMAND)
        fsio.ensure_folder(os.path.join(own, "node_modules"))
        fsio.replace_file(os.path.join(own, "package-lock.json"), [_INSTALLED])
        data = os.path.join(self.home, ".local", "share")
        alone = {
            "XDG_CONFIG_HOME": folder,
            "XDG_DATA_HOME": self.environ.get("XDG_DATA_HOME") or data,
            "OPENCODE_TEST_HOME": folder,
            "OPENCODE_CONFIG_DIR": own,
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        }
        # Git, which tells it the project, may have its config there too.
        config = self.environ.get("XDG_CONFIG_HOME") or os.path.join(self.home, ".config")
        git = os.path.join(config, "git", "config")
        if os.path.exists(git) and not os.path.exists(os.path.join(self.home, ".gitconfig")):
            alone["GIT_CONFIG_GLOBAL"] = git
        return alone

    def _run(
        self, command: Sequence[str], cwd: str, seconds: float, more: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[int, str]:
        import signal
        import subprocess
        import tempfile

        quiet = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        given_on = for_child(self.environ)
        environ = {name: value for name, value in given_on.items() if name not in _INLINE_CONFIG}
        # A file, not a pipe: a process that it leaves behind would keep a pipe open, and us waiting.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**environ, **quiet, **more},
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
