"""What conversations did with a file: found through the index, read from the store, and replayed line by line."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from cortext.errors import CortextError, NotFound
from cortext.model import clock
from cortext.model.message import ASSISTANT, Message
from cortext.model.wording import clip, times
from cortext.safety.secrets.masking import mask
from cortext.services.digest.asks import answered_before, turns
from cortext.services.digest.calls import CHANGED, CREATED, READ, calls_in
from cortext.services.library.json_views import Json, session_json
from cortext.services.library.listing import Listing, Row
from cortext.services.library.search import Search
from cortext.services.origin.edits import Edit, edits_in
from cortext.services.origin.history import is_distinctive, lines_of, locate, normalised
from cortext.services.projects.projects import Projects
from cortext.services.projects.repository import Repository, is_below, repository_of
from cortext.services.text.decisions import topic_words
from cortext.services.text.sentences import sentences
from cortext.services.text.settled import decisions_in

MOST_SESSIONS = 200  # sessions that are read for one file: those that name it, the likeliest first
MOST_WORDS = 24  # words of the lines by which the sessions are ranked
_WORD = re.compile(r"[^\W_]{4,}")

LONGEST_QUOTE = 400  # characters of each quotation
BEFORE = 12  # messages before a turn in which a decision may have been made

ENOUGH = 3  # distinctive lines that leave no doubt
MOST_MOVED = 8  # other paths of a file that are looked at, those with the most of its lines

# How sure it is that a path means the file.
OTHER, ALIKE, SAME = range(3)


class SessionEdit(NamedTuple):
    """An edit, the session and the message that it is in, when it was made (0: unknown), and whether the path is sure.

    A path is not sure if the project of the session is in no folder of this machine and has no known remote.
    `moved_from` is the path, if it is another one of the same project and only the file's name is the same.
    """

    row: Row
    seq: int
    time: float
    edit: Edit
    is_sure: bool
    moved_from: str = ""


class _TimedEdit(NamedTuple):
    """An edit of a session, whatever the file."""

    edit: Edit
    message: str  # its id
    seq: int
    time: float


class EditSource:
    """The sessions, and the edits in those that were read."""

    def __init__(self, listing: Listing, search: Callable[[], Search]) -> None:
        self.listing, self._search = listing, search
        self._projects = Projects()
        self._edits: dict[tuple[str, str], list[_TimedEdit]] = {}
        self._names: frozenset[str] = frozenset()  # of the files whose edits these are

    def messages(self, row: Row) -> list[Message]:
        """Return all messages of a session, with side branches and the work of side agents; none if it is gone."""
        try:
            return list(self.listing.named_store(row.root).store.read(row.id))
        except (CortextError, OSError):
            return []

    def naming(self, names: Iterable[str], words: Sequence[str] = ()) -> list[Row]:
        """Return the sessions that name one of these files, the likeliest first."""
        search = self._search()
        found: dict[tuple[str, str], Row] = {}
        for name in dict.fromkeys(os.path.basename(name).replace('"', " ") for name in names):
            for row in search.naming(" ".join((f'"{name}"', *words)), limit=MOST_SESSIONS):
                found.setdefault((row.root, row.id), row)
        return list(found.values())

    def held_as(self, keys: Sequence[str]) -> list[Row]:
        """Return the sessions that their AI tools know by these ids; of conversations of a workspace, the newest."""
        rows = self.listing.rows()
        ends = tuple(f"-{key}" for key in keys)
        found = [row for row in rows if row.id.endswith(ends)]
        if len(found) < len(keys):
            others = [row for row in rows if row.kind == "workspace" and row not in found][:MOST_SESSIONS]
            found += [row for row in others if self._key_of(row) in keys]
        return found

    def _key_of(self, row: Row) -> str:
        try:
            return self.listing.found(row).session.origin.session_id
        except (CortextError, OSError):
            return ""

    def expect(self, paths: Iterable[str]) -> None:
        """Prepare for questions about these files: a session is then read once for all of them."""
        names = frozenset(map(os.path.basename, paths))
        if not names <= self._names:
            self._names, self._edits = self._names | names, {}

    def written(self, top: str, names: Sequence[str], lines: Sequence[str] = ()) -> list[SessionEdit]:
        """Return the edits to a file of the repository in `top`, by time; `names` are the names it had.

        With those to a file of the same name in another folder of the project: it may have been moved since.

        `lines` are those that matter: sessions with their words are read first, if there are very many.
        """
        self.expect(names)
        here = self._projects.repository(top)
        related = [(self.relation(row, here), row) for row in self.naming(names, _words(lines))]
        related.sort(key=lambda item: item[0] == OTHER)  # another project's session may have changed a file here, too
        found: dict[tuple[str, str, str], SessionEdit] = {}
        for relation, row in related[:MOST_SESSIONS]:
            for made in self._made(row):
                match = self.match(made.edit.path, row, relation, top, names)
                moved_from = _moved_from(made.edit.path, row, relation, names) if match == OTHER else ""
                if match != OTHER or moved_from:
                    written = SessionEdit(row, made.seq, made.time, made.edit, match == SAME, moved_from)
                    # A fork, or a session that was resumed elsewhere, repeats the messages of the first one.
                    key = (made.message, made.edit.path, made.edit.new)
                    if key not in found or row.created_at < found[key].row.created_at:
                        found[key] = written
        return sorted(found.values(), key=lambda item: (item.time, item.row.id, item.seq))

    def relation(self, row: Row, here: Repository) -> int:
        """Return whether a session was held in the same repository, in another one, or perhaps in the same."""
        if row.kind == "workspace" and self._projects.repository(row.root).is_same(here):
            return SAME
        if row.repository:
            theirs = repository_of(json.loads(row.repository))
        else:
            theirs = self._projects.repository(row.project) if row.project else Repository()
        if not theirs.is_known or not here.is_known:
            return ALIKE
        return SAME if theirs.is_same(here) else OTHER

    def match(self, path: str, row: Row, relation: int, top: str, names: Sequence[str]) -> int:
        """Return whether a path in a session means the file with one of these names below `top`."""
        path = os.path.normpath(os.path.expanduser(path))
        inside = path.removeprefix(f"{top}/")
        if os.path.isabs(path) and inside in names:
            return SAME
        if relation == OTHER:
            return OTHER
        project = row.project
        if os.path.isabs(path) and project and is_below(path, project):
            inside = path.removeprefix(f"{project}/")
        for name in names:
            # The tool's folder may be one inside the repository, or one above it.
            if inside == name or name.endswith(f"/{inside}") or ("/" in name and inside.endswith(f"/{name}")):
                return relation
        return OTHER

    def sessions_read(self) -> int:
        """Return how many sessions were read for these files."""
        return len(self._edits)

    def _made(self, row: Row) -> list[_TimedEdit]:
        key = (row.root, row.id)
        if key not in self._edits:
            messages = self.messages(row)
            self._edits[key] = [
                _TimedEdit(edit, message.id, message.seq, clock.to_epoch(message.timestamp) or 0.0)
                for edit in edits_in(messages, self._names)
                for message in (messages[edit.at],)
            ]
        return self._edits[key]


class Replay:
    """The lines of a file, each with the edit that wrote it, while edits are applied in order.

    Each folder that a project was held in is a place of its own: a worktree has its own version of the file.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[str, SessionEdit]] = {}

    def apply(self, written: SessionEdit) -> None:
        """Apply an edit."""
        lines = self._places.setdefault(written.row.project or written.row.id, {})
        old, new = lines_of(written.edit.old), lines_of(written.edit.new)
        if written.edit.whole:
            for line in [line for line in lines if line not in new]:
                del lines[line]
            for line in new:
                lines.setdefault(line, written)
            return
        for line in old:
            if line not in new:
                lines.pop(line, None)
        for line, count in new.items():
            if count > old[line]:
                lines[line] = written

    def origin(self, line: str) -> SessionEdit | None:
        """Return the edit that wrote a line (without white space) last; None if there is none."""
        found = [lines[line] for lines in self._places.values() if line in lines]
        return max(found, key=lambda item: (item.time, item.seq), default=None)


def _moved_from(path: str, row: Row, relation: int, names: Sequence[str]) -> str:
    """Return the path in the project of a file of the same name that may have been moved; empty if it is another's."""
    if relation == OTHER or os.path.basename(path) not in map(os.path.basename, names):
        return ""
    path = os.path.normpath(path)
    if os.path.isabs(path):
        if not row.project or not is_below(path, row.project):
            return ""
        path = os.path.relpath(path, row.project)
    # If the project is not certain, a folder in common says that it is this one.
    folder = path.partition("/")[0]
    return path if relation == SAME or any(name.startswith(f"{folder}/") for name in names) else ""


def moved(written: Iterable[SessionEdit], texts: Iterable[str]) -> dict[str, list[SessionEdit]]:
    """Return the edits under other paths, by path: those that wrote enough of these lines, the most of them first."""
    wanted = set(map(normalised, filter(is_distinctive, texts)))
    edits: dict[str, list[SessionEdit]] = {}
    for edit in written:
        if edit.moved_from:
            edits.setdefault(edit.moved_from, []).append(edit)
    shared = {
        path: len(wanted & {line for edit in made for line in lines_of(edit.edit.new)}) for path, made in edits.items()
    }
    paths = sorted((path for path in edits if shared[path] >= ENOUGH), key=lambda path: (-shared[path], path))
    return {path: edits[path] for path in paths[:MOST_MOVED]}


def _words(lines: Iterable[str]) -> list[str]:
    """Return words of distinctive lines, the longest first."""
    words = {word for line in lines if is_distinctive(line) for word in _WORD.findall(line)}
    return sorted(words, key=lambda word: (-len(word), word))[:MOST_WORDS]


# ── the turn that led to an edit ─────────────────────────────────────────────────────────────────────


class Reason(msgspec.Struct, kw_only=True):
    """The message of an edit and its time, and quotations without secrets, each with the number of its message."""

    seq: int
    timestamp: str
    call: str  # the name of the tool call
    path: str  # as the tool named it
    ask: str = ""
    ask_seq: int = -1
    answers: str = ""  # what a short ask ("yes") agrees with
    said: str = ""
    decision: str = ""
    decision_seq: int = -1


def reason_for(messages: Sequence[Message], written: SessionEdit) -> Reason:
    """Return the turn of an edit."""
    at = next((index for index, message in enumerate(messages) if message.seq == written.seq), 0)
    message = messages[at] if messages else None
    reason = Reason(
        seq=written.seq,
        timestamp=message.timestamp if message is not None else "",
        call=_quoted(written.edit.name, 60),
        path=_quoted(written.edit.path),
    )
    asked = turns(messages)
    index = bisect_right([turn.start for turn in asked], at) - 1
    start = 0
    if index >= 0:
        turn = asked[index]
        start = turn.start
        reason.ask, reason.ask_seq = _quoted(turn.ask), messages[start].seq
        if turn.is_short:
            reason.answers = _quoted(answered_before(messages, turn))
    reason.said = _last_sentence(messages[start : at + 1])
    near = messages[max(0, start - BEFORE) : at + 1]
    words = topic_words(f"{written.edit.path.rpartition('/')[2]} {reason.ask}")
    decided = decisions_in(near, words)
    if decided:
        best = max(decided, key=lambda decision: (decision.score, decision.seq))
        reason.decision, reason.decision_seq = _quoted(best.text), best.seq
    return reason


def _last_sentence(messages: Sequence[Message]) -> str:
    """Return the last sentence of the model before an edit."""
    for message in reversed(messages):
        if message.role == ASSISTANT and message.content.strip():
            found = sentences(message.content)
            if found:
                return _quoted(found[-1])
    return ""


def _quoted(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Return a text as it may be shown: masked before it is cut, because half a secret cannot be recognised."""
    return clip(mask(text).text, longest)


# ── which conversations used it ──────────────────────────────────────────────────────────────────────


class Touch(msgspec.Struct, kw_only=True):
    """What a session did with a file: how often it changed and only read it, and the message that used it last.

    `is_sure` is False if the path fits, but the project of the session cannot be recognised on this machine.
    """

    row: Row
    changed: int
    read: int
    seq: int
    timestamp: str
    is_sure: bool

    @property
    def did(self) -> list[str]:
        """What it did, in words."""
        done = {"changed": self.changed, "read": self.read}
        return [f"{what} it {times(often)}" for what, often in done.items() if often]


def touched(library: EditSource, path: str) -> list[Touch]:
    """Return the sessions that used a file, the one that used it last first. The file need not exist any more."""
    top, names = _place(path)
    here = Projects().repository(top)
    bases = {os.path.basename(name) for name in names}
    found = []
    for row in library.naming(names)[:MOST_SESSIONS]:
        touch = _touch(library, row, library.relation(row, here), top, names, bases)
        if touch is not None:
            found.append(touch)
    return sorted(found, key=lambda touch: (touch.timestamp, touch.row.id), reverse=True)


def _place(path: str) -> tuple[str, list[str]]:
    """Return the folder that a file's names are relative to, and those names."""
    try:
        history, inside = locate(path)
        return history.top, history.names(inside)
    except NotFound:  # in no repository: known by its path alone
        whole = os.path.abspath(os.path.expanduser(path))
        return os.path.dirname(whole), [os.path.basename(whole)]


def _touch(
    library: EditSource, row: Row, relation: int, top: str, names: Sequence[str], bases: set[str]
) -> Touch | None:
    messages = library.messages(row)
    uses = [(call.at, use.path, use.state) for call in calls_in(messages, bases) for use in call.files]
    # Here-documents, and the answers of tools without calls.
    edits = [(edit.at, edit.path, CREATED if edit.whole else CHANGED) for edit in edits_in(messages, bases)]
    sure: dict[int, tuple[str, int]] = {}
    for at, named, state in [*uses, *edits]:
        if os.path.basename(named) in bases and (match := library.match(named, row, relation, top, names)) != OTHER:
            before = sure.get(at, (READ, match))
            sure[at] = (state if state != READ else before[0], max(match, before[1]))
    if not sure:
        return None
    last = messages[max(sure)]
    changed = sum(state != READ for state, _ in sure.values())
    return Touch(
        row=row,
        changed=changed,
        read=len(sure) - changed,
        seq=last.seq,
        timestamp=last.timestamp,
        is_sure=any(match == SAME for _, match in sure.values()),
    )


def touch_json(touch: Touch) -> Json:
    """Return what a session did with a file."""
    fields = {"changed": touch.changed, "read": touch.read, "seq": touch.seq, "timestamp": touch.timestamp}
    return {"session": session_json(touch.row), **fields, "sure": touch.is_sure}
