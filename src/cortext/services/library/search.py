"""Search over every session of every store, by words and by meaning: the best messages, each with its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from threading import RLock
from typing import Protocol

from cortext.index.search.engine import Engine, UpdateResult
from cortext.index.search.generation import Status
from cortext.index.search.models import Models
from cortext.index.search.named_time import days_of
from cortext.index.search.query import ParsedQuery, parse
from cortext.index.sessions import Row
from cortext.model.query import Among, Query, number
from cortext.model.wording import quoted
from cortext.safety import terminal
from cortext.services.library.indexed_search import IndexedSearch
from cortext.services.library.listing import Listing, in_place
from cortext.services.library.sources import Answer, SessionHit

__all__ = ["Search", "SearchSource", "UpdateResult", "heading_of", "lacking", "note_of", "nothing_of"]

Progress = Callable[[str, int, int], None]

LIMIT, PER_SESSION = 20, 3  # results, and messages of each, unless the query says otherwise
MOST_NAMED = 5  # absent words that are named
MOST_NEAR = 5  # results, if none answers: what is only near does not fill a page
SAMPLE = 20_000  # characters of a session by whose rarest words similar ones are found


def heading_of(answer: Answer, text: str) -> str:
    """Return what stands above the hits, or instead of them: why some may be missing, and what occurs nowhere."""
    said = note_of(answer, text) if answer.hits else nothing_of(answer, text)
    return " ".join(filter(None, (answer.incomplete, said)))


def note_of(answer: Answer, text: str) -> str:
    """Return the line shown above the hits: what of the query occurs nowhere, or is not clear."""
    unclear = f"{_quoted(answer.unclear)} was not used as a time: no git tag here has that name."
    notes = [unclear if answer.unclear else "", lacking(answer, text), "The nearest:" if answer.is_only_near else ""]
    return " ".join(filter(None, notes))


def lacking(answer: Answer, text: str) -> str:
    """Return what of a query occurs nowhere, in a sentence, and what was looked for instead; empty if all occurs.

    Of a question that names nothing but a time: that nothing was said then.
    """
    if answer.silent:
        return f"Nothing was said {terminal.line(answer.silent)}."
    words = [_quoted(word) for word in list(answer.absent)[:MOST_NAMED]]
    if not words and answer.is_only_near:
        return f"No message contains {'most of these words' if answer.has_few else _quoted(text)}."
    if not words:
        return ""
    other = [_quoted(instead) for instead in answer.absent.values() if instead][:MOST_NAMED]
    rest = f", and {len(answer.absent) - len(words)} more" if len(answer.absent) > len(words) else ""
    said = f"{', '.join(words)}{rest} {'occurs' if len(answer.absent) == 1 else 'occur'} nowhere"
    return f"{said}; looked for {', '.join(other)} instead." if other else f"{said}."


def nothing_of(answer: Answer, text: str) -> str:
    """Return what is said if nothing was found: the filters may be the reason."""
    given = answer.filters.items()
    of_the_time = ("after", "before", "role") if answer.silent else ()
    filters = [f"{name}:{terminal.line(value)}" for name, value in given if name not in of_the_time]
    nothing = f"Nothing was said {terminal.line(answer.silent)}" if answer.silent else "Nothing was found"
    found = f"{nothing} with {' '.join(filters)}." if filters else f"{nothing}."
    return f"{found} {lacking(answer, text)}" if answer.absent else found


def _quoted(text: str) -> str:
    return quoted(terminal.line(" ".join(text.split())), 60)


class SearchSource(Protocol):
    """What searches in some of the sessions: the index in those in files, the servers in theirs."""

    def sessions(self, parsed: ParsedQuery, query: Query, limit: int, per_session: int) -> Answer:
        """Return the best sessions, each with its best messages."""
        ...

    def messages(self, parsed: ParsedQuery, query: Query, limit: int, per_session: int) -> Answer:
        """Return the best messages, each as a hit; 0: any number of one session."""
        ...

    def rows(self, parsed: ParsedQuery, query: Query, limit: int) -> Iterable[Row]:
        """Return the sessions with a message that has the words, the best first."""
        ...

    def reached(self, listing: Listing) -> SearchSource:
        """Return the same for the view of a listing that leaves out the servers that do not answer."""
        ...


class Search:
    """Search in the sessions of a listing. Several threads may use it: they take turns."""

    def __init__(
        self,
        listing: Listing,
        folder: str,
        models: Models,
        released: Callable[[str], str] = lambda version: "",
        served: Callable[[Listing, Engine], SearchSource] | None = None,
    ) -> None:
        self._listing = listing
        self._released = released  # when a version of the project was released
        self._engine = Engine(folder, listing.files, models)
        self._files = IndexedSearch(listing, self._engine, self._rebuild_damaged)
        self._served = served(listing, self._engine) if served is not None else None
        self._is_current = True  # whether everything was indexed when the last refresh ended
        self._turn = RLock()

    def reachable(self) -> Search:
        """Return the same search without the servers that do not answer (see `Listing.reachable`)."""
        other = copy(self)
        other._listing = self._listing.reachable()
        other._files = self._files.reached(other._listing, other._rebuild_damaged)
        other._served = self._served.reached(other._listing) if self._served is not None else None
        return other

    @property
    def listing(self) -> Listing:
        """The list of the sessions that are searched."""
        return self._listing

    def damaged(self, query: ParsedQuery | None = None, among: Among | None = None) -> int:
        """Return how many sessions, of those that a query allows, are damaged: messages may be missing there."""
        found = self._listing.index.pairs(list(self._listing.files), [("damage", "")])
        if found and query is not None:
            found = list(set(found).intersection(self._files.pairs(query)))
        return len(found if among is None else [pair for pair in found if among(*pair)])

    # ── the index ────────────────────────────────────────────────────────────────────────────────────

    def refresh(
        self, progress: Progress | None = None, *, meaning: bool = True, patient: bool = False, quick: bool = False
    ) -> UpdateResult:
        """Index what changed since the last time, unless another process is doing that now.

        Without `patient`, embedding a large amount of text is left for later. With `quick`, changes are noticed as by a
        quick refresh of the list.
        """
        said = (lambda done, total: progress("Reading sessions", done, total)) if progress else None
        with self._turn:
            is_due = self._listing.refresh(said, quick=quick)
            done = self._engine.update(self._listing.index, progress, meaning=meaning, patient=patient)
            self._is_current = done.is_current
            return done._replace(has_more=done.has_more or is_due)

    def rebuild(self, progress: Progress | None = None) -> None:
        """Build the index again; the old one answers until the new one is complete."""
        self._listing.refresh()
        self._engine.rebuild(self._listing.index, progress)

    def _rebuild_damaged(self) -> None:
        self._engine.discard()
        self.refresh(patient=True)

    def clear(self) -> None:
        """Delete the index; the next query builds it again."""
        self._engine.clear()

    def status(self) -> Status:
        """Return what the index holds, how large it is, and whether it is out of date."""
        self._listing.refresh()
        return self._engine.status(self._listing.index)

    # ── queries ──────────────────────────────────────────────────────────────────────────────────────

    def search(self, query: Query, *, fresh: bool = True) -> Answer:
        """Return the best sessions, each with its best messages."""
        return self._answer(query, self._sessions, fresh=fresh)

    def messages(self, query: Query, *, fresh: bool = True) -> Answer:
        """Return the best messages: a hit with one match for each of them."""
        return self._answer(query, self._messages, fresh=fresh)

    def _answer(self, query: Query, ask: Callable[[ParsedQuery, Query], Answer], *, fresh: bool) -> Answer:
        """Ask, and if nothing has the phrases of a question, ask without their quotes.

        If the user said nothing at a time, ask what the model said.
        """
        with self._turn:
            if fresh:
                self.refresh(meaning=not query.exact)
            parsed = parse(query.text, query.filters, lambda version: number(self._released(version)))
            answer = ask(parsed, query)
            unquoted = parsed.unquoted()
            if not answer.hits and not query.exact and unquoted is not None:
                absent, answer = answer.absent, ask(unquoted, query)
                answer = answer._replace(is_only_near=bool(answer.hits), absent={**absent, **answer.absent})
            by_model = parsed.by_model()
            if not answer.hits and by_model is not None:
                answer = ask(by_model, query)
            if answer.is_only_near:
                answer = answer._replace(hits=answer.hits[:MOST_NEAR])
            intent = parsed.intent
            asked_time = f"{intent.time} ({days_of(intent.when)})" if intent.is_only_work and intent.when else ""
            is_silent = not answer.hits and not self._listing.served  # a server is not asked for a time alone
            return in_place(answer)._replace(
                unclear=intent.unclear,
                silent=asked_time if is_silent else "",
                filters=parsed.filters,
                is_current=self._is_current,
                damaged=self.damaged(parsed, query.among),
                away=dict(self._listing.away),
            )

    def _sessions(self, parsed: ParsedQuery, query: Query) -> Answer:
        limit, per_session = query.limit or LIMIT, query.per_session or PER_SESSION
        return _merged([source.sessions(parsed, query, limit, per_session) for source in self._sources()], limit)

    def _messages(self, parsed: ParsedQuery, query: Query) -> Answer:
        limit = query.limit or LIMIT
        return _merged([source.messages(parsed, query, limit, query.per_session) for source in self._sources()], limit)

    def _sources(self) -> list[SearchSource]:
        return [self._files, *([self._served] if self._served is not None else [])]

    def naming(self, text: str, *, limit: int) -> list[Row]:
        """Return the sessions with a message that contains these words exactly, the best first; reads no message."""
        parsed, query = parse(text), Query(text, exact=True)
        found: dict[tuple[str, str], Row] = {}
        with self._turn:
            for source in self._sources():
                for row in source.rows(parsed, query, limit):
                    found.setdefault((row.root, row.id), row)
        return list(found.values())[:limit]

    def similar(self, row: Row, *, limit: int = 10) -> Answer:
        """Return sessions about the same topic as this one, by its rarest words and by its meaning."""
        texts = [row.title, row.summary]
        room = SAMPLE
        for message in self._listing.messages(row):
            if message.role in ("user", "assistant"):
                texts.append(message.text[:room])
                room -= len(texts[-1])
            if room <= 0:
                break
        with self._turn:
            found = self._files.similar(row, texts, limit)
            return Answer(found, is_current=self._is_current, damaged=self.damaged(), away=dict(self._listing.away))


def _merged(answers: Sequence[Answer], limit: int) -> Answer:
    """Return the answers of several sources as one; the first is that of the index.

    Scores are computed differently, so the best of each gets the same score. A server does not tell which words it has:
    if any was found there, none is known to be missing.
    """
    merged, *others = answers
    for answer in others:
        if not answer.is_only_near:
            merged = merged._replace(is_only_near=False, absent={})
        if not answer.hits:
            continue
        top, best = _best_score(merged.hits) or 1.0, _best_score(answer.hits) or 1.0
        scaled = [item._replace(score=round(item.score / best * top, 4)) for item in answer.hits]
        scaled.sort(key=lambda item: item.score, reverse=True)
        hits = sorted([*merged.hits, *scaled], key=lambda item: item.score, reverse=True)
        merged = merged._replace(hits=hits[:limit])
    return merged


def _best_score(hits: Iterable[SessionHit]) -> float:
    return max((item.score for item in hits), default=0.0)
