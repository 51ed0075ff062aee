"""The adapter for OpenHands CLI: a folder for each conversation, with one file for each event."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cortext.tools.base import Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.shared.bundle import BundleTool, Piece
from cortext.tools.shared.folders import step_below
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.values import word

_EVENT = re.compile(r"event-(\d+)-.+\.json")
_STATE = "base_state.json"
# What OpenHands keeps beside the events of a conversation.
_COMPANIONS = ("*/meta.json", "*/TASKS.json", "*/*.md", "*/bash_events/", "*/observations/")


class OpenHands(BundleTool, LocalTool):
    """The adapter for OpenHands CLI; it only reads."""

    name = "openhands"
    title = "OpenHands CLI"
    tested_version = ""
    command = "openhands"
    folder_variables = ("OPENHANDS_PERSISTENCE_DIR", "OPENHANDS_CONVERSATIONS_DIR")
    proof = "samples"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        top = self.environ.get("OPENHANDS_PERSISTENCE_DIR") or os.path.join(self.home, ".openhands")
        self.folder = self.environ.get("OPENHANDS_CONVERSATIONS_DIR") or os.path.join(top, "conversations")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the conversations, or those of one project."""
        folders = None if project is None else {project, os.path.realpath(project)}
        for name in sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else ():
            found = self._conversation(os.path.join(self.folder, name))
            if found is not None and (folders is None or found.project in folders):
                yield found

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
        from cortext.tools.shared.documents import read_document

        folder = os.path.dirname(transcript.path)
        for name in _events(folder):
            text = read_document(os.path.join(folder, "events", name)).decode("utf-8", "replace")
            yield Piece("event", {"name": name, "text": text})

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these events."""
        from cortext.tools.openhands.read import EventsReading

        return EventsReading(transcript, pieces)


def _events(folder: str) -> list[str]:
    """Return the names of the files with events, in order."""
    try:
        names = os.listdir(os.path.join(folder, "events"))
    except OSError:
        return []
    numbered = [(int(found[1]), name) for name in names if (found := _EVENT.fullmatch(name))]
    return [name for _, name in sorted(numbered)]
