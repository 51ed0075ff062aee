"""Order the best candidates by reading them: late interaction, dates, decisions, roles, and a learned ranker.

What the index knows brings the best messages among the first hundred; which of them answers is decided by their text.
Without the ranker's file, the same signals are added up with fixed weights.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.index.search.embed import StaticModel
from cortext.index.search.features import features
from cortext.index.search.fuse import At, Scores, Signals
from cortext.index.search.late import Floats, Nearness, late
from cortext.index.search.query import ParsedQuery
from cortext.index.search.trees import ranker
from cortext.index.search.words import searchable, words_of
from cortext.model.message import Message
from cortext.model.query import number

BEST = 100  # candidates that are read
LATE = 0.8  # weight of late interaction beside the fused score
RANGE = 0.25  # a smaller range of late interaction among the candidates means little, and is not stretched
TOOL = 0.6  # weight of what a tool returned
DATED = 0.5  # bonus for a message of the time that the question names
NAMED = 0.5  # bonus for a message that names who decided or said what the question asks about
DECIDED = 1.5  # bonus for a message that decides what the question asks about, if it asks for a decision
COVER = 0.5  # bonus for the session whose messages, taken together, have the most of the question
LONG = 600  # characters from which on a message gets less from its neighbours
JUDGED = 10  # of the best, by which it is judged whether the question is answered at all
LEARNED = 0.5  # weight of the ranker's scores beside these bonuses: it makes their range about the same as without it

Read = Callable[[Sequence[At]], Mapping[At, Message]]
Decides = Callable[[str], float]  # how much of what the question asks about a text decides, from 0 to 1


class Reranked(NamedTuple):
    """The scores of all candidates, the best of them reordered."""

    scores: Scores
    dated: Collection[At] = ()  # those that are of the time named
    texts: Sequence[str] = ()  # of the best few
    cosine: float = 0.0  # the highest of the best few


def rerank(
    query: ParsedQuery,
    found: Mapping[At, Signals],
    read: Read,
    decides: Decides,
    model: StaticModel,
    rarity: Callable[[str], float],
) -> Reranked:
    """Read the best candidates and reorder them."""
    scores: Scores = {at: one.whole for at, one in found.items()}
    order = sorted(scores, key=lambda at: (-round(scores[at], 6), at))
    messages = read(order[:BEST])
    best = [at for at in order[:BEST] if at in messages]
    said = [messages[at] for at in best]
    texts = [searchable(message) for message in said]
    signals = [found[at] for at in best]
    is_dated = [_is_dated(query.when, message) for message in said]
    of_that_time = {at for at, holds in zip(best, is_dated, strict=True) if holds}
    if len(best) < 2:
        return Reranked(scores, of_that_time, texts, max((one.meaning for one in signals), default=0.0))
    nearness = late(model, query.said, texts, rarity)
    near = nearness.texts
    decided = np.array([decides(text) for text in texts])
    bonus = DATED * np.array(is_dated) + DECIDED * decided + np.array([one.name for one in signals])
    bonus += COVER * _covered(nearness, best)
    if query.person:
        bonus += NAMED * np.array([_names(query.person, text) for text in texts])
    untrained = _untrained(signals, said, texts, near)
    new = untrained + bonus
    trees = ranker()
    if trees is not None:
        learned = trees.scores(features(query, best, signals, said, texts, untrained, near))
        is_tool = np.array([message.role == "tool" for message in said])
        new = _in_that_order(LEARNED * learned + bonus - (1 - TOOL) * is_tool, new)
    floor = scores[order[BEST]] if len(order) > BEST else 0.0
    lift = max(0.0, floor - float(new.min()))  # what was not read stays below what was
    scores.update({at: float(score) + lift for at, score in zip(best, new, strict=True)})
    first = np.argsort(-new, kind="stable")[:JUDGED].tolist()
    return Reranked(
        scores,
        of_that_time,
        [texts[row] for row in first],
        max(signals[row].meaning for row in first),
    )


def _untrained(
    signals: Sequence[Signals], messages: Sequence[Message], texts: Sequence[str], near: Floats
) -> NDArray[np.float64]:
    """Return the sum of all signals with fixed weights."""
    closest = near[:, 0]
    spread = (closest - np.min(closest)) / max(float(np.ptp(closest)), RANGE)
    share = np.array([TOOL if message.role == "tool" else 1.0 for message in messages])
    # A long reply collects the scores of its neighbours without answering what they ask.
    fade = np.sqrt([min(1.0, LONG / max(len(text), 1)) for text in texts])
    own, beside, session = (
        np.array([getattr(one, field) for one in signals]) for field in ("own", "beside", "session")
    )
    return np.asarray(share * own + fade * beside + session + LATE * spread, dtype=np.float64)


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
