"""The adapter for Droid: a file of lines for each session, in a folder for each project."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cortext.errors import CortextError
from cortext.model.message import ASSISTANT, TEXT, USER, Message, Part
from cortext.tools.base import Counts, Leftover, Transcript, Watch
from cortext.tools.shared.folders import changed_below, is_uuid, of_project, transcript_of
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import ForeignLines, note
from cortext.tools.shared.reading import LineTool, WholeReading
from cortext.tools.shared.values import Object, field, moment, object_of, word

_ENDING = ".jsonl"
_ROLES = {"user": USER, "assistant": ASSISTANT}
_SKIPPED = ("todo_state", "session_end", "tool_result", "settings")
_decoder = msgspec.json.Decoder(dict[str, Any])


class SessionReading(WholeReading):
    """The messages of one session, from the cursor on."""

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None) -> None:
        super().__init__(transcript)
        offset, calls = (cursor or {}).get("offset"), (cursor or {}).get("calls")
        fits = isinstance(offset, int) and 0 <= offset <= transcript.size and isinstance(calls, dict)
        self._start = offset if fits and isinstance(offset, int) else 0
        self.is_whole = not self._start
        if self._start and isinstance(calls, dict):
            self.builder.open_calls.update((str(call), str(name)) for call, name in calls.items())

    def __iter__(self) -> Iterator[Message]:
        lines = ForeignLines(self.transcript.path, self._start, self.counts)
        yield from self.each(self._records(lines), self._messages)
        settings = read_object(self.transcript.path.removesuffix(_ENDING) + ".settings.json")
        self.about.model = word(settings, "model") or self.about.model
        self.cursor = {"offset": lines.end, "calls": self.builder.open_calls}

    def _records(self, lines: ForeignLines) -> Iterator[Object]:
        for line in lines:
            yield from lines.decode(line, _decoder, dict)

    def _messages(self, record: Object) -> list[Message]:
        kind = word(record, "type")
        if kind == "session_start":
            self.about.title = word(record, "sessionTitle") or word(record, "title")
            return []
        if kind == "compaction_state":
            self.about.summary = word(record, "summaryText") or word(record, "summary")
        if kind in (*_SKIPPED, "compaction_state"):
            note(self.counts.skipped, kind)
            return []
        role = _ROLES.get(word(record, "message", "role"))
        if kind != "message" or role is None:
            note(self.counts.unknown, kind if kind and kind != "message" else "without kind or role")
            return []
        content = field(record, "message", "content")
        identity = word(record, "id") or self.builder.identity(self.transcript.key, role, str(content))
        parts = self.builder.parts(content, f"{self.transcript.key}#{identity}")
        return self.builder.messages(
            list(self._said(parts)),
            role=role,
            identity=identity,
            timestamp=moment(record.get("timestamp")),
            model=word(record, "message", "model"),
        )

    def _said(self, parts: list[Part]) -> Iterator[Part]:
        """Yield the parts without what Droid itself tells the model in the user's name."""
        for part in parts:
            if part.type == TEXT and part.text.lstrip().startswith("<system-reminder>"):
                note(self.counts.skipped, "system reminder")
            else:
                yield part


class Droid(LineTool[dict[str, Any]]):
    """The adapter for Droid; it only reads."""

    name = "droid"
    title = "Droid"
    command = "droid"
    proof = "samples"
    reading = SessionReading

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self.folder = os.path.join(self.home, ".factory", "sessions")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the sessions, or those of one project."""
        files = ((folder, name) for folder, _, names in os.walk(self.folder) for name in sorted(names))
        paths = (os.path.join(folder, name) for folder, name in files if name.endswith(_ENDING))
        return of_project(map(self.transcript_at, paths), project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session in this file. In Droid's own folder its name is enough: the first line may be damaged."""
        try:
            head = object_of(next(iter(ForeignLines(path, 0, Counts())), b""))
            status = os.stat(path)
        except (OSError, CortextError):
            return None
        key = word(head, "id") if word(head, "type") == "session_start" else ""
        name = os.path.basename(path).removesuffix(_ENDING)
        if not key and is_uuid(name) and path.startswith(os.path.join(self.folder, "")):
            key = name
        return transcript_of(self.name, key, path, word(head, "cwd"), status) if key else None

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions, without the settings of each."""
        return unlisted_below(self.folder, listed, self.title, ("*.settings.json", "*/*.settings.json"))

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self.folder])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self, self.folder, path) if path.endswith(_ENDING) else []
