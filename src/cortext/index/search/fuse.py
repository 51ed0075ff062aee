"""Combine scores by words, by meaning, by session name and by neighbouring messages into one.

Measured on several kinds of conversations (docs/search-quality.md): normalised, weighted scores beat rank fusion, which
is worse than words alone; neighbours, and how much of the session is about the query, are worth more than meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Place = tuple[int, int]  # session key, and twice the message number (plus 1 if the user wrote it)
At = tuple[int, int]  # session key, and number of the message

Scores = dict[At, float]

MEANING = 0.5  # weight of meaning; words have the rest
WORDS_POWER = 1.2  # one good match counts more than two poor ones
MEANING_POWER = 3.0
USER = 1.15  # messages by the user count a little more
BESIDE = ((1, 0.5), (-1, 0.25), (2, 0.1), (-2, 0.1))  # what a message adds to its neighbours: (distance, share)
ADDING = 100  # the best messages, which add to their neighbours
SESSION = 0.3  # bonus for every message of the most relevant session
SAYING = 3  # a session is judged by this many of its messages
NAMED = 0.8  # bonus for every message of a session whose name has all of the query


class Signals(NamedTuple):
    """What is known about a message before it is read; each is 0 if there is nothing."""

    words: float = 0.0  # BM25, relative to the best message
    meaning: float = 0.0  # the cosine itself
    own: float = 0.0  # words and meaning together
    beside: float = 0.0  # what its neighbours add
    session: float = 0.0  # what its session adds
    name: float = 0.0  # what the name of its session adds

    @property
    def whole(self) -> float:
        """The score; the best are about 1 to 2."""
        return self.own + self.beside + self.session + self.name


def fused(
    words: Mapping[Place, float],
    meaning: Mapping[Place, float],
    names: Mapping[int, float],
    *,
    near: float = 0.0,
    strict: bool = False,
) -> dict[At, Signals]:
    """Return the signals of all messages that have any.

    `names` says how much of the query is in the name of a session, from 0 to 1. `near` is the cosine that any two texts
    reach. `strict` leaves out messages that did not match themselves and only neighbour a match.
    """
    found = _own(words, meaning, near)
    beside: Scores = {}
    best = sorted(found.items(), key=lambda item: (-item[1].own, item[0]))[:ADDING]
    for (key, seq), one in best:
        for step, share in BESIDE:
            at = (key, seq + step)
            if at[1] >= 0 and (not strict or at in found):
                beside[at] = beside.get(at, 0.0) + share * one.own
    sessions = _sessions(found)
    titles = {key: NAMED * share for key, share in names.items()}
    for key in titles.keys() - sessions.keys():
        found[key, 0] = Signals(own=titles[key])  # only the name matches: show the session by its first message
    return {
        at: Signals(*found.get(at, _NOTHING)[:3], beside.get(at, 0.0), sessions.get(at[0], 0.0), titles.get(at[0], 0.0))
        for at in {**found, **beside}
    }


_NOTHING = Signals()


def _own(words: Mapping[Place, float], meaning: Mapping[Place, float], near: float) -> dict[At, Signals]:
    """Return each message's own signals, without its neighbours'."""
    best = max(words.values(), default=0.0) or 1.0
    nearest = max(max(meaning.values(), default=0.0) - near, 0.05)
    weight = MEANING if meaning else 0.0
    own: dict[At, Signals] = {}
    for key, place in {**words, **meaning}:
        said, cosine = words.get((key, place), 0.0) / best, meaning.get((key, place), 0.0)
        score = (1 - weight) * said**WORDS_POWER
        score += weight * (max(0.0, cosine - near) / nearest) ** MEANING_POWER
        own[key, place >> 1] = Signals(said, cosine, score * (USER if place & 1 else 1.0))
    return own


def _sessions(found: Mapping[At, Signals]) -> dict[int, float]:
    """Return each session's bonus: the sum of its best messages relative to the best session."""
    said: dict[int, list[float]] = {}
    for (key, _), one in found.items():
        said.setdefault(key, []).append(one.own)
    sums = {key: sum(sorted(scores, reverse=True)[:SAYING]) for key, scores in said.items()}
    best = max(sums.values(), default=0.0) or 1.0
    return {key: SESSION * score / best for key, score in sums.items()}


def in_order(words: Mapping[Place, float]) -> Scores:
    """Return scores for a query without words: the order of the hits, newest first."""
    return {(key, place >> 1): 1.0 / (rank + 1) for rank, (key, place) in enumerate(words)}
