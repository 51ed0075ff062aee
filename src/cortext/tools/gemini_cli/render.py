"""The turns of a conversation as records of Gemini CLI, in a form that survives any number of resumes.

Each message becomes one record with our id; its field `cortext` says how to restore the message. Calls are part of the
content of the model's record, and their results form a user record: only then does Gemini CLI send each of them exactly
once at every resume (results inside `toolCalls` are sent again from the second resume on). `toolCalls` is written for
the screen only, under ids that Gemini CLI does not match with the results. Gemini CLI drops a user message that begins
like a command or like one of its own contexts, so such a message gets a text of ours in front.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model import clock
from cortext.model.message import TOOL, USER, Message
from cortext.model.turns import Change, Image, Result, Turn, Turns, standalone, whole_characters
from cortext.tools.gemini_cli.mark import HOOK_CONTEXT, SESSION_CONTEXT, Mark
from cortext.tools.gemini_cli.messages import restored_message
from cortext.tools.gemini_cli.records import Record
from cortext.tools.shared.google_parts import dump
from cortext.tools.shared.lines import derived_id
from cortext.tools.shared.verify import same_message

Json = dict[str, Any]

# Whitespace of JavaScript and of Python: Gemini CLI strips it before it checks how a message begins.
_WHITESPACE = (
    " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_DROPPED_PREFIXES = ("/", "?", SESSION_CONTEXT, HOOK_CONTEXT)
_GUARD = "The user wrote:\n"
# The screen does not show such a text; the results are shown with their calls.
_HIDDEN_ON_SCREEN = [{"text": HOOK_CONTEXT}]
_DISPLAYED_CHARACTERS = 2_000
# Gemini CLI writes these unescaped, but its line reader ends a line at them: a message with one breaks its file.
_SEPARATORS = re.compile("[\u2028\u2029]")


class Rendering:
    """The records for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.normal = Turns(messages, images_in=(USER, TOOL))
        self._results = self.normal.results
        self._now = clock.now()
        self._ids: set[str] = set()
        self.records: list[Json] = []
        self.expected: list[Message] = []
        for number, turn in enumerate(self.normal.turns):
            self._add(number, turn)

    # ── one turn ─────────────────────────────────────────────────────────────────────────────────────

    def _add(self, number: int, turn: Turn) -> None:
        message = _storable(turn.message) if turn.message is not None else None
        mark = Mark(added=message is None)
        wanted = message.id if message is not None else ""
        record: Json = {
            "id": self._free_id(wanted or derived_id(turn.role, number, "".join(text.text for text in turn.texts))),
            "timestamp": (message.timestamp if message is not None else "") or self._now,
            "type": "user" if turn.role == USER else "gemini",
        }
        record |= self._user_fields(turn, mark) if turn.role == USER else self._model_fields(turn, record["timestamp"])
        if message is not None:
            mark.role = message.role if message.role != turn.role else ""
            expected = msgspec.structs.replace(message, id=record["id"])
            if not _is_read_as(record, mark, expected):
                mark.was = msgspec.to_builtins(message)
            self.expected.append(expected)
        record["cortext"] = msgspec.to_builtins(mark)
        self.records.append(record)

    def _user_fields(self, turn: Turn, mark: Mark) -> Json:
        """Return the fields of a user record: results first, then text."""
        content = [_response(result, self._clean(result.output)) for result in turn.results]
        texts = [self._clean(text.whole) for text in turn.texts if not isinstance(text, Image)]
        begin = texts[0].lstrip(_WHITESPACE) if texts and not content else ""
        if begin.startswith(_DROPPED_PREFIXES):
            self.normal.note(Change.GUARDED)
            mark.lead = 1
            content.append({"text": _GUARD})
        content += [{"text": text} for text in texts]
        pictures = [text.picture for text in turn.texts if isinstance(text, Image)]
        content += [{"inlineData": {"mimeType": each.kind, "data": each.base64}} for each in pictures]
        fields: Json = {"content": content}
        if turn.results:
            fields["displayContent"] = _HIDDEN_ON_SCREEN
        elif mark.lead and begin.startswith(("/", "?")):
            fields["displayContent"] = [{"text": text} for text in texts]  # the screen hides the other prefixes
        return fields

    def _model_fields(self, turn: Turn, timestamp: str) -> Json:
        """Return the fields of a model record: text, then calls."""
        texts = [self._clean(text.whole) for text in turn.texts]
        calls = [{"id": call.id, "name": call.name, "args": self._clean_value(call.input)} for call in turn.calls]
        content: list[Json] = [{"text": text} for text in texts] + [{"functionCall": call} for call in calls]
        fields: Json = {"content": texts[0] if len(content) == 1 and texts else content}
        if turn.message is not None and turn.message.model:
            fields["model"] = whole_characters(turn.message.model)
        if calls:
            fields["toolCalls"] = [self._display_call(call, timestamp) for call in calls]
            if texts:
                fields["displayContent"] = [{"text": text} for text in texts]
        return fields

    def _display_call(self, call: Json, timestamp: str) -> Json:
        """Return a call as the screen shows it, with the beginning of its result."""
        result = self._results[call["id"]]
        return {
            "id": f"shown:{call['id']}",
            "name": call["name"],
            "args": call["args"],
            "status": "error" if result.is_error and result.part is not None else "success",
            "timestamp": timestamp,
            "resultDisplay": _SEPARATORS.sub("\n", result.output[:_DISPLAYED_CHARACTERS]),
            "displayName": call["name"],
            "description": dump(call["args"])[:120],
            "renderOutputAsMarkdown": False,
        }

    # ── texts and ids ────────────────────────────────────────────────────────────────────────────────

    def _clean(self, text: str) -> str:
        """Replace the line separators that would break Gemini CLI's file, and count them."""
        cleaned, found = _SEPARATORS.subn("\n", text)
        if found:
            self.normal.note(Change.SEPARATOR, found)
        return cleaned

    def _clean_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, dict):
            return {self._clean(key): self._clean_value(inner) for key, inner in value.items()}
        return [self._clean_value(inner) for inner in value] if isinstance(value, list) else value

    def _free_id(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._ids:
            number += 1
            name = f"{wanted}+{number}"
        self._ids.add(name)
        return name


def _response(result: Result, output: str) -> Json:
    answer = {"error" if result.is_error and result.part is not None else "output": output}
    return {"functionResponse": {"id": result.call.id, "name": result.call.name, "response": answer}}


def _storable(message: Message) -> Message:
    """Return the message without line separators: Gemini CLI rewrites our annotation, and does not escape them."""
    raw = msgspec.json.encode(standalone(message))
    return msgspec.json.decode(raw.replace(b"\xe2\x80\xa8", b"\\n").replace(b"\xe2\x80\xa9", b"\\n"), type=Message)


def _is_read_as(record: Json, mark: Mark, message: Message) -> bool:
    """Whether reading the record returns the message, so that the annotation need not contain it."""
    read = restored_message(msgspec.convert(record, Record), mark)
    return read is not None and same_message(message, read)
