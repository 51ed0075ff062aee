"""Running OpenCode for one command of its own: an import, a deletion."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from cortext.errors import NotFound, WriteFailed
from cortext.io import files as fsio
from cortext.tools.shared import program

COMMAND = "opencode"
TESTED_VERSION = "1.18.18"
_INLINE_CONFIG = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT")
_QUIET = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
_INSTALLED = b'{"lockfileVersion": 3, "packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}\n'
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Program(program.Program):
    """OpenCode on the PATH, or where its own installer puts it."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        environ = {name: value for name, value in environ.items() if name not in _INLINE_CONFIG}
        own = os.path.join(home, f".{COMMAND}", "bin", COMMAND)
        super().__init__(COMMAND, {**environ, **_QUIET}, elsewhere=own)
        self.home = home

    def run(self, arguments: Sequence[str], *, cwd: str, seconds: float) -> tuple[int, str]:
        """Run a command of OpenCode's in a folder: its exit status and what it printed."""
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
                done = program.run(argv, self.environ, cwd=cwd, seconds=seconds, env=self._alone(folder))
        except subprocess.TimeoutExpired as error:
            raise WriteFailed(
                f"OpenCode did not finish within {seconds:g} s: {' '.join(arguments)}",
                kept="the conversation, in our store",
                hint="try again; if it happens again, start opencode once by hand and look what it waits for",
            ) from error
        except OSError as error:
            raise NotFound(f"OpenCode could not be started in {cwd}: {error}", kept="nothing was changed") from error
        return done.code, _ESCAPES.sub("", f"{done.out}\n{done.err}").strip()

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
