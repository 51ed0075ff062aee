"""Masking the secrets in a message: in what was said, in tool calls and in their results."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.model.message import Message, Part
from cortext.safety.secrets import Finding, mask


def mask_message(message: Message, allow: frozenset[str] = frozenset()) -> tuple[Message, list[Finding]]:
    """The message without secrets (the same object where it has none), and what was found."""
    findings: list[Finding] = []
    content = _text(message.content, findings, allow)
    parts = [_part(part, findings, allow) for part in message.parts] if message.parts else message.parts
    if not findings:
        return message, findings
    return msgspec.structs.replace(message, content=content, parts=parts), findings


def mask_json(value: Any, findings: list[Finding], allow: frozenset[str] = frozenset()) -> Any:
    """Any JSON value with the secrets in its texts masked; keys stay."""
    if isinstance(value, str):
        return _text(value, findings, allow)
    if isinstance(value, list):
        return [mask_json(item, findings, allow) for item in value]
    if isinstance(value, dict):
        return {key: mask_json(item, findings, allow) for key, item in value.items()}
    return value


def _part(part: Part, findings: list[Finding], allow: frozenset[str]) -> Part:
    before = len(findings)
    text = _text(part.text, findings, allow)
    output = _text(part.output, findings, allow)
    given = mask_json(part.input, findings, allow)
    data = mask_json(part.data, findings, allow)
    if len(findings) == before:
        return part
    return msgspec.structs.replace(part, text=text, output=output, input=given, data=data)


def _text(text: str, findings: list[Finding], allow: frozenset[str]) -> str:
    if len(text) < 8:
        return text
    masked = mask(text, allow=allow)
    findings += masked.findings
    return masked.text
