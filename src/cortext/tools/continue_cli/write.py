"""Writes sessions into Continue's folder: a new one, or a lost one from our copy.

Continue stores a tool's result with its call and keeps fields that it does not know. So each item, and each result in
it, is annotated with the message it was made from: `Mark` in the field `cortext`.

Its list of sessions (`sessions.json`) is what `cn ls` and its screen show. Continue adds a session when it first saves
it. One that we put into the folder is not listed before, so we add it as Continue does. The file belongs to Continue:
what cannot be read is not touched.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.errors import ConfigError, DamagedData, UnsafePath
from cortext.io import durable, new_files
from cortext.model.message import Message
from cortext.model.turns import Call, Difference, Result, Turn, Turns, standalone
from cortext.tools.base import Counts, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.continue_cli.adapter import LIST, UNTITLED, Continue, ContinueReading
from cortext.tools.continue_cli.messages import Item, head_of, items_of, result_message, spoken_message
from cortext.tools.shared.native import Mark, removed_unless_verified, same_message, verify
from cortext.tools.shared.parts import FileWriter

Json = dict[str, Any]

_KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{7,63}")
_AHEAD = 60  # seconds
_LARGEST = 1 << 28


class ContinueWriter(FileWriter[Continue]):
    """Writes sessions, and says how Continue is started with one."""

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy byte for byte if Continue has lost the session; return the session's id."""
        head = head_of(copy)
        if head is None:
            raise DamagedData(f"{copy} is not a session of Continue", kept="nothing was changed")
        if not _KEY.fullmatch(head.key):
            raise UnsafePath(f"{copy} has a session id that cannot be a file name", kept="nothing was changed")
        path = self._path(head.key)
        if not os.path.lexists(path):
            durable.ensure_folder(self.tool.folder)
            _load_list(self.tool.folder)
            new_files.mirror_file(copy, path)
            items = [{"message": {"role": item.message.role}} for item in items_of(copy, Counts())]
            named = {"sessionId": head.key, "title": head.title or UNTITLED, "workspaceDirectory": head.folder}
            _list(self.tool.folder, {**named, "history": items})
        return head.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Count the calls without a result, which Continue reports as cancelled; None if the session was compacted."""
        items = list(items_of(transcript.path, Counts()))
        if any(item.summary is not None for item in items):
            return None
        missing = sum(not state.output for item in items for state in item.states or ())
        return Withheld(changed={Difference.RESULT_ADDED: missing} if missing else {})

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session of this project; it is read back, and removed if it is not what was written."""
        rendering = Rendering(messages)
        key = self._free_key(key)
        path = self._path(key)
        items = [_note_item(note), *rendering.items] if note else rendering.items
        document = {
            "sessionId": key,
            "title": title or UNTITLED,
            "workspaceDirectory": os.path.realpath(project),
            "history": items,
        }
        durable.ensure_folder(self.tool.folder)
        _load_list(self.tool.folder)  # raises an error before anything is written
        durable.replace_file(path, [msgspec.json.format(msgspec.json.encode(document), indent=2)])
        with removed_unless_verified(path):
            reading = ContinueReading(Transcript(tool="", key=key, path=path))
            verify(self.tool.title, rendering.expected, list(reading), reading.counts, same_message)
            _list(self.tool.folder, document)
        return Written.of(rendering.normal, key, path)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively. A prompt is not sent: see `user_speaks_first`."""
        self._open_next(written_or_key)
        # A model is named by its address on Continue's hub; the others are chosen in the user's config.
        options = ["--model", model] if "/" in model else []
        note = (
            f"Continue starts with the model of its own config, not with {model}: it takes only OWNER/NAME of its hub"
        )
        argv = [self.tool.program.executable(), "--resume", *options]
        return Launch(argv=argv, cwd=project, note=note if model and not options else "")

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that was never used, and its entry in the list."""
        super().discard(written, project=project)
        if written.path:
            _unlist(self.tool.folder, written.key)

    def _path(self, key: str) -> str:
        return os.path.join(self.tool.folder, f"{key}.json")

    def _free_key(self, wanted: str) -> str:
        """Return the wanted id if it is free and well-formed, else a new one."""
        if _KEY.fullmatch(wanted) and not os.path.lexists(self._path(wanted)):
            return wanted
        return str(uuid.uuid4())

    def _open_next(self, key: str) -> None:
        """Make `cn --resume` open this session: it opens the one whose file changed last.

        The time is a little ahead, because another `cn` may save its own session while this one starts. `cn --fork ID`
        names the session, but continues it under a new id and without its title: the messages would come back as
        another conversation.
        """
        path = self._path(key)
        if _KEY.fullmatch(key) and os.path.isfile(path):
            ahead = time.time() + _AHEAD
            os.utime(path, (ahead, ahead))


class Rendering:
    """The items for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.normal = Turns(messages)
        self.items: list[Json] = []
        self.expected: list[Message] = []
        self._results = self.normal.results
        # Messages with an item of their own; one with results only is restored from the first of them.
        self._placed = {id(turn.message) for turn in self.normal.turns if turn.texts or turn.calls}
        for turn in self.normal.turns:
            if turn.texts or turn.calls:
                self._add(turn)

    def _add(self, turn: Turn) -> None:
        text = "\n\n".join(block.whole for block in turn.texts)
        item: Json = {"message": {"role": turn.role, "content": text}, "contextItems": []}
        if turn.calls:
            calls = [_call(call) for call in turn.calls]
            item["message"]["toolCalls"] = calls
            item["toolCallStates"] = [self._state(self._results[call.id]) for call in turn.calls]
        decoded = msgspec.convert(item, Item)
        self._annotate(item, turn.message, spoken_message(decoded, "", ""))
        for call, record, state in zip(turn.calls, item.get("toolCallStates", ()), decoded.states or (), strict=True):
            message = self._results[call.id].message
            placed = message is None or id(message) in self._placed
            self._annotate(record, None if placed else message, result_message(state, "", ""))
            self._placed.add(id(message))
        self.items.append(item)

    def _annotate(self, record: Json, message: Message | None, literal: Message) -> None:
        """Add to a record how to restore the message it was made from; without that it is read as `literal`."""
        if message is not None:
            message = standalone(message)
            self.expected.append(message)
        record["cortext"] = msgspec.to_builtins(Mark.made_from(message, literal))

    def _state(self, result: Result) -> Json:
        failed = result.is_error and result.part is not None
        if failed:
            self.normal.note(Difference.ERROR_FLAG)  # Continue shows it, but does not send it
        return {
            "toolCallId": result.call.id,
            "toolCall": _call(result.call),
            "status": "errored" if failed else "done",
            "parsedArgs": result.call.input,
            "output": [{"content": result.output, "name": "Tool Result", "description": "Tool execution result"}],
        }


def _note_item(note: str) -> Json:
    """Return a message from cortext to the model."""
    mark = msgspec.to_builtins(Mark(added=True))
    return {"message": {"role": "user", "content": note}, "contextItems": [], "cortext": mark}


def _call(call: Call) -> Json:
    arguments = json.dumps(call.input, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# ── the list of sessions ─────────────────────────────────────────────────────────────────────────────


def _list(folder: str, document: Json) -> None:
    """Add a session to the list, unless it is there; raise ConfigError if the list cannot be read."""
    entries = _load_list(folder)
    if any(isinstance(entry, dict) and entry.get("sessionId") == document["sessionId"] for entry in entries):
        return
    answers = sum(item["message"]["role"] == "assistant" for item in document["history"])
    entry = {
        "sessionId": document["sessionId"],
        "title": document["title"],
        "dateCreated": str(int(time.time() * 1000)),
        "workspaceDirectory": document["workspaceDirectory"],
        "messageCount": answers,
    }
    _save_list(folder, [*entries, entry])


def _unlist(folder: str, key: str) -> None:
    """Remove a session from the list, if it is there."""
    try:
        entries = _load_list(folder)
    except ConfigError:
        return  # our entry cannot be in it
    rest = [entry for entry in entries if not (isinstance(entry, dict) and entry.get("sessionId") == key)]
    if len(rest) != len(entries):
        _save_list(folder, rest)


def _load_list(folder: str) -> list[Any]:
    """Return the entries of the list; none if there is no list."""
    path = os.path.join(folder, LIST)
    try:
        text = durable.read_file(path, _LARGEST).decode("utf-8")
        entries = json.loads(text) if text.strip() else []
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(entries, list):
        raise _unreadable(path, "it is not a list")
    return entries


def _save_list(folder: str, entries: list[Any]) -> None:
    text = json.dumps(entries, indent=2, ensure_ascii=False)  # as Continue writes it
    durable.replace_file(os.path.join(folder, LIST), [text.encode("utf-8", "surrogatepass")])


def _unreadable(path: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be used: {reason}",
        kept="nothing was written; Continue cannot save its sessions either",
        hint="fix the file, or move it away: Continue makes a new one",
    )
