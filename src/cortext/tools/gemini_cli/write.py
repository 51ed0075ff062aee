"""Write sessions into Gemini CLI's own store: a new one, or a lost one from our copy.

The turns are written as records in a form that survives any number of resumes.

Each message becomes one record with our id; its field `cortext` says how to restore the message. Calls are part of the
content of the model's record, and their results form a user record: only then does Gemini CLI send each of them exactly
once at every resume (results inside `toolCalls` are sent again from the second resume on). `toolCalls` is written for
the screen only, under ids that Gemini CLI does not match with the results. Gemini CLI drops a user message that begins
like a command or like one of its own contexts, so such a message gets a text of ours in front.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import DamagedData, SessionExists, UnsafePath
from cortext.io import durable
from cortext.model import clock
from cortext.model.message import TOOL, USER, Message
from cortext.model.turns import Difference, Image, Result, Turn, Turns, standalone, whole_characters
from cortext.tools.base import Launch, Messages, Transcript, Withheld, Written
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.gemini_cli.live import interactive
from cortext.tools.gemini_cli.messages import restored_message
from cortext.tools.gemini_cli.read import GeminiReading, is_document
from cortext.tools.gemini_cli.records import HOOK_CONTEXT, SESSION_CONTEXT, Mark, Record
from cortext.tools.gemini_cli.store import GeminiStore, has_messages, project_hash, read_head
from cortext.tools.gemini_cli.withheld import withheld
from cortext.tools.shared.building import dump
from cortext.tools.shared.lines import derived_id, one_line_each
from cortext.tools.shared.native import removed_unless_verified, same_message, verify
from cortext.tools.shared.parts import FileWriter

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
# The form of Gemini CLI's own ids. An id of digits only would be taken for an index in its list of sessions.
_KEY = re.compile(r"(?![0-9]+$)[0-9A-Za-z]{8}[0-9A-Za-z-]{0,56}")
_BLOCK = 1 << 20


class GeminiWriter(FileWriter[GeminiCli]):
    """Writes sessions, and says how Gemini CLI is started with one."""

    def __init__(self, tool: GeminiCli) -> None:
        super().__init__(tool)
        self.store = GeminiStore(tool)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy byte for byte if Gemini CLI has lost the session; return the session's id."""
        head = read_head(copy)
        if head is None:
            raise DamagedData(f"{copy} is not a transcript of Gemini CLI", kept="nothing was changed")
        if not _KEY.fullmatch(head.key):
            raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
        project = os.path.realpath(project)
        chats = os.path.join(self.tool.chats_root, self.store.slug_for(project), "chats")
        for path, found in self.store.files(chats, head.key[:8]):
            if found.key == head.key and has_messages(path):
                return head.key  # nothing was lost
        started = clock.to_epoch(_start_of(copy)) or os.stat(copy).st_mtime
        minute = time.strftime("%Y-%m-%dT%H-%M", time.gmtime(started))
        ending = "json" if is_document(copy) else "jsonl"
        path = os.path.join(chats, f"session-{minute}-{head.key[:8]}.{ending}")
        if os.path.lexists(path):
            # A stub of the same minute: leave Gemini CLI's file as it is, and write ours beside it.
            path = os.path.join(chats, f"session-{minute}-00-{head.key[:8]}.{ending}")
        self.store.mirror(copy, path, head.key)
        return head.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return the commands that the tool does not send again, and count the results that it sends repeatedly.

        None after a compression.
        """
        return withheld(transcript.path)

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session of this project; it is read back, and removed if it is not what was written."""
        project = os.path.realpath(project)
        rendering = Rendering(messages)
        chats = os.path.join(self.tool.chats_root, self.store.slug_for(project), "chats")
        key = self._free_key(chats, key)
        # Named for the current minute: Gemini CLI creates no stub if the session is resumed in the same minute.
        path = os.path.join(chats, f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime())}-{key[:8]}.jsonl")
        if os.path.lexists(path):
            raise SessionExists(f"{path} already exists", kept="it is unchanged", hint="try again in a minute")
        durable.ensure_folder(chats)
        if note:
            # Reading recognises it as our resume block. Text in front keeps Gemini CLI from dropping it as a command.
            text = f"Resumed:\n{note}" if note.lstrip().startswith(("/", "?")) else note
            now = clock.now()
            record: Json = {"id": str(uuid.uuid4()), "timestamp": now, "type": "user", "content": [{"text": text}]}
            record["displayContent"] = _HIDDEN_ON_SCREEN
            rendering.records.insert(0, record)
        durable.replace_file(path, _lines(rendering, key, project, title))
        with removed_unless_verified(path):
            self._verify(path, rendering)
        return Written.of(rendering.normal, key, path)

    def _free_key(self, chats: str, preferred: str) -> str:
        """Return the wanted id if it is free and well-formed, else a new one.

        Its first eight characters must be unused, too: Gemini CLI deletes files by them.
        """
        if _KEY.fullmatch(preferred) and not any(self.store.files(chats, preferred[:8])):
            return preferred
        while True:
            key = str(uuid.uuid4())
            if not any(self.store.files(chats, key[:8])):
                return key

    def _verify(self, path: str, rendering: Rendering) -> None:
        transcript = self.store.transcript_at(path)
        if transcript is None:
            raise DamagedData(
                f"{path} is not a transcript of Gemini CLI", kept="the conversation; the file was removed"
            )
        reading = GeminiReading(transcript, None, [])
        found = [message for message in reading if not (message.extra and message.extra.get("resume_block"))]
        verify(self.tool.title, rendering.expected, found, reading.counts, same_message)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively; the prompt, if any, is sent first."""
        path = self.store.path_of(project, written_or_key)
        return interactive(self.tool, written_or_key, path, project=project, prompt=prompt, model=model)


def _lines(rendering: Rendering, key: str, project: str, title: str) -> Iterator[bytes]:
    now = clock.now()
    opening = {"sessionId": key, "projectHash": project_hash(project), "startTime": now, "lastUpdated": now}
    if title:
        opening["summary"] = title
    yield _line({**opening, "kind": "main"})
    for record in rendering.records:
        yield _line(record)


def _line(record: dict[str, object]) -> bytes:
    return one_line_each(msgspec.json.encode(record)) + b"\n"


def _start_of(path: str) -> str:
    """Return when a session started, by its metadata; empty if unknown."""
    with open(path, "rb", opener=durable.plain_file) as file:
        first = file.readline(_BLOCK)
        if first.strip() == b"{":
            first = first + file.read(_BLOCK)
    match = re.search(rb'"startTime"\s*:\s*"([^"]{10,40})"', first)
    return match[1].decode("ascii", "replace") if match else ""


# ── records ───────────────────────────────────────────────────────────────────────────────────────


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
        preferred = message.id if message is not None else ""
        record: Json = {
            "id": self._free_id(preferred or derived_id(turn.role, number, "".join(text.text for text in turn.texts))),
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
            self.normal.note(Difference.GUARDED)
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
            self.normal.note(Difference.SEPARATOR, found)
        return cleaned

    def _clean_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, dict):
            return {self._clean(key): self._clean_value(inner) for key, inner in value.items()}
        return [self._clean_value(inner) for inner in value] if isinstance(value, list) else value

    def _free_id(self, preferred: str) -> str:
        name, number = preferred, 1
        while name in self._ids:
            number += 1
            name = f"{preferred}+{number}"
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
