"""Late interaction: each word piece of the question is compared with every piece of a message, not with their sum.

A piece of the question takes its nearest piece of the message (cosine of two rows of the static table). Pieces count by
their rarity and by the length of their row, which is the weight that training gave them. A long message does not
drown the one sentence that answers, as it does in the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.index.search.embed import StaticModel
from cortext.index.search.words import words_of

Floats = NDArray[np.float32]

MOST_WORDS = 48  # of the question
SAME = 0.999  # a cosine that only the same piece has


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
