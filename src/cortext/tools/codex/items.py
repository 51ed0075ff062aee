"""The content of one item of a Codex rollout: its role, text and parts."""

from __future__ import annotations

import re

from cortext.model.message import (
    ASSISTANT,
    IMAGE,
    SYSTEM,
    TEXT,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Part,
    joined_text,
)
from cortext.tools.base import About, Counts
from cortext.tools.codex import records
from cortext.tools.codex.records import ContentItem, Item
from cortext.tools.shared.lines import derived_id, note

RESUME_MARKER = "[RESUMED CONVERSATION]"
_EXIT_CODE = re.compile(r"(?:Chunk ID: .*\n)?(?:Wall time: .*\n)?(?:Process exited with code|Exit code:) (-?\d+)")
_PATH = re.compile(r'path="([^"]*)"')
_UNIQUE_ID = 20  # characters; a shorter id may be a local model's counter, which repeats


Content = tuple[str, str, list[Part] | None]  # role, text, and the parts if there is more than text
_OWN_SKILLS = "workspace-"  # a resume sends their current text
_NOTHING: Content = "", "", None


class Items:
    """Reads items, and remembers the tool calls without a result yet."""

    def __init__(self, key: str, about: About, counts: Counts) -> None:
        self.key, self.about, self.counts = key, about, counts
        self.calls: dict[str, str] = {}
        self.page = key
        self.line = b""  # the line being read
        self.begin = 0  # its offset
        self.number = ""  # the number of the record on that line, if it has several

    def id_of(self, item: Item) -> str:
        """Return the record's id: with its position if the id may repeat, or made from the position if it has none."""
        if item.id and len(item.id) >= _UNIQUE_ID:
            return item.id
        position = records.ordinal_of(self.line) or f"{self.begin}{self.number}"
        return f"{item.id}@{self.page}:{position}" if item.id else derived_id(self.page, position)

    def read(self, item: Item) -> Content:
        """Return the content of an item; with an empty role if none of it belongs to the conversation."""
        kind = item.type
        if kind in records.RESULTS:
            return TOOL, "", self.result(item)
        if kind in records.CALLS:
            return ASSISTANT, "", self.call(item)
        if kind in ("message", "agent_message"):
            return self.message(item)
        note(self.counts.skipped if kind in records.IGNORED_ITEMS else self.counts.unknown, kind or "without type")
        return _NOTHING

    def message(self, item: Item) -> Content:
        """Return the content of a message, without what Codex inserted."""
        contents = [ContentItem(text=item.content)] if isinstance(item.content, str) else item.content or []
        if item.role == ASSISTANT:
            if len(contents) == 1 and (text := contents[0].text):
                return ASSISTANT, text, None
            return self._joined(ASSISTANT, [Part(TEXT, text=content.text) for content in contents if content.text])
        provenance = item.internal_chat_message_metadata_passthrough
        kinds = (provenance.content_item_kinds if provenance else None) or ()
        parts: list[Part] = []
        left_out = False
        for index, content in enumerate(contents):
            kind = kinds[index] if index < len(kinds) else None
            if content.type == "input_image":
                ref, media = records.image_of(content, f"{self.key}#{self.id_of(item)}/{index}")
                parts.append(Part(IMAGE, ref=ref, media_type=media, name=_image_name(contents, index)))
            elif content.text is None:
                note(self.counts.unknown, f"content item {content.type or 'without text'}")
            elif not records.is_users_own(content.text, kind) and RESUME_MARKER not in content.text:
                skill = records.skill_in(content.text)
                if len(contents) == 1 and skill and not skill.startswith(_OWN_SKILLS):
                    return SYSTEM, content.text, None
                self.about.notes += not skill
                note(self.counts.skipped, kind or "inserted by Codex")
                left_out = True
            elif not _is_image_tag(contents, index):
                parts.append(Part(TEXT, text=content.text))
        return _NOTHING if left_out and not parts else self._joined(USER, parts)

    def _joined(self, role: str, parts: list[Part]) -> Content:
        if not parts:
            note(self.counts.skipped, "empty message")
            return _NOTHING
        if len(parts) == 1 and parts[0].type == TEXT:
            return role, parts[0].text, None
        return role, joined_text(parts), parts

    def call(self, item: Item) -> list[Part]:
        """Return the parts of a tool call of any kind."""
        kind = item.type
        call = Part(TOOL_CALL, id=item.call_id or item.id or self.id_of(item))
        call.name = item.name or kind.removesuffix("_call")
        if kind in ("function_call", "tool_search_call"):
            call.input = records.arguments_of(item.arguments)
        elif kind == "custom_tool_call":
            call.input = item.input or ""
        elif kind == "image_generation_call":
            call.input = {"prompt": item.revised_prompt or ""}
        else:
            call.input = item.action
        if item.namespace:
            call.data = {"namespace": item.namespace}
        self.calls[call.id] = call.name
        if call.name not in self.about.tools:
            self.about.tools.append(call.name)
        if kind == "image_generation_call" and bytes(memoryview(item.result)[:1]) == b'"':
            return [call, Part(IMAGE, ref=f"{self.key}#{self.id_of(item)}/0", media_type="image/png")]
        return [call]

    def result(self, item: Item) -> list[Part]:
        """Return the parts of a tool result. Codex has no error flag; a command's exit code shows a failure."""
        call_id = item.call_id or ""
        output = item.output
        result = Part(TOOL_RESULT, call_id=call_id, name=self.calls.pop(call_id, ""))
        if item.type == "tool_search_output":
            output = bytes(item.tools).decode("utf-8", "replace")
        elif isinstance(output, dict):  # only older versions have a flag for success
            result.is_error = output.get("success") is False
            output = str(output.get("content", ""))
        if output is None or isinstance(output, str):
            result.output = output or ""
            if "code 0\n" not in result.output[:120] and (exit_code := _EXIT_CODE.match(result.output)):
                result.is_error = exit_code[1] != "0"
            return [result]
        result.output = "\n".join(content.text for content in output if content.text)
        parts = [result]
        for index, content in enumerate(output):
            if content.type == "input_image":
                ref, media = records.image_of(content, f"{self.key}#{self.id_of(item)}/{index}")
                parts.append(Part(IMAGE, ref=ref, media_type=media))
        return parts


def _is_image_tag(contents: list[ContentItem], index: int) -> bool:
    """Whether a text is a tag that Codex puts before or after an image."""
    text = contents[index].text or ""
    if text.startswith("<image") and text.endswith(">"):
        return index + 1 < len(contents) and contents[index + 1].type == "input_image"
    return text == "</image>" and index > 0 and contents[index - 1].type == "input_image"


def _image_name(contents: list[ContentItem], index: int) -> str:
    """Return the path of an image, from the tag before it."""
    if not index or not _is_image_tag(contents, index - 1):
        return ""
    found = _PATH.search(contents[index - 1].text or "")
    return found[1] if found else ""
