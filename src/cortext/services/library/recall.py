"""What an agent may ask of the past: found, listed and read, without secrets.

Everything that leaves here goes to a model. So a whole message is looked through for secrets before a piece is cut
from it: half a key has no form by which it could be known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cortext.index.search.words import clean, searchable
from cortext.model.message import Message
from cortext.safety.framing import disarmed, field
from cortext.safety.secrets.masking import find, mask
from cortext.services.library.listing import Listing, Row
from cortext.services.library.resolve import Key, Resolver
from cortext.services.library.search import Match, Search
from cortext.services.text.decisions import Decision, decisions_in, topic_words
from cortext.services.text.digest import clip
from cortext.services.text.masking import mask_message, mask_messages
from cortext.services.text.render import body

SUMMARY = 300  # characters of a summary beside a result
TITLE = 160
WORD = 40  # and of a type, a tool, a role
PASSAGE = 1_200  # characters of a message that was found, for background
BESIDE = 300  # and of the messages beside it
DECIDED_IN = 12  # sessions in which decisions are looked for
WHOLE = 300  # messages: a longer session is read only around what was found
AROUND = 6
MOST_DECISIONS = 60
LONGEST_NAME = 100  # characters by which a session may be named
CLEARLY = 0.5  # of the best score: so much must a place be about the topic


class Passage(msgspec.Struct, kw_only=True):
    """A message that was found; `before` and `after` are its neighbours."""

    seq: int
    role: str
    timestamp: str
    text: str
    before: str = ""
    after: str = ""


class Told(msgspec.Struct, kw_only=True):
    """A session with what was found in it, the best first."""

    session: Row
    passages: list[Passage]


class Settled(msgspec.Struct, kw_only=True):
    """A decision and the session that it was made in."""

    session: Row
    decision: Decision


class Recall:
    """The questions, over the sessions of one listing."""

    def __init__(self, listing: Listing, search: Callable[[], Search]) -> None:
        self._listing, self._search = listing, search
        self.by_meaning = False  # whether no message has the words of the last question

    # ── finding ──────────────────────────────────────────────────────────────────────────────────────

    def found(
        self,
        query: str,
        *,
        filters: Mapping[str, str],
        limit: int,
        per_session: int = 3,
        leave_out: Collection[str] = (),
        whole: bool = False,
    ) -> list[Told]:
        """The best sessions with their best messages: snippets, or (`whole`) as much of them as is background."""
        search = self._search()
        results = search.search(
            query, filters=filters, limit=limit, per_session=per_session, leave_out=leave_out, fresh=False
        )
        self.by_meaning = search.by_meaning
        told = []
        for result in results:
            make = self._background if whole else self._snippet
            passages = [make(result.session, match) for match in result.matches]
            told.append(Told(session=without_secrets(result.session), passages=passages))
        return told

    def decisions(self, topic: str, *, leave_out: Collection[str] = ()) -> list[Settled]:
        """What was decided about a topic, in any session, the oldest first."""
        search = self._search()
        results = search.search(topic, filters={}, limit=DECIDED_IN, per_session=8, leave_out=leave_out, fresh=False)
        self.by_meaning = search.by_meaning
        words = topic_words(topic)
        settled: dict[tuple[str, str], Settled] = {}
        best_score = max((match.score for result in results for match in result.matches), default=0.0)
        for result in results:
            row = without_secrets(result.session)
            # What is only faintly about the topic would bring decisions about something else.
            places = sorted(match.seq for match in result.matches if match.score >= CLEARLY * best_score)
            if not places:
                continue
            messages, _ = mask_messages(list(self._around(result.session, places)))
            for decision in decisions_in(messages, words, places, row.title):
                # A fork and its origin say the same: the first is enough.
                settled.setdefault((decision.timestamp, decision.text), Settled(session=row, decision=decision))
        best = sorted(settled.values(), key=lambda item: -item.decision.score)[:MOST_DECISIONS]
        return sorted(best, key=lambda item: (item.decision.timestamp, item.session.id, item.decision.seq))

    def _around(self, row: Row, places: Sequence[int]) -> Iterator[Message]:
        """The messages in which decisions are looked for: all of a short session, of a long one those near a find."""
        if row.message_count <= WHOLE:
            yield from self._read(row, 0, row.message_count)
            return
        done = 0
        for place in places:
            start, end = max(done, place - AROUND), place + AROUND + 1
            if start < end:
                yield from self._read(row, start, end)
                done = end

    def _read(self, row: Row, start: int, end: int) -> Iterator[Message]:
        """Messages by their numbers, from one up to (not with) another."""
        for message in self._listing.place(row.root).store.read(row.id, max(0, start)):
            if message.seq >= end:
                return
            yield message

    def _snippet(self, row: Row, match: Match) -> Passage:
        """The snippet as search made it, without what is a piece of a secret in the whole message."""
        near = list(self._read(row, match.seq - 1, match.seq + 2))
        return _passage(match, *scrubbed(near, match.snippet, match.before, match.after))

    def _background(self, row: Row, match: Match) -> Passage:
        """The message itself, or the stretch of it that was found, and the beginnings of those beside it."""
        near, _ = mask_messages(list(self._read(row, match.seq - 1, match.seq + 2)))
        said = {message.seq: " ".join(body(message, cut_results=True).split()) for message in near}
        return _passage(
            match,
            _stretch(said.get(match.seq, ""), match.snippet.strip("…")),
            clip(said.get(match.seq - 1, ""), BESIDE),
            clip(said.get(match.seq + 1, ""), BESIDE),
        )

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def resolve(self, wanted: str, workspace: str = "", *, shown: Sequence[Key] | None = None) -> Row:
        """The session that a number or an id means; of clones the one in this workspace, else the newest."""
        see = "list_sessions or search_sessions"
        names = Resolver(self._listing.rows(), workspace, shown, newest_clone=True, see=see)
        return names.resolve(clip(wanted.strip(), LONGEST_NAME), words=False)

    def messages(self, row: Row, start: int) -> Iterator[tuple[Message, str]]:
        """Every message from a number on, with its text as a model may read it, one after the other."""
        for message in self._listing.place(row.root).store.read(row.id, start):
            yield message, body(mask_message(message)[0])


def without_secrets(row: Row) -> Row:
    """A session as a model may see it; nothing in it is longer than it should be, whoever wrote its file."""
    longest = {"title": TITLE, "summary": SUMMARY, "created_at": 24, "last_active": 24}
    kept = ("id", "root", "path")  # what it is named and found by
    clean: dict[str, Any] = {}
    for name, text in row._asdict().items():
        if isinstance(text, str) and name not in kept:
            clean[name] = clip(field(mask(text).text), longest.get(name, WORD))
    return row._replace(**clean)


def _passage(match: Match, text: str, before: str, after: str) -> Passage:
    return Passage(
        seq=match.seq,
        role=clip(field(mask(match.role).text), WORD),
        timestamp=field(mask(match.timestamp).text)[:24],
        text=disarmed(text),
        before=disarmed(before),
        after=disarmed(after),
    )


def scrubbed(near: Iterable[Message], *pieces: str) -> list[str]:
    """Pieces of these messages without their secrets, also where a piece holds only a part of one."""
    secrets = [secret for message in near for secret in _secrets(clean(searchable(message)))]
    return [_scrubbed(piece, secrets) for piece in pieces]


def _secrets(text: str) -> list[tuple[str, str]]:
    """Each secret of a text, on one line as snippets are, with the mark that stands for it."""
    return [
        (" ".join(text[one.start : one.end].split()), f"[masked {one.kind} {one.mark}]") for one in find(text)
    ]  # fmt: skip


def _scrubbed(text: str, secrets: Sequence[tuple[str, str]]) -> str:
    """A piece of a text without these secrets, also where its edges cut one in two."""
    for secret, mark in secrets:
        text = text.replace(secret, mark)
        core = text.strip("…")
        if len(core) > 3 and core in secret:
            return mark
        for size in range(min(len(secret), len(core)) - 1, 3, -1):
            if core.startswith(secret[-size:]):
                text = f"…{mark}{core[size:]}{'…' if text.endswith('…') else ''}"
                break
        core = text.strip("…")
        for size in range(min(len(secret), len(core)) - 1, 3, -1):
            if core.endswith(secret[:size]):
                text = f"{'…' if text.startswith('…') else ''}{core[:-size]}{mark}…"
                break
    return mask(text).text


def _stretch(text: str, found: str) -> str:
    """All of a text that is not long; else so much of it around what was found."""
    if len(text) <= PASSAGE:
        return text
    place = max(0, text.find(found[:60]))
    start = max(0, min(place - PASSAGE // 4, len(text) - PASSAGE))
    end = start + PASSAGE
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
