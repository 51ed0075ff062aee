"""Answers one query: by words, by names and by meaning, and then by the text of the best candidates."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import tantivy

from cortext.errors import ConfigError, ModelError
from cortext.index.search.fuse import At, Place, Scores, Signals, fused, in_order
from cortext.index.search.generation import Generation
from cortext.index.search.keyword_query import NAMES, QueryBuilder, between, restricted_to
from cortext.index.search.keywords import NAME_PLACE, Hit
from cortext.index.search.models import Models
from cortext.index.search.query import ParsedQuery
from cortext.index.search.words import is_written_in, searchable
from cortext.model.query import FILTERS, moment

if TYPE_CHECKING:
    from cortext.index.search.embed import Model
    from cortext.index.search.rank import Decides, Read

FEW_KEYS = 1_500  # up to this many sessions restrict the query itself; beyond it, results are filtered afterwards
CANDIDATES = 300
OF_A_TIME = 5_000  # of the newest messages, if it is asked what was done at a time: of every session of that time
MOST = 20_000
NAMED = 60  # sessions that are found by their names
LEAST_NAMED = 0.3  # how much of a query is in a name that has none of its words whole
MOST_VERBATIM = 50  # messages with the words of a query in their order, or with one of its identifiers or paths
DURING = 100  # messages of the time that a query names
WIDER = 10  # times as many of the nearest are looked at if some are left out
CHECKED = 5_000  # messages, of the best sessions, of which it is asked whether the filters allow them
LEAST = 0.35  # how much of a query the best messages have, unless they are near in meaning, or it counts as not found


class Lookup(NamedTuple):
    """A query, the sessions to search, and how."""

    query: ParsedQuery
    keys: Collection[int] | None = None  # the sessions to search; None: all
    leave_out: Collection[int] = ()  # sessions that are not searched
    limit: int = CANDIDATES
    exact: bool = False  # by whole words only
    like: int = 0  # the key of a session whose meaning is used instead of the query's
    read: Read | None = None  # returns messages; with it, the best candidates are ordered by their text
    decides: Decides = lambda text: 0.0  # says how much of what the query asks about a text decides


class Results(NamedTuple):
    """What a query found, by (key, number of the message), and what to know about it."""

    scores: Scores
    terms: Collection[str] = ()  # to highlight in snippets
    signals: Mapping[At, Signals] = {}
    dated: Collection[At] = ()  # the messages of the time that the query names
    far: float = 0.0  # a lower cosine means nothing
    has_words: bool = False  # whether the query's words were found, not only their meaning
    has_few: bool = False  # whether some of its words were found, but too few in any message
    absent: Mapping[str, str] = {}  # what of it no message has, by what was looked for instead
    meaningless: str = ""  # why it was answered without meaning

    def why(self, at: At) -> tuple[str, ...]:
        """Return what a message was found by: words, meaning, title, date; or that it is only next to one that was."""
        one = self.signals.get(at)
        if one is None:
            return ("date",) if at in self.dated else ()
        reasons = {
            "words": one.words > 0,
            "meaning": one.meaning > self.far,
            "title": one.name > 0,
            "date": at in self.dated,
        }
        found = tuple(name for name, holds in reasons.items() if holds)
        return found or ("neighbour",)


class _Near(NamedTuple):
    """How close messages are in meaning, by (key, place)."""

    cosines: Mapping[tuple[int, int], float] = {}
    common: float = 0.0  # a cosine that any two texts reach
    far: float = 0.0  # a lower one means nothing
    sure: float = 0.0  # what texts about something else hardly reach
    trouble: str = ""  # why the model could not be used


class Retriever:
    """Answers queries from one state of the index."""

    def __init__(self, generation: Generation, models: Models) -> None:
        self._generation, self._models = generation, models

    def retrieve(self, lookup: Lookup) -> Results:
        """Return the messages found, by (key, number)."""
        query, keys, leave_out, limit, exact, like, read, decides = lookup
        generation = self._generation
        if keys is not None and not keys:
            return Results({})
        builder = QueryBuilder(generation.keywords, generation.words, exact=exact)
        restrictions = self._restrictions(query, keys, leave_out)
        asked = builder.build(query, restrictions)
        if asked is None:
            return Results({})
        newest = not query.wanted
        hits = self._hits(asked, keys, OF_A_TIME if query.intent.is_only_work else limit, newest=newest)
        found = {(key, place): score for key, place, score in hits if place < NAME_PLACE}
        if newest:
            scores = in_order(found)
            has_time = query.filters.get("after") or query.filters.get("before")
            return Results(scores, builder.lit, dated=scores.keys() if has_time else (), has_words=True)
        by_name = builder.build(query, restrictions, NAMES)
        named = [*hits, *(self._hits(by_name, keys, NAMED) if by_name is not None else ())]
        names = self._names(query, {key for key, place, _ in named if place >= NAME_PLACE})
        if (
            query.intent.when is not None
        ):  # what was said at that time is a candidate even if others have more of the words
            during = [*restrictions, (tantivy.Occur.Must, between(generation.keywords, *query.intent.when))]
            asked = builder.build(query, during)
            for key, place, score in self._hits(asked, keys, DURING) if asked is not None else ():
                if place < NAME_PLACE:
                    found.setdefault((key, place), score)
        as_asked = None if exact else builder.whole(query, restrictions)
        whole = self._hits(as_asked, keys, MOST_VERBATIM) if as_asked is not None else ()
        whole = [hit for hit in whole if hit[1] < NAME_PLACE]
        for key, place, score in whole:
            found.setdefault((key, place), score)
        absent = builder.absent(query)
        if read is not None and not exact:
            absent |= _unwritten(query, absent, builder, read)
        is_answered = _is_answered(query, absent)
        has_words = bool(found or names) and builder.occurs(query)
        if not has_words:  # only stop words of the query matched, which does not answer it
            found, names = {}, {}
        if has_words and not (exact or like or self._models.none):
            # "eployment" means nothing to a model, but "deployment" does.
            query = copy(query)
            query.said = builder.respelled(query.said, self._models.static().has)
        # If a word is required or excluded, only keyword matches are shown, and meaning merely orders them.
        strict = exact or query.demands
        limit = 0 if strict else limit
        filtered = any(filter.field and query.filters.get(name) for name, filter in FILTERS.items())
        # If no word matched, words that the model does not know are dropped: their vectors would match anything.
        near = _Near()
        if not exact:
            count = limit * WIDER if filtered else limit
            near = self._near(query.said, like, found, keys, count, only_known=not has_words)
        nearest = near.cosines
        allowed: set[At] | None = None
        if filtered and not strict:
            allowed = self._allowed(restrictions, found, nearest)
            nearest = {(key, place): cosine for (key, place), cosine in nearest.items() if (key, place >> 1) in allowed}
        signals = fused(found, nearest, names, near=near.common, strict=strict)
        if allowed is not None:  # also the neighbours of what was found
            signals = {at: one for at, one in signals.items() if at in allowed}
        if read is None or exact or like or self._models.none:
            return Results(
                {at: one.whole for at, one in signals.items()},
                builder.lit,
                signals,
                far=near.far,
                has_words=has_words and is_answered,
                absent=absent,
                meaningless=near.trouble,
            )
        from cortext.index.search.rank import rerank

        def rarity(word: str) -> float:
            return _rarity(self._generation, word)

        first = {(key, place >> 1) for key, place, _ in whole}
        ranked = rerank(query, signals, first, read, decides, self._models.static(), rarity)
        has_few = False
        if has_words and not query.demands and ranked.cosine < near.sure and max(names.values(), default=0.0) < LEAST:
            # Of "volcano eruption file", a message has "file": that is no answer.
            share = builder.share(query, rarity)
            has_words = any(share(text) >= LEAST for text in ranked.texts)
            has_few = not has_words
        return Results(
            ranked.scores,
            builder.lit,
            signals,
            ranked.dated,
            near.far,
            has_words=has_words and is_answered,
            has_few=has_few,
            absent=absent,
            meaningless=near.trouble,
        )

    def _names(self, query: ParsedQuery, keys: Collection[int]) -> dict[int, float]:
        """Return how much of the query is in the names of these sessions, from 0 to 1; rare words count more."""
        weights = {
            stem: _rarity(self._generation, word.text)
            for word in query.wanted
            for stem in self._generation.keywords.stems(word.text)
        }
        whole = sum(weights.values())
        found: dict[int, float] = {}
        for key, name in self._generation.state.names(keys).items():
            stems = set(self._generation.keywords.stems(name))
            share = sum(weight for stem, weight in weights.items() if stem in stems) / whole if whole else 1.0
            found[key] = share or LEAST_NAMED  # by a part of a word, or in a script without spaces
        return found

    def _hits(
        self,
        asked: tantivy.Query,
        keys: Collection[int] | None,
        limit: int,
        *,
        newest: bool = False,
    ) -> list[Hit]:
        """Return the best documents of the allowed sessions."""
        hits = self._generation.keywords.search(asked, limit, newest=newest)
        if keys is None or len(keys) <= FEW_KEYS:
            return hits
        allowed = keys if isinstance(keys, (set, frozenset, dict)) else set(keys)
        more = limit
        kept = [hit for hit in hits if hit[0] in allowed]
        while len(kept) < min(limit, CANDIDATES) and len(hits) == more and more < MOST:
            more *= 4
            hits = self._generation.keywords.search(asked, more, newest=newest)
            kept = [hit for hit in hits if hit[0] in allowed]
        return kept[:limit]

    def _near(
        self,
        said: str,
        like: int,
        found: Collection[tuple[int, int]],
        keys: Collection[int] | None,
        count: int,
        *,
        only_known: bool,
    ) -> _Near:
        """Return how close messages are in meaning: the nearest of all, plus those that the words found.

        With `only_known`, words that the model does not know are left out of the text.
        """
        name = self._models.usable(self._generation.state)
        if not name or not said.strip():
            return _Near()
        vectors = self._generation.meaning(name).vectors()
        if not len(vectors):
            return _Near()
        mean = vectors.mean(like) if like else None
        try:
            model = self._models.model(name)
            said = _known(model, said) if only_known else said
            if mean is None and not said:
                return _Near()
            query = model.embed([said])[0] if mean is None else mean
        except (ModelError, ConfigError) as error:
            return _Near(trouble=f"matched by keywords only: {error.message}")
        nearest = vectors.search(query, count, keys) if count else []
        near = {(key, place): score for key, place, score in nearest if score >= model.far}
        near |= {(key, place): score for key, place, score in vectors.exactly(query, list(found))}
        return _Near(near, model.near, model.far, model.sure)

    def _allowed(
        self,
        restrictions: Sequence[tuple[tantivy.Occur, tantivy.Query]],
        found: Collection[Place],
        nearest: Collection[Place],
    ) -> set[At]:
        """Return which messages the filters allow, of the best sessions: vectors know no role and no time, words do.

        Both are given best first. What the words found has been filtered already.
        """
        by_turns = chain.from_iterable(zip_longest(found, nearest, fillvalue=(0, 0)))  # no session has the key 0
        best = list(dict.fromkeys(key for key, _ in by_turns if key))
        counts = self._generation.state.by_key(best)
        keys: list[int] = []
        room = CHECKED
        for key in best:
            if room <= 0:
                break
            keys.append(key)
            room -= counts[key][2] if key in counts else 0
        asked = [*restrictions, (tantivy.Occur.Must, restricted_to(self._generation.keywords, "session", keys))]
        hits = self._generation.keywords.search(tantivy.Query.boolean_query(asked), MOST, newest=True)
        return {(key, place >> 1) for key, place, _ in hits} | {(key, place >> 1) for key, place in found}

    def _restrictions(
        self, query: ParsedQuery, keys: Collection[int] | None, leave_out: Collection[int]
    ) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        from tantivy import Occur

        found: list[tuple[tantivy.Occur, tantivy.Query]] = []
        if keys is not None and len(keys) <= FEW_KEYS:
            found.append((Occur.Must, restricted_to(self._generation.keywords, "session", list(keys))))
        if leave_out:
            found.append((Occur.MustNot, restricted_to(self._generation.keywords, "session", list(leave_out))))
        role = query.filters.get("role")
        if role:
            found.append((Occur.Must, restricted_to(self._generation.keywords, "role", [role])))
        after, before = query.filters.get("after", ""), query.filters.get("before", "")
        if after or before:
            first = moment(after) if after else 0
            last = moment(before, end=True) if before else 99991231235959
            found.append((Occur.Must, between(self._generation.keywords, first, last)))
        return found


def _is_answered(query: ParsedQuery, absent: Mapping[str, str]) -> bool:
    """Whether what has words of a query may answer it: not if its error is nowhere, or all of its things, or all words.

    Of `parseReplies`, the store has "parse" and "replies": that is near, and no answer. A word that occurs in another
    spelling, which was looked for instead, is there.
    """
    if query.error is not None and query.error.text in absent:
        return False
    missing = {text for text, instead in absent.items() if not instead}
    things = {word.bare for word in query.things}
    return not (things and things <= missing) and any(word.bare not in missing for word in query.wanted)


def _unwritten(query: ParsedQuery, absent: Mapping[str, str], builder: QueryBuilder, read: Read) -> dict[str, str]:
    """Return the things of a query that no message has as they are written, only their words in a row.

    For `--no-shadow-branch`, "no shadow branch" is near, and no more. That is said only where few messages have the
    words, because these are read.
    """
    gone: dict[str, str] = {}
    for word in query.things:
        places = builder.few(word) if word.bare not in absent and not word.phrase else []
        texts = [searchable(message) for message in read(places).values()] if places else []
        if texts and not any(is_written_in(word.bare, text, begins=word.begins) for text in texts):
            gone[word.bare] = ""
    return gone


def _rarity(generation: Generation, word: str) -> float:
    """Return the inverse document frequency of a word."""
    searcher = generation.keywords.searcher()
    often = min(
        (searcher.doc_freq("body", stem) for stem in generation.keywords.stems(word)), default=searcher.num_docs
    )
    return math.log(1 + (searcher.num_docs - often + 0.5) / (often + 0.5))


def _known(model: Model, said: str) -> str:
    """Return the words that a model knows; only our own model can tell, so for others all of them."""
    from cortext.index.search.embed import StaticModel

    return model.known(said) if isinstance(model, StaticModel) else said
