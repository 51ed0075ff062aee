"""What is kept of a conversation beside the talk: our own commands with their answers, and what programs write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cortext.model.message import SYSTEM, TOOL_CALL, USER, Message

OWN_COMMANDS = ("resume", "stop-conversation", "related")  # of commands that are not conversation types
ASKING_COMMANDS = tuple(f"/workspace.{name}" for name in OWN_COMMANDS)
LONGEST_ASKING = 40  # messages; a chat that only asks is never longer
# Key in the `extra` of an aside: the command of ours that it is, or is the answer to; or NOTICE.
ASIDE_OF = "aside_of"
_RESUME, _STOP, _ = OWN_COMMANDS
_COMMAND = re.compile(rf"[/$](?:skill:)?workspace[.-]({'|'.join(OWN_COMMANDS)})(?=\s|$)")  # as each tool spells it
# A call with which a model carries out one of our commands, in its name or its input.
OWN_CALL = re.compile(
    rf"mcp_+cortext|\bcortext_|workspace[.-](?:{'|'.join(OWN_COMMANDS)})\b"
    r"|(?:^|[\s/'\"])cortext (?:stop|resume|list|show|search)\b"
)
_CHOICE = re.compile(r"#?\d{1,3}[.)]?")  # an answer to a list of conversations
# What programs write by themselves, as words of the user or of the model.
_FILLERS = frozenset(("No response requested.",))
_NOTIFICATION = "<task-notification>"
NOTICE = "notice"


def with_asides(
    messages: Iterable[Message], before: Message | None = None, *, resumed: bool = False
) -> Iterator[Message]:
    """Yield the messages; those that are not part of the talk are marked as asides. Nothing else decides that.

    They are our own commands with their answers, and what a program writes by itself. `before` is the message that
    these follow; `resumed`: they follow one of our commands that continued the conversation here.
    """
    kind = (before.extra or {}).get(ASIDE_OF) if before is not None else ""
    command = kind if kind in OWN_COMMANDS else _RESUME if resumed else ""
    for message in messages:
        if not message.aside:
            kind = NOTICE if _is_notice(message) else _command_at(message, command)
            if kind == NOTICE:
                message.role = SYSTEM
            else:
                command = kind
            if kind:
                message.aside, message.extra = True, {**(message.extra or {}), ASIDE_OF: kind}
        yield message


def is_beside(message: Message) -> bool:
    """Whether `with_asides` has marked this message."""
    return message.aside and ASIDE_OF in (message.extra or {})


def _is_notice(message: Message) -> bool:
    """Whether a program wrote this, and neither the user nor the model."""
    text = message.content
    return text.startswith(_NOTIFICATION) or (len(text) < 100 and text.strip() in _FILLERS)


def _command_at(message: Message, command: str) -> str:
    """Return the command of ours that a message is, or is the answer to; `command` is that of the one before."""
    if message.role == USER:
        text = message.content.lstrip()
        if found := _COMMAND.match(text):
            return found[1]
        return command if command == _RESUME and _CHOICE.fullmatch(text.rstrip()) else ""
    # A model that goes on to work after a resume is in the talk again; after a stop it only writes the notes.
    calls = message.parts_of(TOOL_CALL) if command and command != _STOP else []
    is_own = all(OWN_CALL.search(f"{part.name} {str(part.input)[:2000]}") for part in calls)
    return command if is_own else ""


def only_asks(messages: Iterable[Message]) -> bool:
    """Whether everything that the user said is a command that asks for a conversation or stops one."""
    asked = False
    for message in messages:
        if message.role == USER and (not message.aside or is_beside(message)):
            if not message.aside and not _COMMAND.match(message.content):
                return False
            asked = True
    return asked
