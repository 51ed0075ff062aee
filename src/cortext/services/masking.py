"""A message without its secrets: the content and every text in its parts, for what leaves this machine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec.structs import replace

from cortext.model.message import Message, Part
from cortext.safety.secret_words import announces
from cortext.safety.secrets import Finding, find, mask, suspects


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
    todo: list[tuple[str, Any]] = [("", message.extra)] if message.extra else []
    for part in message.parts or ():
        if part.text not in message.content:
            found.append(part.text)
        if part.output:
            found.append(part.output)
        todo += [("", value) for value in (part.input, part.data) if value]
    while todo:
        name, value = todo.pop()
        if isinstance(value, str):
            found.append(value)
            if name and announces(name):
                found.append(f'"{name}": "{value}"')
        elif isinstance(value, dict):
            todo += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            todo += [(name, inner) for inner in value]
    return found


def mask_message(message: Message, allow: AbstractSet[str] = frozenset()) -> tuple[Message, list[Finding]]:
    """The message with its secrets masked, and what they were; the same object where there is none.

    A secret that stands in the content and again in a part is found twice: kind and mark tell that it is one.
    """
    content, findings = mask(message.content, allow)
    extra = _mask_nested(message.extra, allow, findings)
    parts = message.parts
    if parts:
        masked = [_mask_part(part, allow, findings) for part in parts]
        parts = masked if findings else parts
    if not findings:
        return message, findings
    return replace(message, content=content, parts=parts, extra=extra), findings


def _mask_part(part: Part, allow: AbstractSet[str], findings: list[Finding]) -> Part:
    known = len(findings)
    text = _mask_text(part.text, allow, findings)
    output = _mask_text(part.output, allow, findings)
    given = _mask_nested(part.input, allow, findings)
    data = _mask_nested(part.data, allow, findings)
    return part if len(findings) == known else replace(part, text=text, output=output, input=given, data=data)


def _mask_text(text: str, allow: AbstractSet[str], findings: list[Finding]) -> str:
    if not text:
        return text
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


def _mask_nested(value: Any, allow: AbstractSet[str], findings: list[Finding]) -> Any:
    """Strings at any depth of what JSON can hold. No recursion: a tool may nest as deep as it likes."""
    if value is None:
        return None
    known = len(findings)
    root: list[Any] = [value]
    todo: list[tuple[Any, Any, str]] = [(root, 0, "")]
    while todo:
        holder, place, name = todo.pop()
        here = holder[place]
        if isinstance(here, str):
            holder[place] = _mask_value(name, here, allow, findings) if name else _mask_text(here, allow, findings)
        elif isinstance(here, dict):
            holder[place] = copy = dict(here)
            todo += [(copy, key, str(key)) for key in reversed(copy)]
        elif isinstance(here, list | tuple):
            holder[place] = items = list(here)
            todo += [(items, index, name) for index in reversed(range(len(items)))]
    return root[0] if len(findings) > known else value
