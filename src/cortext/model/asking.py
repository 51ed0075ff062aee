"""Chats in which nothing was said but our own commands: they asked for a conversation, or stopped one, and are none."""

from __future__ import annotations

from collections.abc import Iterable

from cortext.model.message import USER, Message

COMMANDS = ("/workspace.resume", "/workspace.stop-conversation")
LONGEST = 40  # messages; a chat that only asked is never longer
# In each tool's own spelling.
_SPELLED = (*COMMANDS, *(command.replace("/workspace.", "$workspace-") for command in COMMANDS))


def only_asks(messages: Iterable[Message]) -> bool:
    """Whether all that the user said are commands that ask for a conversation or stop one."""
    said = [message.content.split(None, 1)[:1] for message in messages if message.role == USER and not message.aside]
    return bool(said) and all(words and words[0] in _SPELLED for words in said)
