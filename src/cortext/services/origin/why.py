"""Why a line exists: the conversation, the turn and the decision behind it, or that none is known.

The turn is the user's words that led to an edit, what the model said, and what was decided. The JSON of all this has
the same field names on the command line and for agents.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from cortext.errors import UsageError
from cortext.model.wording import amount
from cortext.services.library.json_views import Json, session_json
from cortext.services.library.listing import Listing, Row
from cortext.services.origin.history import (
    Addition,
    BlamedLine,
    Commit,
    GitHistory,
    commit_json,
    is_distinctive,
    normalised,
)
from cortext.services.origin.session_edits import ENOUGH, EditSource, Reason, Replay, SessionEdit, moved, reason_for

HIGH, MEDIUM, LOW = "high", "medium", "low"
NEAR = 30  # lines before and after one that are looked at together with it
ENOUGH_MOVED = 5  # distinctive lines that leave no doubt if they were written under another path
MANY, SHARE = 20, 0.15  # lines, or their share, of a commit that a session must have written to be behind it
SLACK = 60.0  # seconds by which clocks may differ
AMENDED = 7_200.0  # seconds after which a commit is rather rebased, with the lines that it had, than amended
NOT_KNOWN = "Not by an agent, as far as is known"
TOO_COMMON = "the line is too short or too common to tell"
NO_EDIT = "no stored conversation wrote it before it was committed"
EARLIER = "an agent wrote the same line, but an earlier commit accounts for that"


Moment = Callable[[Commit | None], float]  # when a commit was made, in one of the senses below


class Attribution(msgspec.Struct, kw_only=True):
    """Where something comes from. Without a session it is not known, and `why_not` says why."""

    row: Row | None = None
    confidence: str = ""
    matched: int = 0  # distinctive lines that the session wrote
    lines: int = 0  # distinctive lines that were compared
    why_not: str = ""
    reason: Reason | None = None
    is_named: bool = False  # whether the commit names it, in an `Entire-Checkpoint` trailer

    def evidence(self, unit: str = "lines") -> str:
        """Return how sure it is and why, as a clause."""
        wrote = f"it wrote {self.matched} of {self.lines} {unit}" if self.matched else ""
        named = "the commit names it" if self.is_named else ""
        return f"{self.confidence} confidence: {' and '.join(filter(None, (named, wrote)))}"


class LineOrigin(msgspec.Struct, kw_only=True):
    """A line and where it comes from."""

    line: BlamedLine
    origin: Attribution


class FileOrigins(msgspec.Struct, kw_only=True):
    """The sessions that wrote the present lines of a file, those with the most lines first."""

    path: str
    lines: int
    unknown: int  # lines of no known session, and lines that are too common to tell
    origins: list[Attribution]


class CommitOrigins(msgspec.Struct, kw_only=True):
    """The sessions that wrote the lines that a commit added, those with the most lines first."""

    commit: Commit
    files: int
    lines: int  # distinctive lines
    origins: list[Attribution]

    def likeliest(self) -> list[Row]:
        """Return the session behind it, or several if none of them can be it alone, the likeliest first.

        That is the one that the commits name, else the one that wrote most of the lines of all that are known.
        """
        named = [origin for origin in self.origins if origin.is_named]
        origins = named or self.origins
        if origins and not named and 2 * origins[0].matched > sum(origin.matched for origin in origins):
            origins = origins[:1]
        return [origin.row for origin in origins if origin.row is not None]


class _Verdict(NamedTuple):
    """The edit that wrote a line, if it counts, and whether one did not count because of an earlier commit."""

    written: SessionEdit | None
    is_earlier: bool = False


class Why:
    """Answers for the files of one repository."""

    def __init__(self, library: EditSource, history: GitHistory) -> None:
        self._library, self._history = library, history

    @property
    def listing(self) -> Listing:
        """The sessions that are looked at."""
        return self._library.listing

    def line(self, path: str, number: int) -> LineOrigin:
        """Return where a line comes from. Raises UsageError if the file has no such line."""
        lines = self._history.blame(path)
        if not 1 <= number <= len(lines):
            raise UsageError(f"{path} has no line {number}", hint=f"it has {amount(len(lines), 'line')}")
        target, near = lines[number - 1], _near(lines, number - 1)
        judged = self._judge(path, near)
        origin = _line_origin(target, near, judged)
        return LineOrigin(line=target, origin=self._explained(origin, judged[target.number].written))

    def lines(self, path: str) -> list[LineOrigin]:
        """Return where each line of a file comes from, without the turns that led to them."""
        return [found for found, _ in self._lines(path)]

    def _lines(self, path: str) -> list[tuple[LineOrigin, SessionEdit | None]]:
        lines = self._history.blame(path)
        judged = self._judge(path, lines)
        return [
            (
                LineOrigin(line=line, origin=_line_origin(line, _near(lines, index), judged)),
                judged[line.number].written,
            )
            for index, line in enumerate(lines)
        ]

    def file(self, path: str) -> FileOrigins:
        """Return the sessions that wrote the lines of a file as it is now."""
        found = self._lines(path)
        counts: Counter[tuple[str, str]] = Counter()
        best: dict[tuple[str, str], tuple[Attribution, SessionEdit | None]] = {}
        for item, written in found:
            origin = item.origin
            if origin.row is None or origin.confidence == LOW:
                continue
            key = (origin.row.root, origin.row.id)
            counts[key] += 1
            if key not in best or origin.matched > best[key][0].matched:
                best[key] = (origin, written)
        origins = [
            msgspec.structs.replace(self._explained(*best[key]), matched=count, lines=len(found))
            for key, count in counts.most_common()
        ]
        return FileOrigins(path=path, lines=len(found), unknown=len(found) - counts.total(), origins=origins)

    def commit(self, revision: str) -> CommitOrigins:
        """Return the sessions that wrote the lines that a commit added. Raises UsageError if it is a merge."""
        return self._of_commits([self._history.commit(revision)])

    def behind(self, name: str) -> CommitOrigins:
        """Return the same for all commits behind a commit, a merge or a pull request: see `commits_of`."""
        return self._of_commits([self._history.commit(sha) for sha in self._history.commits_of(name)])

    def _of_commits(self, changes: Sequence[tuple[Commit, list[Addition]]]) -> CommitOrigins:
        by_path: dict[tuple[str, str], list[BlamedLine]] = {}
        before: dict[tuple[str, str], str] = {}  # the names of files that a commit renamed
        for commit, additions in changes:
            before |= {(commit.sha, new): old for new, old in self._history.renames(commit.sha).items()}
            for one in additions:
                if is_distinctive(one.text):
                    line = BlamedLine(number=one.number, text=one.text, path=one.path, commit=commit)
                    by_path.setdefault((commit.sha, one.path), []).append(line)
        counts: Counter[tuple[str, str]] = Counter()
        first: dict[tuple[str, str], SessionEdit] = {}
        self._library.expect(path for _, path in by_path)
        for (sha, path), lines in by_path.items():
            for found in self._judge(path, lines, sha, list(filter(None, (path, before.get((sha, path)))))).values():
                if found.written is not None:
                    key = (found.written.row.root, found.written.row.id)
                    counts[key] += 1
                    first.setdefault(key, found.written)
        total = sum(map(len, by_path.values()))
        named = {(row.root, row.id): row for row in self._named([commit.sha for commit, _ in changes])}
        origins = []
        for key in dict.fromkeys((*sorted(named, key=lambda key: -counts[key]), *dict(counts.most_common()))):
            count = counts[key]
            confidence = HIGH if key in named else _of_commit(count, total, first[key])
            if confidence != LOW:
                origin = Attribution(
                    row=named.get(key) or first[key].row,
                    confidence=confidence,
                    matched=count,
                    lines=total,
                    is_named=key in named,
                )
                origins.append(self._explained(origin, first.get(key)))
        return CommitOrigins(
            commit=changes[0][0], files=len({path for _, path in by_path}), lines=total, origins=origins
        )

    def _named(self, commits: Sequence[str]) -> list[Row]:
        """Return the stored sessions that the trailers of these commits name."""
        keys = self._history.sessions_named(commits)
        return self._library.held_as(keys) if keys else []

    def _judge(
        self, path: str, lines: Sequence[BlamedLine], revision: str = "HEAD", names: Sequence[str] = ()
    ) -> dict[int, _Verdict]:
        """Return, by the number of each line, the edit that it comes from."""
        names = names or self._history.names(path)
        written = self._library.written(self._history.top, names, [line.text for line in lines])
        here = [edit for edit in written if not edit.moved_from]
        judged: dict[int, _Verdict] = {}
        if here:
            added = self._added(names, lines, revision)
            # An edit after a commit was made first can only be in it if the commit was amended.
            for moment in (_time, _made):
                judged |= _replayed(here, _rest(lines, judged), moment, added)
            # Or rebased with changes; then a single line, or a whole file that has it, is no evidence.
            late = [edit for edit in here if not edit.edit.whole]
            judged |= _enough(_replayed(late, _rest(lines, judged), _rebased, added, until=_rebased), lines)
        for moved_from, edits in moved(written, [line.text for line in _rest(lines, judged)]).items():
            added = self._added([*names, moved_from], lines, revision)
            judged |= _enough(_replayed(edits, _rest(lines, judged), _time, added), lines)
        return {line.number: judged.get(line.number, _Verdict(None)) for line in lines}

    def _added(self, names: Sequence[str], lines: Iterable[BlamedLine], revision: str) -> dict[str, list[Commit]]:
        """Return the commits that added each of these lines to a file with one of these names."""
        wanted = {text for line in lines if (text := normalised(line.text))}
        added: dict[str, list[Commit]] = {}
        for addition in self._history.additions(names, revision):
            if (text := normalised(addition.text)) in wanted:
                added.setdefault(text, []).append(addition.commit)
        return added

    def _explained(self, origin: Attribution, written: SessionEdit | None) -> Attribution:
        """Return an origin with the turn that led to it."""
        if origin.row is None or written is None:
            return origin
        reason = reason_for(self._library.messages(origin.row), written)
        return msgspec.structs.replace(origin, reason=reason)


def _near(lines: Sequence[BlamedLine], index: int) -> list[BlamedLine]:
    """Return the lines around one that come from the same commit, itself included."""
    around = lines[max(0, index - NEAR) : index + NEAR + 1]
    return [line for line in around if _sha(line.commit) == _sha(lines[index].commit)]


def _line_origin(target: BlamedLine, near: Iterable[BlamedLine], judged: dict[int, _Verdict]) -> Attribution:
    """Return where a line comes from, by its own edit and by what else of the same commit that session wrote."""
    found = judged[target.number]
    distinctive = [line for line in near if is_distinctive(line.text)]
    if found.written is None:
        blank = not is_distinctive(target.text)
        return Attribution(
            lines=len(distinctive), why_not=EARLIER if found.is_earlier else TOO_COMMON if blank else NO_EDIT
        )
    row = found.written.row
    matched = 0
    for line in distinctive:
        other = judged[line.number].written
        matched += other is not None and (other.row.root, other.row.id) == (row.root, row.id)
    confidence = _confidence(matched, len(distinctive), found.written)
    if not confidence:
        return Attribution(lines=len(distinctive), why_not=TOO_COMMON)
    return Attribution(row=row, confidence=confidence, matched=matched, lines=len(distinctive))


def _confidence(matched: int, lines: int, written: SessionEdit) -> str:
    """Return how sure it is that a session wrote something, by its distinctive lines and one of its edits."""
    if not matched:
        return ""
    if matched >= (ENOUGH_MOVED if written.moved_from else ENOUGH) and 2 * matched >= lines:
        return HIGH
    return MEDIUM if matched > 1 or (written.is_sure and lines <= ENOUGH) else LOW


def _of_commit(count: int, total: int, written: SessionEdit) -> str:
    """Return how sure it is that a session is behind a commit: a few lines of a larger one may be chance."""
    confidence = _confidence(count, total, written)
    if confidence == MEDIUM and total > ENOUGH and count < MANY and count < SHARE * total:
        return LOW
    return confidence


def _rest(lines: Iterable[BlamedLine], judged: dict[int, _Verdict]) -> list[BlamedLine]:
    return [line for line in lines if line.number not in judged]


def _replayed(
    written: Sequence[SessionEdit],
    lines: Iterable[BlamedLine],
    moment: Moment,
    added: dict[str, list[Commit]],
    *,
    until: Moment | None = None,
) -> dict[int, _Verdict]:
    """Return the edit that wrote each line, as far as one did up to this moment of the line's commit.

    None of them if another commit, between the edit and this one, added the same line: then the edit is that one's
    origin. A commit that was picked onto another branch is the same one: it keeps its author's time.
    """
    judged: dict[int, _Verdict] = {}
    replay, applied = Replay(), 0
    for line in sorted(lines, key=lambda line: moment(line.commit)):
        while applied < len(written) and written[applied].time <= moment(line.commit) + SLACK:
            replay.apply(written[applied])
            applied += 1
        text = normalised(line.text)
        origin = replay.origin(text) if text else None
        if origin is not None:
            last = (until or _time)(line.commit)
            others = (other for other in added.get(text, ()) if other.sha != _sha(line.commit))
            is_earlier = any(origin.time <= other.time < last for other in others)
            judged[line.number] = _Verdict(None if is_earlier else origin, is_earlier)
    return judged


def _enough(judged: dict[int, _Verdict], lines: Iterable[BlamedLine]) -> dict[int, _Verdict]:
    """Return only what a session wrote of a commit with at least so many distinctive lines that there is no doubt."""
    sources = {
        line.number: (written.row.root, written.row.id, _sha(line.commit), is_distinctive(line.text))
        for line in lines
        if line.number in judged and (written := judged[line.number].written) is not None
    }
    counts = Counter(source[:3] for source in sources.values() if source[3])
    return {number: judged[number] for number, source in sources.items() if counts[source[:3]] >= ENOUGH}


def _time(commit: Commit | None) -> float:
    return commit.time if commit is not None else time.time()


def _rebased(commit: Commit | None) -> float:
    return max(commit.time, commit.made) if commit is not None else time.time()


def _made(commit: Commit | None) -> float:
    return min(max(commit.time, commit.made), commit.time + AMENDED) if commit is not None else time.time()


def _sha(commit: Commit | None) -> str:
    return commit.sha if commit is not None else ""


def line_json(path: str, found: LineOrigin) -> Json:
    """Return where a line comes from."""
    return {
        "file": path,
        "line": found.line.number,
        "text": found.line.text,
        "commit": commit_json(found.line.commit),
        **origin_json(found.origin),
    }


def file_json(found: FileOrigins) -> Json:
    """Return where the lines of a file come from."""
    return {
        "file": found.path,
        "lines": found.lines,
        "unknown_lines": found.unknown,
        "origins": [origin_json(origin) for origin in found.origins],
    }


def commit_origins_json(found: CommitOrigins) -> Json:
    """Return where a commit comes from."""
    return {
        "commit": commit_json(found.commit),
        "files": found.files,
        "lines": found.lines,
        "origins": [origin_json(origin) for origin in found.origins],
    }


def origin_json(origin: Attribution) -> Json:
    """Return an origin; `session` is null if none is known."""
    return {
        "session": session_json(origin.row) if origin.row is not None else None,
        "confidence": origin.confidence or None,
        "named_by_commit": origin.is_named,
        "matched_lines": origin.matched,
        "compared_lines": origin.lines,
        "why_not": origin.why_not,
        "turn": msgspec.to_builtins(origin.reason) if origin.reason is not None else None,
        "resume": f"cortext resume {origin.row.id}" if origin.row is not None else "",
    }
