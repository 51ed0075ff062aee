"""Late interaction: each word piece of the question is compared with every piece of a message, not with their sum.

A piece of the question takes its nearest piece of the message (cosine of two rows of the static table). Pieces count by
their rarity and by the length of their row, which is the weight that training gave them. A long message does not
drown the one sentence that answers, as it does in the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.index.search.embed import StaticModel
from cortext.index.search.words import words_of

Floats = NDArray[np.float32]

MOST_WORDS = 48  # of the question
SAME = 0.999  # a cosine that only the same piece has


def late(model: StaticModel, question: str, texts: Sequence[str], rarity: Callable[[str], float]) -> Floats:
    """Return three numbers per text: how near the question's pieces are to it, how much of the question's weight it has
    word for word, and how near its own pieces are to the question. `rarity` is a word's inverse document frequency.
    """
    words = words_of(question)[:MOST_WORDS]
    asked, cuts = model.pieces(words)
    found = np.zeros((len(texts), 3), dtype=np.float32)
    if not len(asked):
        return found
    rare = np.repeat([math.sqrt(max(rarity(word), 0.0)) for word in words], np.diff(cuts))
    asked, first = np.unique(asked, return_index=True)
    weights = rare[first] * model.weights(asked)
    flat, bounds = model.pieces(texts)
    lengths = np.diff(bounds)
    filled = np.flatnonzero(lengths)
    if not len(filled) or not weights.sum():
        return found
    distinct, which = np.unique(flat, return_inverse=True)
    near = (model.unit_rows(asked) @ model.unit_rows(distinct).T)[:, which]
    best = np.maximum.reduceat(near, bounds[:-1][filled], axis=1)
    found[filled, 0] = weights @ best / weights.sum()
    found[filled, 1] = weights @ (best > SAME) / weights.sum()
    found[filled, 2] = np.add.reduceat(near.max(axis=0), bounds[:-1][filled]) / lengths[filled]
    return found
