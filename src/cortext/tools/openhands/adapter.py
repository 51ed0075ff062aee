"""The adapter for OpenHands CLI: a folder for each conversation, with one file for each event."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cortext.model.message import (
    ASSISTANT,
    BEGINNING,
    IMAGE,
    TEXT,
    THINKING,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
)
from cortext.tools.base import Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.shared.building import is_error, output_of
from cortext.tools.shared.bundle import BundleTool, Piece
from cortext.tools.shared.folders import listing, of_project, step_below
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import derived_id, local_moment, note
from cortext.tools.shared.program import LocalTool
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import Object, field, object_of, objects, read_document, word

_EVENT = re.compile(r"event-(\d+)-.+\.json")
_STATE = "base_state.json"
# What OpenHands keeps beside the events of a conversation.
_COMPANIONS = ("*/meta.json", "*/TASKS.json", "*/*.md", "*/bash_events/", "*/observations/")
_ROOT = "__root__"
_FINISH = "finish"  # the tool by which the model ends: its argument is the answer
_SKIPPED = (
    *("SystemPromptEvent", "ConversationStateUpdateEvent", "ConversationErrorEvent", "LLMCompletionLogEvent"),
    *("CondensationRequest", "PauseEvent", "InterruptEvent", "TokenEvent", "HookExecutionEvent"),
    *("StreamingDeltaEvent", "SecurityAnalysisEvent"),
)


class OpenHands(BundleTool, LocalTool):
    """The adapter for OpenHands CLI; it only reads."""

    name = "openhands"
    title = "OpenHands CLI"
    command = "openhands"
    folder_variables = ("OPENHANDS_PERSISTENCE_DIR", "OPENHANDS_CONVERSATIONS_DIR")
    proof = "samples"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        top = self.environ.get("OPENHANDS_PERSISTENCE_DIR") or os.path.join(self.home, ".openhands")
        self.folder = self.environ.get("OPENHANDS_CONVERSATIONS_DIR") or os.path.join(top, "conversations")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the conversations, or those of one project."""
        found = (self._conversation(os.path.join(self.folder, name)) for name in listing(self.folder))
        return of_project(found, project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the conversation in a copy, or the one that a `base_state.json` belongs to."""
        if os.path.basename(path) == _STATE:
            return self._conversation(os.path.dirname(path))
        return self.copied_transcript(path)

    def _conversation(self, folder: str) -> Transcript | None:
        count = len(_events(folder))
        if not count:
            return None
        state = read_object(os.path.join(folder, _STATE))
        return Transcript(
            tool=self.name,
            key=os.path.basename(folder),
            path=os.path.join(folder, _STATE),
            project=word(state, "workspace", "working_dir"),
            size=count,
            changed=os.stat(os.path.join(folder, "events")).st_mtime_ns,
        )

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the conversations, without the events of those that are listed."""
        folders = {os.path.join(os.path.dirname(transcript.path), "events") for transcript in listed}

        def is_event(path: str) -> bool:
            folder, name = os.path.split(path)
            return folder in folders and _EVENT.fullmatch(name) is not None

        return unlisted_below(self.folder, listed, self.title, _COMPANIONS, is_event)

    def watched(self) -> Watch:
        """Return the folder of all conversations."""
        return Watch(folders=[self.folder])

    def changed(self, path: str) -> list[Transcript]:
        """Return the conversation whose folder a file is in."""
        name = step_below(self.folder, path)
        found = self._conversation(os.path.join(self.folder, name)) if name else None
        return [found] if found is not None else []

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the events in order. The state has settings of the program, with keys, and is left where it is."""
        folder = os.path.dirname(transcript.path)
        for name in _events(folder):
            text = read_document(os.path.join(folder, "events", name)).decode("utf-8", "replace")
            yield Piece("event", {"name": name, "text": text})

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these events."""
        return EventsReading(transcript, pieces)


def _events(folder: str) -> list[str]:
    """Return the names of the files with events, in order."""
    try:
        names = os.listdir(os.path.join(folder, "events"))
    except OSError:
        return []
    numbered = [(int(found[1]), name) for name in names if (found := _EVENT.fullmatch(name))]
    return [name for _, name in sorted(numbered)]


class EventsReading(WholeReading):
    """The messages of one conversation."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript)
        self._pieces = pieces
        self._finished: set[str] = set()  # the calls that were the model's answer
        self._ends: dict[str, str] = {}  # event: the last message up to it
        self._last = ""

    def __iter__(self) -> Iterator[Message]:
        yield from self.each(self._events(), self._messages)

    def _events(self) -> Iterator[Object]:
        for piece in self._pieces:
            event = object_of(text_of(piece.values.get("text")))
            if event is None:
                self.damaged("not JSON", text_of(piece.values.get("name")))
            else:
                yield event

    def _messages(self, event: Object) -> list[Message]:
        kind = word(event, "kind")
        identity = word(event, "id") or derived_id(self.transcript.key, str(event))
        parent = word(event, "parent_id")
        before = BEGINNING if parent == _ROOT else self._ends.get(parent, self._last or BEGINNING)
        self._ends[identity] = before
        if kind in _SKIPPED:
            note(self.counts.skipped, kind)
            return []
        if kind in ("Condensation", "CondensationSummaryEvent"):
            self.about.summary = word(event, "summary") or self.about.summary
            note(self.counts.skipped, kind)
            return []
        parts = self._parts(event, kind, f"{self.transcript.key}#{identity}")
        if parts is None:
            note(self.counts.unknown, kind or "without kind")
            return []
        made = self.builder.messages(
            parts,
            role=USER if kind == "MessageEvent" and word(event, "source") == "user" else ASSISTANT,
            identity=identity,
            timestamp=local_moment(word(event, "timestamp")),
        )
        if made:
            made[0].parent = "" if before == (self._last or BEGINNING) else before
            self._last = self._ends[identity] = made[-1].id
        return made

    def _parts(self, event: Object, kind: str, reference: str) -> list[Part] | None:
        """Return the parts of an event; None if its kind is unknown."""
        call, name = word(event, "tool_call_id"), word(event, "tool_name")
        if kind == "MessageEvent":
            message = event["llm_message"]
            return [*_thinking(message), *_texts(objects(message, "content"), reference)]
        if kind == "ActionEvent":
            said = [*_thinking(event), *_texts(objects(event, "thought"), reference)]
            arguments = word(event, "tool_call", "arguments")
            values = object_of(arguments)
            if name == _FINISH and word(values, "message"):
                self._finished.add(call)
                return [*said, Part(TEXT, text=word(values, "message"))]
            return [*said, Part(TOOL_CALL, id=call, name=name, input=values or arguments or field(event, "action"))]
        if kind == "ObservationEvent":
            if call in self._finished:
                return []  # it repeats the answer
            output, images = output_of(field(event, "observation", "content"), reference)
            failed = is_error(field(event, "observation"))
            return [Part(TOOL_RESULT, call_id=call, name=name, output=output, is_error=failed), *images]
        if kind in ("UserRejectObservation", "AgentErrorEvent"):
            reason = word(event, "rejection_reason") or word(event, "error")
            return [Part(TOOL_RESULT, call_id=call, name=name, output=reason, is_error=True)]
        if kind == "ACPToolCallEvent":
            output, images = output_of(field(event, "content") or field(event, "raw_output"), reference)
            shown = word(event, "title") or word(event, "tool_kind")
            return [
                Part(TOOL_CALL, id=call, name=shown, input=field(event, "raw_input")),
                Part(TOOL_RESULT, call_id=call, name=shown, output=output, is_error=is_error(event)),
                *images,
            ]
        return None


def _thinking(record: Any) -> Iterator[Part]:
    blocks = (word(block, "thinking") for block in objects(record, "thinking_blocks"))
    if text := word(record, "reasoning_content") or "\n\n".join(block for block in blocks if block):
        yield Part(THINKING, text=text)


def _texts(content: list[Object], reference: str) -> Iterator[Part]:
    for number, item in enumerate(content):
        if text := word(item, "text"):
            yield Part(TEXT, text=text)
        elif word(item, "type") == "image":
            yield Part(IMAGE, ref=f"{reference}/{number}")
