"""Aider: the facts about it, and where the histories of our own are that it continues."""

from __future__ import annotations

import os

from cortext.tools.base import Collection
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.parts import HasReader, HasWriter, Part, forward


class Aider(HasReader, HasWriter, LocalTool):
    """The adapter for Aider, which has neither tool calls nor hooks.

    It cannot be started with a first prompt and stay open (`--message` answers and exits), so the context of a resumed
    conversation is the last message of the history, and the user speaks first.
    """

    name = "aider"
    title = "Aider"
    tested_version = "0.86.2"
    command = "aider"
    distribution = "aider-chat"
    prompt_is_public = True
    user_speaks_first = True
    install_command = "pipx install aider-chat"

    reader = Part("cortext.tools.aider.read:AiderReader")
    writer = Part("cortext.tools.aider.write:AiderWriter")
    transcripts_in = forward("reader", Collection.transcripts_in)

    @property
    def data(self) -> str:
        """The folder with cortext's data."""
        data = self.own_environ.get("XDG_DATA_HOME") or os.path.join(self.home, ".local", "share")
        return os.path.join(data, "cortext")

    @property
    def folder(self) -> str:
        """The folder of the histories of our own."""
        return os.path.join(self.data, "aider")
