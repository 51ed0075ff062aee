"""The one way out of a store: a message or a session without its secrets, and without markers that could work.

Every field is looked at, whatever it is called (`__struct_fields__`): a field that is added later is covered by itself.
What is in the store stays as it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.safety import framing
from cortext.safety.secrets.masking import Finding, find, mask, suspects
from cortext.safety.secrets.words import announces

Kept = TypeVar("Kept", bound=msgspec.Struct)
Change = Callable[[str, str], str]  # the name that a text stands under (or none) and the text; what it becomes


def mask_messages(messages: Sequence[Message]) -> tuple[list[Message], list[Finding]]:
    """Many messages without their secrets, and what these were.

    All texts are looked through at once first: most talks hold no secret, and a message is only taken apart where
    that look found something in it or right beside it.
    """
    texts: list[str] = []
    ends: list[int] = []  # of each message, in the joined text
    size = 0
    for message in messages:
        known = len(texts)
        texts += _strings(message)
        size += sum(map(len, texts[known:])) + len(texts) - known
        ends.append(size)
    places: set[int] = set()
    for start, end in suspects("\n".join(texts)):
        places.update(range(bisect_right(ends, start), bisect_right(ends, end) + 1))
    clean = list(messages)
    findings: list[Finding] = []
    for place in sorted(places):
        if place < len(clean):
            clean[place], found = mask_message(clean[place])
            findings += found
    return clean, findings


def _strings(message: Message) -> list[str]:
    """Every text that `mask_message` would look at, those with a name under their name."""
    found = [message.content]
    todo: list[tuple[str, Any]] = []
    for name in message.__struct_fields__:
        if name not in ("content", "parts"):
            value = getattr(message, name)
            if isinstance(value, str):
                found.append(value)
            elif value:
                todo.append(("", value))
    for part in message.parts or ():
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if not isinstance(value, str):
                if value:
                    todo.append(("", value))
            elif value and not (name == "text" and value in message.content):
                found.append(value)
    while todo:
        name, value = todo.pop()
        if isinstance(value, str):
            found.append(value)
            if name and announces(name):
                found.append(f'"{name}": "{value}"')
        elif isinstance(value, dict):
            found += [key for key in value if isinstance(key, str)]
            todo += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            todo += [(name, inner) for inner in value]
    return found


def mask_message(message: Message, allow: AbstractSet[str] = frozenset()) -> tuple[Message, list[Finding]]:
    """The message with its secrets masked, and what they were; the same object where there is none.

    A secret that stands in the content and again in a part is found twice: kind and mark tell that it is one.
    """
    findings: list[Finding] = []
    return _changed(message, _masking(allow, findings)), findings


def mask_session(session: Session) -> Session:
    """The session as it may leave: its title, its summary and everything else that somebody could have written."""
    return mask_struct(session)


def mask_struct(kept: Kept) -> Kept:
    """Any struct without the secrets in its texts, at any depth."""
    return _changed(kept, _masking(frozenset(), []))


def mask_value(value: Any) -> Any:
    """Whatever JSON can hold without its secrets, the keys included."""
    return _nested(value, _masking(frozenset(), []))


def disarm(kept: Kept) -> Kept:
    """A message or a session for a model: no text in it draws a border of ours."""
    return _changed(kept, lambda name, text: framing.disarmed(text))


def _masking(allow: AbstractSet[str], findings: list[Finding]) -> Change:
    def change(name: str, text: str) -> str:
        return _mask_value(name, text, allow, findings) if name else _mask_text(text, allow, findings)

    return change


def _changed(kept: Kept, change: Change) -> Kept:
    """A struct with every text in it changed, at any depth; the same object where none did."""
    new: dict[str, Any] = {}
    for name in kept.__struct_fields__:
        old = getattr(kept, name)
        now: Any = old
        if isinstance(old, str):
            now = change("", old) if old else old
        elif isinstance(old, msgspec.Struct):
            now = _changed(old, change)
        elif isinstance(old, list) and old and isinstance(old[0], msgspec.Struct):
            items = [_changed(item, change) for item in old]
            now = items if any(one is not two for one, two in zip(items, old, strict=True)) else old
        elif isinstance(old, list | dict):
            now = _nested(old, change)
        # Only texts are compared: what is nested too deep could not be, and is the same object where nothing changed.
        if now is not old and not (isinstance(old, str) and now == old):
            new[name] = now
    return replace(kept, **new) if new else kept


def _mask_text(text: str, allow: AbstractSet[str], findings: list[Finding]) -> str:
    masked = mask(text, allow)
    findings += masked.findings
    return masked.text


def _mask_value(key: str, value: str, allow: AbstractSet[str], findings: list[Finding]) -> str:
    """A value by itself; and then under its name, which may be all that makes it a secret."""
    value = _mask_text(value, allow, findings)
    before = f'"{key}": "'
    for finding in reversed(find(f'{before}{value}"', allow)):
        start, end = finding.start - len(before), finding.end - len(before)
        if start >= 0 and end <= len(value):
            value = f"{value[:start]}[masked {finding.kind} {finding.mark}]{value[end:]}"
            findings.append(finding._replace(start=start, end=end))
    return value


def _nested(value: Any, change: Change) -> Any:
    """Strings at any depth of what JSON can hold, keys too. No recursion: a tool may nest as deep as it likes."""
    differs = False
    root: list[Any] = [value]
    todo: list[tuple[Any, Any, str]] = [(root, 0, "")]
    while todo:
        holder, place, name = todo.pop()
        here = holder[place]
        if isinstance(here, str):
            holder[place] = now = change(name, here) if here else here
            differs = differs or now != here
        elif isinstance(here, dict):
            keys = [(key, change("", key) if isinstance(key, str) and key else key) for key in here]
            holder[place] = copy = {now: here[key] for key, now in keys}
            differs = differs or any(key != now for key, now in keys)
            todo += [(copy, now, str(key)) for key, now in reversed(keys)]
        elif isinstance(here, list | tuple):
            holder[place] = items = list(here)
            todo += [(items, index, name) for index in reversed(range(len(items)))]
    return root[0] if differs else value
