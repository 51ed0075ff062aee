"""What one item of a Codex conversation holds: who speaks, and the parts of what is said, called or answered."""

from __future__ import annotations

import re

from cortext.model.message import ASSISTANT, IMAGE, TEXT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Part
from cortext.tools import codex_records as records
from cortext.tools.base import About, Counts
from cortext.tools.codex_records import Item, Piece
from cortext.tools.foreign import derived_id, note

BLOCK = "[RESUMED CONVERSATION]"
_FAILED = re.compile(r"(?:Chunk ID: .*\n)?(?:Wall time: .*\n)?(?:Process exited with code|Exit code:) (-?\d+)")
_PATH = re.compile(r'path="([^"]*)"')
_SURE_ID = 20  # an id of fewer characters may be a local model's counter, and come again


class Items:
    """Takes items apart; knows the calls that wait for their results."""

    def __init__(self, key: str, about: About, counts: Counts) -> None:
        self.key, self.about, self.counts = key, about, counts
        self.page = key
        self.calls: dict[str, str] = {}

    def id_of(self, item: Item, where: str) -> str:
        """The record's own id; with its place where that could come again; else one made from the place."""
        if not item.id:
            return derived_id(self.page, where)
        return item.id if len(item.id) >= _SURE_ID else f"{item.id}@{self.page}:{where}"

    def read(self, item: Item, where: str) -> tuple[str, list[Part]]:
        """Who speaks in an item, and what it holds; nobody where there is nothing for us in it."""
        kind = item.type
        if kind in ("message", "agent_message"):
            return ASSISTANT if item.role == ASSISTANT else USER, self.words(item, where)
        if kind in records.CALLS:
            return ASSISTANT, self.call(item, where)
        if kind in records.RESULTS:
            return TOOL, self.result(item, where)
        note(self.counts.skipped if kind in records.QUIET_ITEMS else self.counts.unknown, kind or "no type")
        return "", []

    def words(self, item: Item, where: str) -> list[Part]:
        """The pieces of a message that are its speaker's own."""
        pieces = [Piece(text=item.content)] if isinstance(item.content, str) else item.content or []
        kinds: list[str] | None = None
        if item.role != ASSISTANT and (provenance := item.internal_chat_message_metadata_passthrough) is not None:
            kinds = provenance.content_item_kinds
        parts: list[Part] = []
        left_out = False
        for number, piece in enumerate(pieces):
            kind = kinds[number] if kinds and number < len(kinds) else None
            if piece.type == "input_image":
                ref, media = records.image_of(piece, f"{self.key}#{self.id_of(item, where)}/{number}")
                parts.append(Part(IMAGE, ref=ref, media_type=media, name=_image_name(pieces, number)))
            elif piece.text is None:
                note(self.counts.unknown, f"piece {piece.type or 'without text'}")
            elif item.role != ASSISTANT and not records.is_theirs(piece.text, kind) and BLOCK not in piece.text:
                note(self.counts.skipped, kind or "put there by the program")
                left_out = True
            elif not _is_frame(pieces, number):
                parts.append(Part(TEXT, text=piece.text))
        if not parts and not left_out:
            note(self.counts.skipped, "empty message")
        return parts

    def call(self, item: Item, where: str) -> list[Part]:
        """A call of a tool, of whichever kind."""
        kind = item.type
        call = Part(TOOL_CALL, id=item.call_id or item.id or self.id_of(item, where))
        call.name = item.name or kind.removesuffix("_call")
        if kind == "custom_tool_call":
            call.input = item.input or ""
        elif kind in ("function_call", "tool_search_call"):
            call.input = records.arguments_of(item.arguments)
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
            return [call, Part(IMAGE, ref=f"{self.key}#{self.id_of(item, where)}/0", media_type="image/png")]
        return [call]

    def result(self, item: Item, where: str) -> list[Part]:
        """A tool's result. Codex has no flag for a failure: a command's exit code tells."""
        call_id = item.call_id or ""
        result = Part(TOOL_RESULT, call_id=call_id, name=self.calls.pop(call_id, ""))
        if item.type == "tool_search_output":
            result.output = bytes(item.tools).decode("utf-8", "replace")
            return [result]
        output = item.output
        if isinstance(output, dict):  # older versions say there whether it went well
            result.is_error = output.get("success") is False
            output = str(output.get("content", ""))
        if output is None or isinstance(output, str):
            result.output = output or ""
            failed = _FAILED.match(result.output)
            result.is_error = result.is_error or (failed is not None and failed[1] != "0")
            return [result]
        result.output = "\n".join(piece.text for piece in output if piece.text)
        parts = [result]
        for number, piece in enumerate(output):
            if piece.type == "input_image":
                ref, media = records.image_of(piece, f"{self.key}#{self.id_of(item, where)}/{number}")
                parts.append(Part(IMAGE, ref=ref, media_type=media))
        return parts


def _is_frame(pieces: list[Piece], number: int) -> bool:
    """Whether a text is only the frame that the program puts around an image."""
    text = pieces[number].text or ""
    if text.startswith("<image") and text.endswith(">"):
        return number + 1 < len(pieces) and pieces[number + 1].type == "input_image"
    return text == "</image>" and number > 0 and pieces[number - 1].type == "input_image"


def _image_name(pieces: list[Piece], number: int) -> str:
    """The file name of an image, from the frame around it."""
    if not number or not _is_frame(pieces, number - 1):
        return ""
    found = _PATH.search(pieces[number - 1].text or "")
    return found[1] if found else ""
