"""Search, decisions and reading for a model, without secrets.

Everything returned here goes to a model. A message is therefore searched for secrets before an excerpt is cut from it:
half a key cannot be recognised.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from cortext.index.search.query import subject_of
from cortext.index.search.words import clean, searchable
from cortext.index.sessions import Key
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.wording import clip
from cortext.safety.framing import disarmed, field
from cortext.safety.secrets.masking import find, mask
from cortext.services.library.listing import Listing, Row, placed
from cortext.services.library.resolve import Resolver
from cortext.services.library.search import Search
from cortext.services.library.sources import Answer, Match, SessionHit
from cortext.services.text.decisions import topic_words
from cortext.services.text.for_models import body
from cortext.services.text.message_masking import mask_message, mask_messages
from cortext.services.text.settled import AGREED, MODEL, Decision, decisions_in, reverses, says_the_same

SUMMARY = 400  # characters of a summary: one that an agent wrote is never longer
TITLE = 160  # characters of a title
WORD = 40  # characters of a type, a tool, a role
PASSAGE = 1_200  # characters of a message that was found, for background
NEIGHBOUR = 300  # characters of the messages before and after it
SESSIONS_WITH_DECISIONS = 12  # sessions that are searched for decisions
SHORT_SESSION = 300  # messages: a longer session is read only around the matches
AROUND = 6  # messages before and after a match
MOST_DECISIONS = 60
LONGEST_NAME = 100  # characters by which a session may be named
ORDERED = 100  # messages that are ordered together for background
REPEATED = 0.05  # what another message of the same session counts less: several sessions tell more than one
LEAST_SCORE = 0.5  # of the best score: the least for a match around which decisions are searched


class Passage(msgspec.Struct, kw_only=True):
    """A message that was found; `before` and `after` are its neighbours."""

    seq: int
    role: str
    timestamp: str
    text: str
    before: str = ""
    after: str = ""


class SessionPassages(msgspec.Struct, kw_only=True):
    """A session with the passages found in it, the best first."""

    session: Row
    passages: list[Passage]


class SessionDecision(msgspec.Struct, kw_only=True):
    """A decision and the session that it was made in."""

    session: Row
    decision: Decision
    reversed_at: str = ""


class Recall:
    """Answers questions about the sessions of one listing."""

    def __init__(self, listing: Listing, search: Callable[[], Search]) -> None:
        self._listing, self._search = listing, search

    # ── searching ────────────────────────────────────────────────────────────────────────────────────

    def sessions(self, query: Query) -> Answer:
        """Return the best sessions with their best messages, for `passages`: their texts may have secrets."""
        return self._search().search(query, fresh=False)

    def passages(self, hits: Sequence[SessionHit]) -> Iterator[tuple[Row, Passage]]:
        """Yield the best message of each session, then the second best of each, and so on; each is read when wanted."""
        rows = [without_secrets(hit.session) for hit in hits]
        for number in range(max((len(hit.matches) for hit in hits), default=0)):
            for row, hit in zip(rows, hits, strict=True):
                if number < len(hit.matches):
                    yield row, self._background(hit.session, hit.matches[number], PASSAGE)

    def evidence(self, query: Query, *, start: int = 0) -> tuple[Answer, Iterator[tuple[Row, Passage]]]:
        """Return the best messages of all sessions, and the passages from number `start` on, best first.

        Each passage is read when it is reached. A hundred messages are ordered at a time, so that the order is the same
        on every page.
        """
        whole = math.ceil(query.limit / ORDERED) * ORDERED
        answer = self._search().messages(replace(query, limit=whole), fresh=False)
        ranked = answer.hits
        ordered = [one for first in range(0, whole, ORDERED) for one in _spread(ranked[first : first + ORDERED])]
        return answer, self._each(ordered[start : query.limit])

    def _each(self, hits: Iterable[SessionHit]) -> Iterator[tuple[Row, Passage]]:
        """Yield the passage of each message."""
        rows: dict[tuple[str, str], Row] = {}
        for hit in hits:
            row = hit.session
            shown = rows.setdefault((row.root, row.id), without_secrets(row))
            yield shown, self._background(row, hit.matches[0], PASSAGE)

    def decisions(self, query: Query) -> tuple[Answer, list[SessionDecision]]:
        """Return what was found about a topic, and what was decided about it in any session, the oldest first.

        What was said in several sessions or in other words is returned once: where it was said first.
        """
        answer = self._search().search(replace(query, limit=SESSIONS_WITH_DECISIONS, per_session=8), fresh=False)
        words = topic_words(subject_of(query.text))
        found: dict[tuple[str, str], SessionDecision] = {}
        best_score = max((match.score for result in answer.hits for match in result.matches), default=0.0)
        for result in answer.hits:
            row = without_secrets(result.session)
            # A weak match would add decisions about something else.
            matched = sorted(match.seq for match in result.matches if match.score >= LEAST_SCORE * best_score)
            if not matched:
                continue
            messages, _ = mask_messages(list(self._around(result.session, matched)))
            for decision in decisions_in(messages, words, row.title):
                # A fork repeats the decisions of its origin.
                found.setdefault((decision.timestamp, decision.text), SessionDecision(session=row, decision=decision))
        settled = _once(_with_reversals(sorted(found.values(), key=_moment), words))
        return answer, sorted(sorted(settled, key=lambda item: -item.decision.score)[:MOST_DECISIONS], key=_moment)

    def _around(self, row: Row, matched: Sequence[int]) -> Iterator[Message]:
        """Yield the messages to search for decisions: all of a short session, else those near a match."""
        if row.line_count <= SHORT_SESSION:
            yield from self._read(row, 0, row.line_count)
            return
        done = 0
        for seq in matched:
            start, end = max(done, seq - AROUND), seq + AROUND + 1
            if start < end:
                yield from self._read(row, start, end)
                done = end

    def _read(self, row: Row, start: int, end: int) -> Iterator[Message]:
        """Yield the messages from number `start` up to, but not including, `end`."""
        for message in self._listing.named_store(row.root).store.read(row.id, max(0, start)):
            if message.seq >= end:
                return
            yield message

    def _background(self, row: Row, match: Match, longest: int) -> Passage:
        """Return the message, or an excerpt around the match, and the beginnings of its neighbours."""
        near, _ = mask_messages(list(self._read(row, match.seq - 1, match.seq + 2)))
        texts = {message.seq: " ".join(body(message, cut_results=True).split()) for message in near}
        return _passage(
            match,
            _excerpt(texts.get(match.seq, ""), match.snippet.strip("…"), longest),
            clip(texts.get(match.seq - 1, ""), min(longest, NEIGHBOUR)),
            clip(texts.get(match.seq + 1, ""), min(longest, NEIGHBOUR)),
        )

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def resolve(self, wanted: str, workspace: str = "", *, shown: Sequence[Key] | None = None) -> Row:
        """Return the session with a number or an id; of clones, the one in this workspace, else the newest."""
        see = "list_sessions or search_sessions"
        names = Resolver(self._listing.named(wanted, shown), workspace, shown, newest_clone=True, see=see)
        return placed([names.resolve(clip(wanted.strip(), LONGEST_NAME), words=False)])[0]

    def messages(self, row: Row, start: int) -> Iterator[tuple[Message, str]]:
        """Yield every message from a number on, with its text as a model may read it."""
        for message in self._listing.named_store(row.root).store.read(row.id, start):
            yield message, body(mask_message(message)[0])


def _moment(item: SessionDecision) -> tuple[str, str, int]:
    return item.decision.timestamp, item.session.id, item.decision.seq


def _with_reversals(ordered: list[SessionDecision], words: Collection[str]) -> list[SessionDecision]:
    """Note of each decision the first later one that reversed it. They are ordered by time."""
    for index, item in enumerate(ordered):
        by = next((one for one in ordered[index + 1 :] if reverses(one.decision, item.decision, words)), None)
        if by is not None:
            item.decision.reversed_by = f"{by.session.id}#{by.decision.seq}"
            item.reversed_at = by.decision.timestamp
    return ordered


def _once(ordered: list[SessionDecision]) -> list[SessionDecision]:
    """Return each decision once, where it was made first; one that was reversed in between was made again."""
    kept: list[SessionDecision] = []
    for item in ordered:
        again = item.decision
        for first in kept:
            is_open = not first.reversed_at or again.timestamp < first.reversed_at
            if is_open and says_the_same(first.decision.text, again.text):
                first.decision.times += 1
                first.decision.score = max(first.decision.score, again.score)
                first.decision.rejected = first.decision.rejected or again.rejected
                if first.decision.by == MODEL != again.by:
                    first.decision.by = AGREED
                break
        else:
            kept.append(item)
    return kept


def _spread(ranked: Iterable[SessionHit]) -> list[SessionHit]:
    """Return messages in an order in which each counts a little less, the more of its session are better."""
    better: Counter[tuple[str, str]] = Counter()
    worth: list[tuple[float, SessionHit]] = []
    for hit in ranked:
        key = (hit.session.root, hit.session.id)
        worth.append((hit.matches[0].score - REPEATED * better[key], hit))
        better[key] += 1
    return [hit for _, hit in sorted(worth, key=lambda one: -one[0])]


def without_secrets(row: Row) -> Row:
    """Return a session as a model may see it: without secrets, and with every field limited in length."""
    longest = {"title": TITLE, "summary": SUMMARY, "created_at": 24, "last_active": 24}
    kept = ("id", "root", "path")  # needed to find it again
    clean: dict[str, Any] = {}
    for name, text in row._asdict().items():
        if isinstance(text, str) and name not in kept:
            clean[name] = clip(field(mask(text).text), longest.get(name, WORD))
    clean["repository"] = ""  # JSON, which cannot be shortened; a model has no use for it
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


def masked_match(listing: Listing, row: Row, match: Match) -> Match:
    """Return a match with a snippet without secrets, also if the snippet has only a part of one.

    If something was masked, nothing is highlighted: the positions no longer apply.
    """
    message = listing.message(row, match.seq)
    [shown] = scrubbed([message] if message is not None else [], match.snippet)
    return match if shown == match.snippet else match._replace(snippet=shown, highlights=[])


def scrubbed(near: Iterable[Message], *excerpts: str) -> list[str]:
    """Return excerpts of these messages without secrets, also if an excerpt has only a part of one."""
    secrets = [secret for message in near for secret in _secrets(clean(searchable(message)))]
    return [_scrubbed(excerpt, secrets) for excerpt in excerpts]


def _secrets(text: str) -> list[tuple[str, str]]:
    """Return each secret of a text, on one line as in snippets, with its replacement."""
    return [
        (" ".join(text[found.start : found.end].split()), f"[masked {found.kind} {found.mark}]") for found in find(text)
    ]


def _scrubbed(text: str, secrets: Sequence[tuple[str, str]]) -> str:
    """Return an excerpt without these secrets, also if its start or end cuts one in two."""
    for secret, replacement in secrets:
        text = text.replace(secret, replacement)
        core = text.strip("…")
        if len(core) > 3 and core in secret:
            return replacement
        for size in range(min(len(secret), len(core)) - 1, 3, -1):
            if core.startswith(secret[-size:]):
                text = f"…{replacement}{core[size:]}{'…' if text.endswith('…') else ''}"
                break
        core = text.strip("…")
        for size in range(min(len(secret), len(core)) - 1, 3, -1):
            if core.endswith(secret[:size]):
                text = f"{'…' if text.startswith('…') else ''}{core[:-size]}{replacement}…"
                break
    return mask(text).text


def _excerpt(text: str, found: str, longest: int) -> str:
    """Return the text, or if it is long, the part of it around what was found."""
    if len(text) <= longest:
        return text
    offset = max(0, text.find(found[:60]))
    start = max(0, min(offset - longest // 4, len(text) - longest))
    end = start + longest
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
