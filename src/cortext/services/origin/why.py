"""Why a line exists: the conversation, the turn and the decision behind it, or that none is known.

The turn is the user's words that led to an edit, what the model said, and what was decided. The JSON of all this has
the same field names on the command line and for agents.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from cortext.errors import UsageError
from cortext.model import clock
from cortext.model.wording import amount
from cortext.services.library.json_views import Json, session_json
from cortext.services.library.listing import Listing, Row
from cortext.services.origin.history import Addition, BlamedLine, Commit, GitHistory, is_distinctive, normalised
from cortext.services.origin.session_edits import EditSource, Reason, Replay, SessionEdit, reason_for

HIGH, MEDIUM, LOW = "high", "medium", "low"
NEAR = 30  # lines before and after one that are looked at together with it
ENOUGH = 3  # distinctive lines that leave no doubt
MANY, SHARE = 20, 0.15  # lines, or their share, of a commit that a session must have written to be behind it
SLACK = 60.0  # seconds by which clocks may differ
AMENDED = 7_200.0  # seconds after which a commit is rather rebased, with the lines that it had, than amended
NOT_KNOWN = "Not by an agent, as far as is known"
TOO_COMMON = "the line is too short or too common to tell"
NO_EDIT = "no stored conversation wrote it before it was committed"
EARLIER = "an agent wrote the same line, but an earlier commit accounts for that"


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
        for commit, additions in changes:
            for one in additions:
                if is_distinctive(one.text):
                    line = BlamedLine(number=one.number, text=one.text, path=one.path, commit=commit)
                    by_path.setdefault((commit.sha, one.path), []).append(line)
        counts: Counter[tuple[str, str]] = Counter()
        first: dict[tuple[str, str], SessionEdit] = {}
        self._library.expect(path for _, path in by_path)
        for (sha, path), lines in by_path.items():
            for found in self._judge(path, lines, sha, [path]).values():
                if found.written is not None:
                    key = (found.written.row.root, found.written.row.id)
                    counts[key] += 1
                    first.setdefault(key, found.written)
        total = sum(map(len, by_path.values()))
        named = {(row.root, row.id): row for row in self._named([commit.sha for commit, _ in changes])}
        origins = []
        for key in dict.fromkeys((*sorted(named, key=lambda key: -counts[key]), *dict(counts.most_common()))):
            count = counts[key]
            confidence = HIGH if key in named else _of_commit(count, total, is_sure=first[key].is_sure)
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
        if not written:
            return {line.number: _Verdict(None) for line in lines}
        wanted = {text for line in lines if (text := normalised(line.text))}
        added: dict[str, list[Commit]] = {}
        for addition in self._history.additions(names, revision):
            if (text := normalised(addition.text)) in wanted:
                added.setdefault(text, []).append(addition.commit)
        judged: dict[int, _Verdict] = {}
        # An edit after a commit was made first can only be in it if the commit was amended.
        for moment in (_time, _made):
            replay, applied = Replay(), 0
            unknown = [line for line in lines if line.number not in judged]
            for line in sorted(unknown, key=lambda line: moment(line.commit)):
                while applied < len(written) and written[applied].time <= moment(line.commit) + SLACK:
                    replay.apply(written[applied])
                    applied += 1
                text = normalised(line.text)
                origin = replay.origin(text) if text else None
                if origin is not None:
                    is_earlier = _committed_before(origin, line.commit, added.get(text, ()))
                    judged[line.number] = _Verdict(None if is_earlier else origin, is_earlier)
        return {line.number: judged.get(line.number, _Verdict(None)) for line in lines}

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
    confidence = _confidence(matched, len(distinctive), is_sure=found.written.is_sure)
    if not confidence:
        return Attribution(lines=len(distinctive), why_not=TOO_COMMON)
    return Attribution(row=row, confidence=confidence, matched=matched, lines=len(distinctive))


def _confidence(matched: int, lines: int, *, is_sure: bool) -> str:
    """Return how sure it is that a session wrote something, by its distinctive lines."""
    if not matched:
        return ""
    if matched >= ENOUGH and 2 * matched >= lines:
        return HIGH
    return MEDIUM if matched > 1 or (is_sure and lines <= ENOUGH) else LOW


def _of_commit(count: int, total: int, *, is_sure: bool) -> str:
    """Return how sure it is that a session is behind a commit: a few lines of a larger one may be chance."""
    confidence = _confidence(count, total, is_sure=is_sure)
    if confidence == MEDIUM and total > ENOUGH and count < MANY and count < SHARE * total:
        return LOW
    return confidence


def _committed_before(written: SessionEdit, commit: Commit | None, added: Iterable[Commit]) -> bool:
    """Whether another commit, between the edit and this one, added the same line: then the edit is that one's origin.

    A commit that was picked onto another branch is the same one: it keeps its author's time.
    """
    return any(written.time <= other.time < _time(commit) for other in added)


def _time(commit: Commit | None) -> float:
    return commit.time if commit is not None else time.time()


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


def commit_json(commit: Commit | None) -> Json | None:
    """Return a commit; None for lines that are not committed."""
    if commit is None:
        return None
    date = clock.from_epoch(commit.time)
    return {"sha": commit.sha, "author": commit.author, "date": date, "subject": commit.subject}
