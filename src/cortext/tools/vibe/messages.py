"""The messages of Mistral Vibe as ours: those that the model gets (Vibe 3), and the lines of Vibe 2."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    joined_text,
)
from cortext.safety.framing import BEGIN
from cortext.tools.vibe.records import Line

_BLOCK = re.compile(rf"^{re.escape(BEGIN)}", re.MULTILINE)
_COMMAND = re.compile(r"/workspace[.-]([\w.-]+)(?:\s+(.*))?", re.DOTALL)


def command_of(text: str) -> str:
    """Return our command that a prompt calls (`/workspace.plan`); empty if it calls none."""
    found = _COMMAND.fullmatch(text.strip()) if text.lstrip().startswith("/workspace") else None
    return f"/workspace.{found[1]}" if found else ""


def from_context(message: dict[str, Any]) -> Message | None:
    """Return a message that the model gets; None if it is not part of a conversation."""
    role, content = message.get("role"), message.get("content")
    parts = [_part(item) for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    if role == TOOL:
        output = "\n\n".join(part.text for part in parts if part.type == TEXT)
        failed = message.get("outcome") == "failure"
        return _result(_text(message, "tool_call_id"), _text(message, "name"), output, is_error=failed)
    return spoken(role, parts) if role in (USER, ASSISTANT) else None


def from_answer(items: list[dict[str, Any]]) -> Message:
    """Return the model's answer as the journal records it."""
    return spoken(ASSISTANT, [_part(item) for item in items])


def from_line(line: Line) -> Message | None:
    """Return a message of Vibe 2, without the field that we may have added."""
    texts = [line.content] if isinstance(line.content, str) else []
    parts = [Part(TEXT, text=text) for text in texts if text]
    if isinstance(line.content, list):
        parts = [_part(item) for item in line.content]
    if line.role == TOOL:
        return _result(line.tool_call_id or "", line.name or "", joined_text(parts))
    if line.role not in (USER, ASSISTANT):
        return None
    if line.reasoning_content:
        parts.insert(0, Part(THINKING, text=line.reasoning_content))
    for call in line.tool_calls or ():
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        given = _json(_text(function, "arguments"))
        parts.append(Part(TOOL_CALL, id=_text(call, "id"), name=_text(function, "name"), input=given))
    return spoken(line.role, parts)


def spoken(role: str, parts: list[Part]) -> Message:
    """Return what the user or the model said."""
    content = joined_text(parts)
    message = Message(role=role, content=content, parts=None if all(part.type == TEXT for part in parts) else parts)
    if role == USER and BEGIN in content and _BLOCK.search(content):
        message.aside, message.extra = True, {"resume_block": True}
    return message


def _result(call: str, name: str, output: str, *, is_error: bool = False) -> Message:
    return Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=is_error)])


def _part(item: dict[str, Any]) -> Part:
    kind = _text(item, "type")
    if kind == "text":
        return Part(TEXT, text=_text(item, "text"))
    if kind == "reasoning":
        content = item.get("content")
        pieces = content if isinstance(content, list) else []
        return Part(THINKING, text="\n\n".join(_text(piece, "text") for piece in pieces if isinstance(piece, dict)))
    if kind == "tool_call":
        arguments = item.get("arguments")
        raw = _text(item, "arguments_json") or (_text(arguments, "raw") if isinstance(arguments, dict) else "")
        return Part(TOOL_CALL, id=_text(item, "id"), name=_text(item, "name"), input=_json(raw))
    if kind == "resource":
        resource = item.get("resource")
        resource = resource if isinstance(resource, dict) else {}
        return Part(FILE, ref=_text(resource, "uri"), text=_text(resource, "text"))
    if kind in ("image", "image_url"):
        return Part(IMAGE, ref=_text(item, "uri"), media_type=_text(item, "mime_type") or _text(item, "mimeType"))
    return Part(kind or "unknown", text=_text(item, "text"))


def _json(text: str) -> Any:
    """Return the arguments of a call: an object, or the text itself if the model wrote something else."""
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return text


def _text(item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""
