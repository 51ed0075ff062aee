"""Order the best candidates by reading them: late interaction, dates, decisions, roles, and a learned ranker.

What the index knows brings the best messages among the first hundred; which of them answers is decided by their text.
Without the ranker's file, the same signals are added up with fixed weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cortext.index.search.arrays import np
from cortext.index.search.embed import StaticModel
from cortext.index.search.features import features
from cortext.index.search.fuse import At, Scores, Signals
from cortext.index.search.late import late
from cortext.index.search.query import Query, number
from cortext.index.search.trees import ranker
from cortext.index.search.words import searchable
from cortext.model.message import Message

BEST = 100  # candidates that are read
LATE = 0.8  # weight of late interaction beside the fused score
TOOL = 0.6  # weight of what a tool returned
DATED = 0.3  # bonus for a message of the time that the question names
DECIDED = 0.2  # bonus for a message that states a decision, if the question asks for one
LONG = 600  # characters from which on a message gets less from its neighbours

Read = Callable[[Sequence[At]], Mapping[At, Message]]
Decides = Callable[[str], bool]


class Evidence(NamedTuple):
    """What reading told about the candidates: arrays with one row per candidate."""

    late: np.ndarray  # three columns: see `late`
    dated: np.ndarray
    decided: np.ndarray


def rerank(
    query: Query,
    found: Mapping[At, Signals],
    read: Read,
    decides: Decides,
    model: StaticModel,
    rarity: Callable[[str], float],
) -> tuple[Scores, set[At]]:
    """Return the scores of all candidates, the best of them reordered, and those that are of the time named."""
    scores: Scores = {at: one.whole for at, one in found.items()}
    order = sorted(scores, key=lambda at: (-round(scores[at], 6), at))
    messages = read(order[:BEST])
    best = [at for at in order[:BEST] if at in messages]
    if len(best) < 2:
        return scores, set()
    texts = [searchable(messages[at]) for at in best]
    near = late(model, query.said, texts, rarity)
    dated = np.array([_is_dated(query.when, messages[at]) for at in best])
    decided = np.array([query.decision and decides(text) for text in texts])
    evidence = Evidence(near, dated, decided)
    signals = [found[at] for at in best]
    untrained = _untrained(signals, [messages[at] for at in best], texts, evidence)
    trees = ranker()
    if trees is None:
        new = untrained
    else:
        columns = features(query, best, signals, [messages[at] for at in best], texts, untrained, near, dated)
        new = _in_that_order(trees.scores(columns) + DECIDED * decided, untrained)
    floor = scores[order[BEST]] if len(order) > BEST else 0.0
    lift = max(0.0, floor - float(new.min()))  # what was not read stays below what was
    scores.update({at: float(score) + lift for at, score in zip(best, new, strict=True)})
    return scores, {at for at, is_dated in zip(best, dated.tolist(), strict=True) if is_dated}


def _untrained(
    signals: Sequence[Signals], messages: Sequence[Message], texts: Sequence[str], evidence: Evidence
) -> np.ndarray:
    near = evidence.late[:, 0]
    spread = (near - near.min()) / max(float(near.max() - near.min()), 1e-6)
    own = np.array(
        [one.own * (TOOL if message.role == "tool" else 1.0) for one, message in zip(signals, messages, strict=True)]
    )
    # A long reply collects the scores of its neighbours without answering what they ask.
    fade = np.array([min(1.0, LONG / max(len(text), 1)) for text in texts])
    beside = np.array([one.beside for one in signals]) * np.sqrt(fade)
    rest = np.array([one.session + one.name for one in signals])
    return own + beside + rest + LATE * spread + DATED * evidence.dated + DECIDED * evidence.decided


def _in_that_order(order: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the same values, in another order: a score keeps its meaning, whoever decides which message gets it."""
    new = np.empty_like(values)
    new[np.argsort(-order, kind="stable")] = np.sort(values)[::-1]
    return new


def _is_dated(when: tuple[int, int] | None, message: Message) -> bool:
    return when is not None and when[0] <= number(message.timestamp) <= when[1]


def inverse_frequency(often: int, messages: int) -> float:
    """Return how rare a word is that occurs in this many of all messages."""
    return math.log(1 + (messages - often + 0.5) / (often + 0.5))
