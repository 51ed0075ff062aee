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
from cortext.tools.shared.typed import is_resume_block
from cortext.tools.shared.values import objects, word
from cortext.tools.vibe.records import Line

_SKILL = '<skill_content name="'
_SUMMARY = re.compile(r"<compaction_summary>\n(.*)\n</compaction_summary>", re.DOTALL)
_COMMAND = re.compile(r"/workspace[.-]([\w.-]+)(?:\s+(.*))?", re.DOTALL)


def command_of(text: str) -> str:
    """Return our command that a prompt calls (`/workspace.plan`); empty if it calls none."""
    found = _COMMAND.fullmatch(text.strip()) if text.lstrip().startswith("/workspace") else None
    return f"/workspace.{found[1]}" if found else ""


def from_context(message: dict[str, Any]) -> Message | None:
    """Return a message that the model gets; None if it is not part of a conversation."""
    role, parts = message.get("role"), [_part(item) for item in objects(message, "content")]
    if role == TOOL:
        output = "\n\n".join(part.text for part in parts if part.type == TEXT)
        failed = message.get("outcome") == "failure"
        return _result(word(message, "tool_call_id"), word(message, "name"), output, is_error=failed)
    if role == USER:  # after the words of the user, Vibe adds the text of the skill that they call
        parts = [part for index, part in enumerate(parts) if not (index and part.text.startswith(_SKILL))]
    return spoken(role, parts) if role in (USER, ASSISTANT) else None


def summary_in(text: str) -> str:
    """Return the summary in a text that Vibe sends after a compaction; empty if there is none."""
    found = _SUMMARY.search(text)
    return found[1] if found else ""


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
        given = _json(word(call, "function", "arguments"))
        parts.append(Part(TOOL_CALL, id=word(call, "id"), name=word(call, "function", "name"), input=given))
    return spoken(line.role, parts)


def spoken(role: str, parts: list[Part]) -> Message:
    """Return what the user or the model said."""
    content = joined_text(parts)
    message = Message(role=role, content=content, parts=None if all(part.type == TEXT for part in parts) else parts)
    if role == USER and is_resume_block(content):
        message.aside, message.extra = True, {"resume_block": True}
    return message


def _result(call: str, name: str, output: str, *, is_error: bool = False) -> Message:
    return Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=is_error)])


def _part(item: dict[str, Any]) -> Part:
    kind = word(item, "type")
    if kind == "text":
        return Part(TEXT, text=word(item, "text"))
    if kind == "reasoning":
        return Part(THINKING, text="\n\n".join(word(piece, "text") for piece in objects(item, "content")))
    if kind == "tool_call":
        raw = word(item, "arguments_json") or word(item, "arguments", "raw")
        return Part(TOOL_CALL, id=word(item, "id"), name=word(item, "name"), input=_json(raw))
    if kind == "resource":
        return Part(FILE, ref=word(item, "resource", "uri"), text=word(item, "resource", "text"))
    if kind in ("image", "image_url"):
        return Part(IMAGE, ref=word(item, "uri"), media_type=word(item, "mime_type") or word(item, "mimeType"))
    return Part(kind or "unknown", text=word(item, "text"))


def _json(text: str) -> Any:
    """Return the arguments of a call: an object, or the text itself if the model wrote something else."""
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return text
