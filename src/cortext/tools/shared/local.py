"""What the adapters of programs on this machine share: the user's home, the environment, and the program."""

from __future__ import annotations

import os
from collections.abc import Mapping

from cortext.tools.base import Detected
from cortext.tools.shared.program import Program


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
