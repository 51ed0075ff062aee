"""Order the best candidates by reading them: late interaction, dates, decisions, roles, and a learned ranker.

What the index knows brings the best messages among the first hundred; which of them answers is decided by their text.
The ranker is boosted trees, evaluated in numpy (`bench/train_ranker.py` trains them); their file names the features
that they were trained on. If it is missing, or was trained on others, the signals are added up with fixed weights.

Late interaction: each word piece of the question is compared with every piece of a message, not with their sum. A piece
of the question takes its nearest piece of the message (cosine of two rows of the static table). Pieces count by their
rarity and by the length of their row, which is the weight that training gave them. A long message does not drown
the one sentence that answers, as it does in the sum.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from zipfile import BadZipFile

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.index.search.embed import StaticModel
from cortext.index.search.features import NAMES, features
from cortext.index.search.fuse import At, Scores, Signals
from cortext.index.search.keyword_query import MOST_IN_A_ROW
from cortext.index.search.query import ParsedQuery
from cortext.index.search.words import STOP, searchable, spellings, words_of
from cortext.model.message import Message
from cortext.model.query import number

Floats = NDArray[np.float32]

MOST_WORDS = 48  # of the question
SAME = 0.999  # a cosine that only the same piece has
PATH = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "ranking", "trees.npz"
)
START = 4.0  # weight of the untrained score, which the trees correct; so they cannot go far wrong on unknown talk


class Nearness(NamedTuple):
    """How near texts are to a question."""

    texts: Floats  # three columns per text: see `late`
    pieces: Floats  # for every text (rows), how near each piece of the question is to it
    weights: Floats  # of the question's pieces; their sum is 1

    def together(self, rows: Sequence[int]) -> float:
        """Return how near several texts are as one: each piece of the question takes the nearest of them."""
        return float(self.pieces[rows].max(axis=0) @ self.weights) if len(self.weights) else 0.0


def late(model: StaticModel, question: str, texts: Sequence[str], rarity: Callable[[str], float]) -> Nearness:
    """Return how near the question's pieces are to each text, how much of the question's weight it has word for word,
    and how near its own pieces are to the question. `rarity` is a word's inverse document frequency.
    """
    words = words_of(question)[:MOST_WORDS]
    asked, cuts = model.pieces(words)
    rare = np.repeat([math.sqrt(max(rarity(word), 0.0)) for word in words], np.diff(cuts))
    asked, first = np.unique(asked, return_index=True)
    weights = rare[first] * model.weights(asked) if len(asked) else np.zeros(0)
    found = np.zeros((len(texts), 3), dtype=np.float32)
    flat, bounds = model.pieces(texts)
    lengths = np.diff(bounds)
    filled = np.flatnonzero(lengths)
    pieces = np.zeros((len(texts), len(asked)), dtype=np.float32)
    if not len(filled) or not weights.sum():
        return Nearness(found, pieces, np.zeros(len(asked), dtype=np.float32))
    weights = (weights / weights.sum()).astype(np.float32)
    distinct, which = np.unique(flat, return_inverse=True)
    near = (model.unit_rows(asked) @ model.unit_rows(distinct).T)[:, which]
    pieces[filled] = np.maximum.reduceat(near, bounds[:-1][filled], axis=1).T
    found[:, 0] = pieces @ weights
    found[:, 1] = (pieces > SAME) @ weights
    found[filled, 2] = np.add.reduceat(near.max(axis=0), bounds[:-1][filled]) / lengths[filled]
    return Nearness(found, pieces, weights)


class Trees:
    """Trees of equal weight whose values are added. A negative child is a leaf: its value is at `-child - 1`."""

    def __init__(
        self,
        roots: NDArray[np.int32],
        feature: NDArray[np.int32],
        threshold: NDArray[np.float32],
        children: NDArray[np.int32],
        values: NDArray[np.float32],
    ) -> None:
        self._roots, self._feature, self._threshold = roots, feature, threshold
        self._children, self._values = children, values

    def scores(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the untrained score (the first feature), corrected by all trees, for each row of features."""
        if not len(rows):
            return np.zeros(0)
        node = np.broadcast_to(self._roots, (len(rows), len(self._roots))).copy()
        row = np.arange(len(rows))[:, None]
        while (inner := node >= 0).any():
            here = np.where(inner, node, 0)
            right = rows[row, self._feature[here]] > self._threshold[here]
            node = np.where(inner, self._children[here, right.astype(np.int8)], node)
        return np.asarray(START * rows[:, 0] + self._values[-node - 1].sum(axis=1), dtype=np.float64)


@cache
def ranker(path: str = PATH) -> Trees | None:
    """Return the trees of this file; None if there are none for these features."""
    try:
        with open(path, "rb") as opened, np.load(opened) as file:
            if tuple(file["names"].tolist()) != NAMES:
                return None
            return Trees(*(file[part] for part in ("roots", "feature", "threshold", "children", "values")))
    except (OSError, ValueError, KeyError, BadZipFile):
        return None


BEST = 100  # candidates that are read
LATE = 0.8  # weight of late interaction beside the fused score
RANGE = 0.25  # a smaller range of late interaction among the candidates means little, and is not stretched
TOOL = 0.6  # weight of what a tool returned, and of a call with which nothing was said
PRINTED = 0.95  # how much of that is made up for if it holds the question word for word: of two that do, talk is first
IN_A_ROW = 1.5  # bonus for a message with the words of the question next to each other, as in the question
WHOLE, ALL = 1.5, 0.99  # another one if it has all of them, and one for the question's identifiers and paths
DATED = 0.5  # bonus for a message of the time that the question names
NAMED = 0.5  # bonus for a message that names who decided or said what the question asks about
BY = 0.5  # bonus for a message of the role whose words the question asks for ("what did I say about")
DECIDED = 1.5  # bonus for a message that decides what the question asks about, if it asks for a decision
COVER = 0.5  # bonus for the session whose messages, taken together, have the most of the question
LONG = 600  # characters from which on a message gets less from its neighbours
JUDGED = 10  # of the best, by which it is judged whether the question is answered at all
LEARNED = 0.5  # weight of the ranker's scores beside these bonuses: it makes their range about the same as without it

Read = Callable[[Sequence[At]], Mapping[At, Message]]
Decides = Callable[[str], float]  # how much of what the question asks about a text decides, from 0 to 1


class Reordering(NamedTuple):
    """The scores of all candidates, the best of them reordered."""

    scores: Scores
    dated: Collection[At] = ()  # those that are of the time named
    texts: Sequence[str] = ()  # of the best few
    cosine: float = 0.0  # the highest of the best few


def rerank(
    query: ParsedQuery,
    found: Mapping[At, Signals],
    first: Collection[At],
    read: Read,
    decides: Decides,
    model: StaticModel,
    rarity: Callable[[str], float],
) -> Reordering:
    """Read the best candidates, beginning with `first`, and reorder them."""
    scores: Scores = {at: one.whole for at, one in found.items()}
    order = sorted(scores, key=lambda at: (at not in first, -round(scores[at], 6), at))
    messages = read(order[:BEST])
    best = [at for at in order[:BEST] if at in messages]
    said = [messages[at] for at in best]
    texts = [searchable(message) for message in said]
    signals = [found[at] for at in best]
    is_dated = [_is_dated(query.intent.when, message) for message in said]
    of_that_time = {at for at, holds in zip(best, is_dated, strict=True) if holds}
    if len(best) < 2:
        return Reordering(scores, of_that_time, texts, max((one.meaning for one in signals), default=0.0))
    nearness = late(model, query.said, texts, rarity)
    near = nearness.texts
    in_order, named = _verbatim(query, texts, rarity)
    # Errors are printed by tools: what holds the question's words as they stand there counts almost as if it was said.
    # A bare call does not: it looks for them, too.
    tools = np.array([_is_of_a_tool(message) for message in said])
    calls = np.array([message.role != "tool" for message in said]) & tools
    weight = 1 - (1 - TOOL) * (1 - PRINTED * np.maximum(in_order, named) * ~calls) * tools
    decided = np.array([decides(text) for text in texts])
    bonus = DATED * np.array(is_dated) + DECIDED * decided + np.array([one.name for one in signals])
    bonus += COVER * _covered(nearness, best)
    verbatim = IN_A_ROW * in_order**2 + WHOLE * (in_order > ALL) + WHOLE * named
    bonus += verbatim * np.where(calls, TOOL, 1.0)
    bonus += BY * np.array([message.role == query.intent.by for message in said])
    if query.person:
        bonus += NAMED * np.array([_names(query.person, text) for text in texts])
    untrained = _untrained(signals, weight, texts, near)
    new = untrained + bonus
    trees = ranker()
    if trees is not None:
        learned = trees.scores(features(query, best, signals, said, texts, untrained, near))
        new = _in_that_order(LEARNED * learned + bonus - (1 - weight), new)
    floor = scores[order[BEST]] if len(order) > BEST else 0.0
    lift = max(0.0, floor - float(new.min()))  # what was not read stays below what was
    scores.update({at: float(score) + lift for at, score in zip(best, new, strict=True)})
    judged = np.argsort(-new, kind="stable")[:JUDGED].tolist()
    return Reordering(
        scores,
        of_that_time,
        [texts[row] for row in judged],
        max(signals[row].meaning for row in judged),
    )


def _untrained(
    signals: Sequence[Signals], weight: NDArray[np.float64], texts: Sequence[str], near: Floats
) -> NDArray[np.float64]:
    """Return the sum of all signals with fixed weights."""
    closest = near[:, 0]
    spread = (closest - np.min(closest)) / max(float(np.ptp(closest)), RANGE)
    # A long reply collects the scores of its neighbours without answering what they ask.
    fade = np.sqrt([min(1.0, LONG / max(len(text), 1)) for text in texts])
    own, beside, session = (
        np.array([getattr(one, field) for one in signals]) for field in ("own", "beside", "session")
    )
    return np.asarray(weight * own + fade * beside + session + LATE * spread, dtype=np.float64)


def _verbatim(
    query: ParsedQuery, texts: Sequence[str], rarity: Callable[[str], float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how much of the question each text has as it stands there, from 0 to 1.

    First the share of its adjacent words that are next to each other (rare ones count more), then that of its things.
    """
    words = words_of((query.error.text if query.error is not None else query.said).lower())
    words = words if len(words) <= 2 * MOST_IN_A_ROW else words[:MOST_IN_A_ROW] + words[-MOST_IN_A_ROW:]
    says_something = len(set(words) - STOP) > 1  # "the cache" is one word
    pairs = {f" {one} {other} ": rarity(one) + rarity(other) for one, other in pairwise(words) if says_something}
    things = [[one[: -1 if word.begins else None] for one in spellings(word.bare)] for word in query.things]
    total = sum(pairs.values())
    in_order, named = np.zeros(len(texts)), np.zeros(len(texts))
    for at, text in enumerate(texts) if total or things else ():
        row = f" {' '.join(words_of(text.lower()))} "
        in_order[at] = sum(weight for pair, weight in pairs.items() if pair in row) / total if total else 0.0
        named[at] = sum(any(one in row for one in thing) for thing in things) / len(things) if things else 0.0
    return in_order, named


def _is_of_a_tool(message: Message) -> bool:
    return message.role == "tool" or not message.text.strip()


def _covered(nearness: Nearness, places: Sequence[At]) -> NDArray[np.float64]:
    """Return for each candidate how much of the question its session has: all of its candidates taken together."""
    rows: dict[int, list[int]] = {}
    for row, (key, _) in enumerate(places):
        rows.setdefault(key, []).append(row)
    covered = {key: nearness.together(found) for key, found in rows.items()}
    least, most = min(covered.values()), max(covered.values())
    return np.array([(covered[key] - least) / max(most - least, RANGE) for key, _ in places])


def _in_that_order(order: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same values, in another order: a score keeps its meaning, whoever decides which message gets it."""
    new = np.empty_like(values)
    new[np.argsort(-order, kind="stable")] = np.sort(values)[::-1]
    return new


def _is_dated(when: tuple[int, int] | None, message: Message) -> bool:
    return when is not None and when[0] <= number(message.timestamp) <= when[1]


def _names(person: frozenset[str], text: str) -> bool:
    return not person.isdisjoint(words_of(text.lower()))
