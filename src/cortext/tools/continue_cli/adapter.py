"""Continue: the facts about it.

The command-line program has no hooks that run (1.5.47 knows the names of Claude Code's, but calls none) and reads no
settings of a project, so there is nothing to install.
"""

from __future__ import annotations

import os

from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.parts import HasReader, HasWriter, Part


class Continue(HasReader, HasWriter, LocalTool):
    """The adapter for Continue."""

    name = "continue"
    title = "Continue"
    tested_version = "1.5.47"
    command = "cn"
    package = "@continuedev/cli"
    folder_variables = ("CONTINUE_GLOBAL_DIR",)
    # With a first prompt, `cn --resume` sends only that, and overwrites the session's file with what follows.
    prompt_is_public = True
    user_speaks_first = True
    install_command = "npm install -g @continuedev/cli"

    reader = Part("cortext.tools.continue_cli.read:ContinueReader")
    writer = Part("cortext.tools.continue_cli.write:ContinueWriter")

    @property
    def folder(self) -> str:
        """The folder of its sessions."""
        base = self.own_environ.get("CONTINUE_GLOBAL_DIR") or os.path.join(self.home, ".continue")
        return os.path.join(base, "sessions")
