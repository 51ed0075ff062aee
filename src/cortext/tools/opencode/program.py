"""Run one of OpenCode's own commands: an import, a deletion."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from cortext.errors import NotFound, WriteFailed
from cortext.io import durable
from cortext.tools.shared import program

COMMAND = "opencode"
TESTED_VERSION = "1.18.18"
_INLINE_CONFIG = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT")
_NO_UPDATES = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
_LOCK_FILE = b'{"lockfileVersion": 3, "packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}\n'
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Program(program.Program):
    """OpenCode on the PATH, or where its installer puts it."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        environ = {name: value for name, value in environ.items() if name not in _INLINE_CONFIG}
        installed = os.path.join(home, f".{COMMAND}", "bin", COMMAND)
        super().__init__(COMMAND, {**environ, **_NO_UPDATES}, elsewhere=installed)
        self.home = home

    def run(self, arguments: Sequence[str], *, cwd: str, seconds: float) -> tuple[int, str]:
        """Run a command of OpenCode in a folder; return its exit status and its output."""
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
                argv = [path, "--pure", *arguments]
                done = program.run(argv, self.environ, cwd=cwd, seconds=seconds, env=self._without_config(folder))
        except subprocess.TimeoutExpired as error:
            raise WriteFailed(
                f"OpenCode did not finish within {seconds:g} s: {' '.join(arguments)}",
                kept="the conversation, in our store",
                hint="try again; if it still hangs, start opencode by hand and check what it waits for",
            ) from error
        except OSError as error:
            raise NotFound(f"OpenCode could not be started in {cwd}: {error}", kept="nothing was changed") from error
        return done.code, _ESCAPES.sub("", f"{done.out}\n{done.err}").strip()

    def _without_config(self, folder: str) -> dict[str, str]:
        """Return an environment without any config, so that OpenCode finds nothing to install.

        At every start it begins to install its plugin package into each config folder that lacks it. A short command
        ends before the installation does, and leaves a lock for which the next start waits a minute.
        """
        config_folder = os.path.join(folder, COMMAND)
        durable.ensure_folder(os.path.join(config_folder, "node_modules"))
        durable.replace_file(os.path.join(config_folder, "package-lock.json"), [_LOCK_FILE])
        data = os.path.join(self.home, ".local", "share")
        environment = {
            "XDG_CONFIG_HOME": folder,
            "XDG_DATA_HOME": self.environ.get("XDG_DATA_HOME") or data,
            "OPENCODE_TEST_HOME": folder,
            "OPENCODE_CONFIG_DIR": config_folder,
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        }
        # OpenCode asks Git for the project, and Git may have its config in the folder that we replaced.
        config = self.environ.get("XDG_CONFIG_HOME") or os.path.join(self.home, ".config")
        git = os.path.join(config, "git", "config")
        if os.path.exists(git) and not os.path.exists(os.path.join(self.home, ".gitconfig")):
            environment["GIT_CONFIG_GLOBAL"] = git
        return environment
