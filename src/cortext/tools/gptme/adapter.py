"""gptme: the facts about it, and where its conversations and settings are."""

from __future__ import annotations

import os

from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.parts import HasReader, HasRefusal, HasRewinds, HasWriter, Part


class Gptme(HasReader, HasRewinds, HasWriter, HasRefusal, LocalTool):
    """The adapter for gptme, which has neither command files nor hooks that a project could add."""

    name = "gptme"
    title = "gptme"
    tested_version = "0.35.1"
    command = "gptme"
    distribution = "gptme"
    folder_variables = ("GPTME_LOGS_HOME",)
    prompt_is_public = True
    install_command = "pipx install gptme"

    reader = Part("cortext.tools.gptme.read:GptmeReader")
    writer = Part("cortext.tools.gptme.write:GptmeWriter")

    @property
    def logs(self) -> str:
        """The folder with all conversations of the user."""
        data = self.own_environ.get("XDG_DATA_HOME", "").strip() or os.path.join(self.home, ".local", "share")
        return self.own_environ.get("GPTME_LOGS_HOME", "").strip() or os.path.join(data, "gptme", "logs")

    @property
    def config(self) -> str:
        """The folder of the user's settings."""
        config = self.own_environ.get("XDG_CONFIG_HOME", "").strip() or os.path.join(self.home, ".config")
        return os.path.join(config, "gptme")
