"""Training centroids: k-means over a sample, by cosine."""

from __future__ import annotations

import io
import math
import os

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.index.search.vectors import centroid_file
from cortext.io import durable

Floats = NDArray[np.float32]

WORTH = 40_000  # fewer vectors are compared one by one
SAMPLE = 64  # sample vectors per centroid
ROUNDS = 6
BLOCK = 1 << 13


def how_many(vectors: int) -> int:
    """Return the number of clusters for this many vectors: about half the square root, a power of two."""
    return min(1 << max(6, round(math.log2(math.sqrt(vectors) / 2))), max(1, vectors // 4))


def train(vectors: Floats, count: int) -> Floats:
    """Return `count` centroids of a sample."""
    random = np.random.default_rng(0)  # the same sample gives the same centroids
    centroids = vectors[random.choice(len(vectors), count, replace=False)].copy()
    for _ in range(ROUNDS):
        nearest = assign(vectors, centroids)
        order = np.argsort(nearest, kind="stable")
        starts = np.searchsorted(nearest[order], np.arange(count))
        sizes = np.bincount(nearest, minlength=count)
        used = sizes > 0
        sums = np.add.reduceat(vectors[order], starts[used], axis=0)
        centroids[used] = sums
        empty = np.flatnonzero(~used)
        centroids[empty] = vectors[random.choice(len(vectors), len(empty))]
        centroids /= np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-9)
    return centroids


def assign(vectors: NDArray[np.generic], centroids: Floats) -> NDArray[np.int64]:
    """Return the nearest centroid of each vector; the scale of a vector does not matter."""
    transposed = np.ascontiguousarray(centroids.T)
    parts = [
        np.argmax(vectors[start : start + BLOCK].astype(np.float32) @ transposed, axis=1)
        for start in range(0, len(vectors), BLOCK)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def save(folder: str, centroids: Floats) -> int:
    """Write the centroids to a new file and return its number."""
    number = int.from_bytes(os.urandom(6), "big")
    raw = io.BytesIO()
    np.save(raw, centroids)
    durable.replace_file(centroid_file(folder, number), [raw.getvalue()])
    return number
