"""The adapter for Continue: finding and reading its sessions.

The command-line program has no hooks that run (1.5.47 knows the names of Claude Code's, but calls none) and reads no
settings of a project, so there is nothing to install.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from cortext.io import new_files
from cortext.model import clock
from cortext.model.message import ASSISTANT, TOOL, USER, Message
from cortext.tools.base import About, Counts, Leftover, Transcript, Watch
from cortext.tools.continue_cli.messages import Item, head_of, identity, items_of, messages_of
from cortext.tools.shared.building import note_tools
from cortext.tools.shared.folders import changed_below, listing, transcript_of
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import NOT_UNDERSTOOD, RECORD_ERRORS, note, place
from cortext.tools.shared.parts import HasWriter, LazyPart
from cortext.tools.shared.program import LocalTool

LIST = "sessions.json"  # Continue's list of its sessions
UNTITLED = "Untitled Session"
_DEFAULT_TITLES = (UNTITLED, "New Session")
_ROLES = (USER, ASSISTANT, TOOL, "thinking")
_REMEMBERED = 50  # items at the end of which a cursor knows the ids


class Continue(HasWriter, LocalTool):
    """The adapter for Continue."""

    name = "continue"
    title = "Continue"
    tested_version = "1.5.47"
    command = "cn"
    package = "@continuedev/cli"
    folder_variables = ("CONTINUE_GLOBAL_DIR",)
    # With a first prompt, `cn --resume` sends only that, and overwrites the session's file with what follows.
    prompt_is_public = True
    user_speaks_first = True
    install_command = "npm install -g @continuedev/cli"

    writer = LazyPart("cortext.tools.continue_cli.write:ContinueWriter")

    @property
    def folder(self) -> str:
        """The folder of its sessions."""
        base = self.own_environ.get("CONTINUE_GLOBAL_DIR") or os.path.join(self.home, ".continue")
        return os.path.join(base, "sessions")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        wanted = None if project is None else os.path.realpath(project)
        for name in listing(self.folder):
            is_session = name.endswith(".json") and name != LIST
            found = self.transcript_at(os.path.join(self.folder, name)) if is_session else None
            if found is not None and (wanted is None or os.path.realpath(found.project) == wanted):
                yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file; None if it is not a session of Continue."""
        head = head_of(path)
        if head is None:
            return None
        return transcript_of(self.name, head.key, path, head.project, os.stat(path))

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions, without the list of them."""
        return unlisted_below(self.folder, listed, self.title, (LIST,))

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self.folder])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in this file."""
        return changed_below(self, self.folder, path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> ContinueReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        return ContinueReading(transcript, cursor)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the document unchanged."""
        new_files.mirror_file(transcript.path, target, later)


class ContinueReading:
    """The messages of a session; see `TranscriptReading`.

    When the user edits an earlier message, Continue drops everything after it. The cursor knows the last items, so that
    the next message gets the one before the edited one as its parent.
    """

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript
        self._start_cursor = cursor
        # The format has no times. A session that is about to be resumed has a later one (see `open_next`).
        seconds = min(transcript.changed / 1e9, time.time())
        self._timestamp = clock.from_epoch(seconds)

    def __iter__(self) -> Iterator[Message]:
        self.counts = Counts()
        path = self._transcript.path
        head = head_of(path)
        if head is not None and head.title not in _DEFAULT_TITLES:
            self.about.title = head.title
        items = list(items_of(path, self.counts))
        names: list[str] = []
        for item in items:
            names.append(identity(item, names[-1] if names else self._transcript.key))
        start, parent = self._start(items, names)
        for item, name in zip(items[start:], names[start:], strict=True):
            for message in self._messages(item, name):
                message.parent, parent = message.parent or parent, ""
                yield message
        if not self.counts.damaged:
            done = len(items)
            if items and not all(state.is_finished for state in items[-1].states or ()):
                done -= 1  # read it again when its results are there
            self.cursor = {"items": done, "last": names[max(0, done - _REMEMBERED) : done]}

    def _start(self, items: list[Item], names: list[str]) -> tuple[int, str]:
        """Return the first new item and, if items before it were removed, the message that it follows."""
        cursor = self._start_cursor or {}
        done, last = cursor.get("items"), cursor.get("last")
        if not isinstance(done, int) or not isinstance(last, list):
            return 0, ""
        for removed, name in enumerate(reversed(last)):
            index = done - removed
            if 0 < index <= len(names) and names[index - 1] == name:
                if not removed:
                    return index, ""
                follows = self._messages(items[index - 1], name, count=False)
                return (index, follows[-1].id) if follows and index < len(names) else (0, "")
        return 0, ""

    def _messages(self, item: Item, name: str, *, count: bool = True) -> list[Message]:
        counts = self.counts if count else Counts()
        if item.summary is not None:
            self.about.summary = item.summary
            note(counts.skipped, "summary")
            return []
        role = item.message.role
        if role not in _ROLES:
            note(counts.skipped if role == "system" else counts.unknown, f"message of role {role or 'none'}")
            return []
        try:
            messages = messages_of(item, name, self._timestamp, counts.damaged)
        except RECORD_ERRORS:
            note(counts.damaged, NOT_UNDERSTOOD)
            place(counts, f"{self._transcript.path}#{name}", 0)
            return []
        for message in messages:
            self.about.model = message.model or self.about.model
            note_tools(self.about, message)
        return messages
