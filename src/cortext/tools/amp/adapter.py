"""The adapter for Amp: a JSON document for each thread, of those that it keeps on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cortext.io import durable, new_files
from cortext.model.message import ASSISTANT, TEXT, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.shared.building import output_of
from cortext.tools.shared.folders import changed_below, listing, of_project, transcript_of
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import note
from cortext.tools.shared.program import LocalTool
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.values import Object, field, moment, object_of, objects, read_document, salvaged, word
from cortext.tools.shared.vscode import path_of

_KEY = re.compile(rb'"id"\s*:\s*"(T-[0-9A-Za-z-]{1,80})"')
_ROLES = {"user": USER, "assistant": ASSISTANT}
_FAILED = ("error", "cancelled", "rejected-by-user", "rejected")
_UNFINISHED = ("streaming", "running")


class _Head(msgspec.Struct):
    """What the list needs; the messages may be many megabytes."""

    id: str
    messages: msgspec.Raw
    env: Any = None


_decoder = msgspec.json.Decoder(_Head)


class Amp(LocalTool):
    """The adapter for Amp; it only reads."""

    name = "amp"
    title = "Amp"
    command = "amp"
    proof = "samples"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        data = self.environ.get("XDG_DATA_HOME") or os.path.join(self.home, ".local", "share")
        self.folder = os.path.join(data, "amp", "threads")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the threads, or those of one project."""
        paths = (os.path.join(self.folder, name) for name in listing(self.folder) if name.endswith(".json"))
        return of_project(map(self.transcript_at, paths), project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the thread in this document, which may be damaged."""
        try:
            with open(path, "rb", opener=durable.plain_file) as file:
                begin = file.read(1 << 16)
            status = os.stat(path)
        except OSError:
            return None
        key = _KEY.search(begin) if begin.startswith(b"{") else None
        if key is None:
            return None
        try:
            head = _decoder.decode(read_document(path))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if b'"messages"' not in begin:
                return None
            head = _Head(key[1].decode("ascii"), msgspec.Raw())  # reading it reports the damage
        return transcript_of(self.name, head.id, path, _project(head.env), status)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the threads."""
        return unlisted_below(self.folder, listed, self.title)

    def watched(self) -> Watch:
        """Return the folder of all threads."""
        return Watch(folders=[self.folder])

    def changed(self, path: str) -> list[Transcript]:
        """Return the thread in this file."""
        return changed_below(self, self.folder, path) if path.endswith(".json") else []

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return a reading of the whole thread: Amp writes the document anew with each message."""
        return ThreadReading(transcript)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the document unchanged."""
        new_files.mirror_file(transcript.path, target, later)


def _project(env: Any) -> str:
    """Return the folder that a thread was started in."""
    initial = field(env, "initial")
    trees = objects(initial, "trees")
    return word(initial, "cwd") or (path_of(word(trees[0], "uri")) if trees else "")


class ThreadReading(WholeReading):
    """The messages of one thread."""

    def __iter__(self) -> Iterator[Message]:
        data = read_document(self.transcript.path)
        thread = object_of(data)
        if thread is None:
            self.damaged("document", self.transcript.key)
            found: list[Any] = list(salvaged(data, lambda value: "role" in value and "content" in value))
        else:
            self.about.title = word(thread, "title")
            self.about.created_at = moment(thread.get("created"))
            listed = thread.get("messages")
            if not isinstance(listed, list):
                self.damaged("messages", self.transcript.key)
            found = listed if isinstance(listed, list) else []
        yield from self.each(found, self._messages)

    def _messages(self, record: Any) -> list[Message]:
        if not isinstance(record, dict):
            raise TypeError
        kind = word(record, "role")
        role = _ROLES.get(kind)
        if role is None:
            if kind == "info":
                self._note_summary(record)
            note(self.counts.skipped if kind == "info" else self.counts.unknown, kind or "without role")
            return []
        number = record.get("messageId")
        identity = (
            f"{self.transcript.key}#{number}"
            if isinstance(number, int | str)
            else self.builder.identity(self.transcript.key, kind, str(record.get("content")))
        )
        usage = field(record, "usage")
        model = word(usage, "model") if role == ASSISTANT else ""
        self.about.model = model or self.about.model
        unfinished = word(record, "state", "type") in _UNFINISHED
        return self.builder.messages(
            self._parts(record.get("content"), identity),
            role=role,
            identity=f"{identity}.unfinished" if unfinished else identity,
            timestamp=moment(field(record, "meta", "sentAt")) or moment(field(usage, "timestamp")),
            model=model,
            usage=usage if isinstance(usage, dict) else None,
            partial=unfinished,
        )

    def _parts(self, content: Any, identity: str) -> list[Part]:
        """Return the parts of a message. Results, and shell lines of the user, are in a form of Amp's own."""
        if not isinstance(content, list):
            return self.builder.parts(content, identity)
        found: list[Part] = []
        for number, block in enumerate(content):
            if word(block, "type") == "tool_result" and isinstance(field(block, "run"), dict):
                found.append(_result(block, f"{identity}/{number}"))
            elif word(block, "type") == "manual_bash_invocation":
                output = word(block, "toolRun", "result", "output")
                found.append(Part(TEXT, text=f"$ {word(block, 'args', 'cmd')}\n{output}"))
            else:
                found.extend(self.builder.parts([block], f"{identity}/{number}"))
        return found

    def _note_summary(self, record: Object) -> None:
        for block in objects(record, "content"):
            self.about.summary = word(block, "summary", "summary") or self.about.summary


def _result(block: Object, reference: str) -> Part:
    run = field(block, "run")
    shown = field(run, "result")
    shown = field(shown, "output") or shown if isinstance(shown, dict) else shown
    output, _ = output_of(shown if shown is not None else field(run, "progress"), reference)
    reason = word(run, "error", "message") or word(run, "error") or word(run, "reason")
    failed = word(run, "status") in _FAILED
    call = word(block, "toolUseID") or word(block, "tool_use_id")
    return Part(TOOL_RESULT, call_id=call, output=output or reason, is_error=failed)
