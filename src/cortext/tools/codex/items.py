"""What one item of a Codex conversation holds: who speaks, and the parts of what is said, called or answered."""

from __future__ import annotations

import re

from cortext.model.message import ASSISTANT, IMAGE, TEXT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Part, joined_text
from cortext.tools.base import About, Counts
from cortext.tools.codex import records
from cortext.tools.codex.records import Item, Piece
from cortext.tools.shared.lines import derived_id, note

BLOCK = "[RESUMED CONVERSATION]"
_FAILED = re.compile(r"(?:Chunk ID: .*\n)?(?:Wall time: .*\n)?(?:Process exited with code|Exit code:) (-?\d+)")
_PATH = re.compile(r'path="([^"]*)"')
_SURE_ID = 20  # an id of fewer characters may be a local model's counter, and come again


Said = tuple[str, str, list[Part] | None]  # who speaks, the words, and the parts where there is more to it
_NOBODY: Said = "", "", None


class Items:
    """Takes items apart; knows the calls that wait for their results."""

    def __init__(self, key: str, about: About, counts: Counts) -> None:
        self.key, self.about, self.counts = key, about, counts
        self.calls: dict[str, str] = {}
        self.page = key
        self.line = b""  # the line that is being read, where it begins, and its number if it was one of several
        self.begin = 0
        self.number = ""

    def id_of(self, item: Item) -> str:
        """The record's own id; with its place where that could come again; else one made from the place."""
        if item.id and len(item.id) >= _SURE_ID:
            return item.id
        place = records.ordinal_of(self.line) or f"{self.begin}{self.number}"
        return f"{item.id}@{self.page}:{place}" if item.id else derived_id(self.page, place)

    def read(self, item: Item) -> Said:
        """Who speaks in an item, and what it holds; nobody where there is nothing for us in it."""
        kind = item.type
        if kind in records.RESULTS:
            return TOOL, "", self.result(item)
        if kind in records.CALLS:
            return ASSISTANT, "", self.call(item)
        if kind in ("message", "agent_message"):
            return self.words(item)
        note(self.counts.skipped if kind in records.QUIET_ITEMS else self.counts.unknown, kind or "no type")
        return _NOBODY

    def words(self, item: Item) -> Said:
        """The pieces of a message that are its speaker's own."""
        pieces = [Piece(text=item.content)] if isinstance(item.content, str) else item.content or []
        if item.role == ASSISTANT:
            if len(pieces) == 1 and (text := pieces[0].text):
                return ASSISTANT, text, None
            return self._together(ASSISTANT, [Part(TEXT, text=piece.text) for piece in pieces if piece.text])
        provenance = item.internal_chat_message_metadata_passthrough
        kinds = (provenance.content_item_kinds if provenance else None) or ()
        parts: list[Part] = []
        left_out = False
        for number, piece in enumerate(pieces):
            kind = kinds[number] if number < len(kinds) else None
            if piece.type == "input_image":
                ref, media = records.image_of(piece, f"{self.key}#{self.id_of(item)}/{number}")
                parts.append(Part(IMAGE, ref=ref, media_type=media, name=_image_name(pieces, number)))
            elif piece.text is None:
                note(self.counts.unknown, f"piece {piece.type or 'without text'}")
            elif not records.is_theirs(piece.text, kind) and BLOCK not in piece.text:
                note(self.counts.skipped, kind or "put there by the program")
                left_out = True
            elif not _is_frame(pieces, number):
                parts.append(Part(TEXT, text=piece.text))
        return _NOBODY if left_out and not parts else self._together(USER, parts)

    def _together(self, role: str, parts: list[Part]) -> Said:
        if not parts:
            note(self.counts.skipped, "empty message")
            return _NOBODY
        if len(parts) == 1 and parts[0].type == TEXT:
            return role, parts[0].text, None
        return role, joined_text(parts), parts

    def call(self, item: Item) -> list[Part]:
        """A call of a tool, of whichever kind."""
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
        """A tool's result. Codex has no flag for a failure: a command's exit code tells."""
        call_id = item.call_id or ""
        output = item.output
        result = Part(TOOL_RESULT, call_id=call_id, name=self.calls.pop(call_id, ""))
        if item.type == "tool_search_output":
            output = bytes(item.tools).decode("utf-8", "replace")
        elif isinstance(output, dict):  # older versions say there whether it went well
            result.is_error = output.get("success") is False
            output = str(output.get("content", ""))
        if output is None or isinstance(output, str):
            result.output = output or ""
            if "code 0\n" not in result.output[:120] and (failed := _FAILED.match(result.output)):
                result.is_error = failed[1] != "0"
            return [result]
        result.output = "\n".join(piece.text for piece in output if piece.text)
        parts = [result]
        for number, piece in enumerate(output):
            if piece.type == "input_image":
                ref, media = records.image_of(piece, f"{self.key}#{self.id_of(item)}/{number}")
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
