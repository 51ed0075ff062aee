"""Chats that consist only of our own commands: they asked for a conversation or stopped one, and are not one."""

from __future__ import annotations

from collections.abc import Iterable

from cortext.model.message import USER, Message

NAMES = ("resume", "stop-conversation", "related")  # of commands that are not conversation types
COMMANDS = tuple(f"/workspace.{name}" for name in NAMES)
LONGEST = 40  # messages; a chat that only asks is never longer
# As each tool spells them.
_SPELLED = (*COMMANDS, *(command.replace("/workspace.", "$workspace-") for command in COMMANDS))


def only_asks(messages: Iterable[Message]) -> bool:
    """Whether everything that the user said is a command that asks for a conversation or stops one."""
    said = [message.content.split(None, 1)[:1] for message in messages if message.role == USER and not message.aside]
    return bool(said) and all(words and words[0] in _SPELLED for words in said)
