"""The learned ranker: boosted trees, evaluated in numpy. `bench/train_ranker.py` trains them.

The file holds the trees as arrays, with the names of the features they were trained on. If it is missing, or was
trained on other features, there is no ranker, and search orders by its fixed weights.
"""

from __future__ import annotations

import os
from functools import cache
from zipfile import BadZipFile

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.index.search.features import NAMES

PATH = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "ranking", "trees.npz"
)


START = 4.0  # weight of the untrained score, which the trees correct; so they cannot go far wrong on unknown talk


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
