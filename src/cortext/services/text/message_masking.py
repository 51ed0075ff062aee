"""Messages and sessions as they may get into git or leave a store: without secrets, or with every text changed.

Every field is covered (`__struct_fields__`), also one that is added later. The store itself is not changed.
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
from cortext.safety.secrets.masking import Secret, find, mask, suspects
from cortext.safety.secrets.words import announces

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)
Change = Callable[[str, str], str]  # takes the key of a text (or "") and the text, and returns the new text


def mask_messages(messages: Sequence[Message]) -> tuple[list[Message], list[Secret]]:
    """Return the messages without secrets, and the secrets found.

    All texts are first searched together, because most conversations contain no secret. A message is masked only if
    that search found something in or next to it.
    """
    texts: list[str] = []
    ends: list[int] = []  # where each message ends in the joined text
    size = 0
    for message in messages:
        known = len(texts)
        texts += _strings(message)
        size += sum(map(len, texts[known:])) + len(texts) - known
        ends.append(size)
    suspicious: set[int] = set()
    for start, end in suspects("\n".join(texts)):
        suspicious.update(range(bisect_right(ends, start), bisect_right(ends, end) + 1))
    clean = list(messages)
    findings: list[Secret] = []
    for index in sorted(suspicious):
        if index < len(clean):
            clean[index], found = mask_message(clean[index])
            findings += found
    return clean, findings


def _strings(message: Message) -> list[str]:
    """Return every text that `mask_message` would search, together with its key if it has one."""
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


def mask_message(message: Message, allow: AbstractSet[str] = frozenset()) -> tuple[Message, list[Secret]]:
    """Return the message without secrets, and the secrets found; the same object if there are none.

    A secret that is in the content and also in a part is found twice, with the same kind and mark.
    """
    findings: list[Secret] = []
    return _changed(message, _masking(allow, findings)), findings


def mask_session(session: Session) -> Session:
    """Return the session without secrets in its title, its summary or any other text."""
    return mask_struct(session)


def mask_struct(struct: AnyStruct) -> AnyStruct:
    """Return the struct without the secrets in its texts, at any depth."""
    return _changed(struct, _masking(frozenset(), []))


def mask_value(value: Any) -> Any:
    """Return a JSON value without the secrets in its texts and keys."""
    return _nested(value, _masking(frozenset(), []))


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with its texts and keys changed; the same object if nothing changed."""
    return _nested(value, lambda name, text: change(text))


def change_struct(struct: AnyStruct, change: Callable[[str], str]) -> AnyStruct:
    """Return a message or a session with every text in it changed, at any depth."""
    return _changed(struct, lambda name, text: change(text))


def _masking(allow: AbstractSet[str], findings: list[Secret]) -> Change:
    def change(name: str, text: str) -> str:
        return _mask_value(name, text, allow, findings) if name else _mask_text(text, allow, findings)

    return change


def _changed(struct: AnyStruct, change: Change) -> AnyStruct:
    """Return the struct with every text in it changed, at any depth; the same object if nothing changed."""
    new: dict[str, Any] = {}
    for name in struct.__struct_fields__:
        old = getattr(struct, name)
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
        # Only texts are compared: a deeply nested value could not be, and is the same object if nothing changed.
        if now is not old and not (isinstance(old, str) and now == old):
            new[name] = now
    return replace(struct, **new) if new else struct


def _mask_text(text: str, allow: AbstractSet[str], findings: list[Secret]) -> str:
    masked = mask(text, allow)
    findings += masked.findings
    return masked.text


def _mask_value(key: str, value: str, allow: AbstractSet[str], findings: list[Secret]) -> str:
    """Mask a value by itself and then together with its key, which may be all that makes it a secret."""
    value = _mask_text(value, allow, findings)
    before = f'"{key}": "'
    for finding in reversed(find(f'{before}{value}"', allow)):
        start, end = finding.start - len(before), finding.end - len(before)
        if start >= 0 and end <= len(value):
            value = f"{value[:start]}[masked {finding.kind} {finding.mark}]{value[end:]}"
            findings.append(finding._replace(start=start, end=end))
    return value


def _nested(value: Any, change: Change) -> Any:
    """Return a JSON value with every text and key changed. Not recursive, because a tool may nest to any depth."""
    differs = False
    root: list[Any] = [value]
    todo: list[tuple[Any, Any, str]] = [(root, 0, "")]
    while todo:
        container, index, name = todo.pop()
        current = container[index]
        if isinstance(current, str):
            container[index] = new = change(name, current) if current else current
            differs = differs or new != current
        elif isinstance(current, dict):
            keys = [(key, change("", key) if isinstance(key, str) and key else key) for key in current]
            container[index] = copy = {new: current[key] for key, new in keys}
            differs = differs or any(key != new for key, new in keys)
            todo += [(copy, new, str(key)) for key, new in reversed(keys)]
        elif isinstance(current, list | tuple):
            container[index] = items = list(current)
            todo += [(items, index, name) for index in reversed(range(len(items)))]
    return root[0] if differs else value
