"""Vectors of messages in write-once files: int8, sorted by cluster if there are many.

A segment is one file: the owner of each vector, its scale, and the vectors. Large segments are sorted by the nearest of
a few hundred centroids, and a query looks only into the nearest clusters. Segments are merged from time to time, which
drops the vectors of removed sessions. (Comparing with all of a million takes 100 ms, this takes 10.)
"""

from __future__ import annotations

import io
import math
import mmap
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.io import durable

Floats = NDArray[np.float32]
Owners = NDArray[np.uint64]
Rows = NDArray[np.int64] | slice

Near = tuple[int, int, float]  # session key, place, cosine

_HEAD = struct.Struct("<8sQIIQ")  # magic, vectors, dimension, clusters, which centroids
_MAGIC = b"ctxvec1\n"
LOOKED_AT = 24_000  # vectors that a query is compared with, approximately
FEW_SESSIONS = 1_500  # the vectors of more sessions are not looked up
ENOUGH = 300  # vectors of the wanted sessions in the nearest clusters
WORTH = 40_000  # fewer vectors are compared one by one, without clusters
SAMPLE = 64  # sample vectors per centroid
ROUNDS = 6  # of training the centroids
BLOCK = 1 << 13  # vectors that are assigned at a time
WRITTEN = 1 << 12  # vectors written at a time
SHARE = 1 << 11  # vectors converted to floats at a time: they fit into the processor's cache


def pack(vectors: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Return vectors as int8, each with a scale; the scale of a zero vector is 0."""
    scales = np.abs(vectors).max(axis=1) / 127.0
    divisors = np.where(scales > 0, scales, 1.0)
    return np.round(vectors / divisors[:, None]).astype(np.int8), scales.astype(np.float32)


def owner(key: int, place: int) -> int:
    """Return the owner of a vector as one number that sorts by session and place."""
    return (key << 32) | place


def write(
    path: str, owners: Owners, scales: Floats, packed: NDArray[np.int8], clusters: NDArray[np.int64] | None,
    count: int, centroids: int,
) -> None:  # fmt: skip
    """Write a segment, sorted by cluster if it has clusters."""
    order = np.arange(len(owners)) if clusters is None else np.argsort(clusters, kind="stable")
    if clusters is not None:
        starts = np.searchsorted(clusters[order], np.arange(count + 1)).astype(np.uint32)
    else:
        count, starts = 0, np.zeros(1, dtype=np.uint32)
    owners, scales = owners[order], scales[order]
    by_owner = np.argsort(owners, kind="stable")

    def pieces() -> Iterator[bytes]:
        yield _HEAD.pack(_MAGIC, len(owners), packed.shape[1], count, centroids)
        yield owners[by_owner].tobytes()
        yield owners.tobytes()
        yield by_owner.astype(np.uint32).tobytes()
        yield scales.tobytes()
        yield starts.tobytes()
        # The vectors dominate memory: they are reordered a few at a time, never copied as a whole.
        for start in range(0, len(order), WRITTEN):
            yield packed[order[start : start + WRITTEN]].tobytes()

    durable.replace_file(path, pieces())


class Segment:
    """A file of vectors, mapped into memory."""

    def __init__(self, path: str) -> None:
        with open(path, "rb", opener=durable.plain_file) as file:
            if os.fstat(file.fileno()).st_size < _HEAD.size:
                raise ValueError(f"{path} is not a vector file")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, self.count, dimension, self.clusters, self.centroids = _HEAD.unpack_from(self._map)
        if magic != _MAGIC:
            raise ValueError(f"{path} is not a vector file")
        whole = np.frombuffer(self._map, dtype=np.uint8, offset=_HEAD.size)
        sizes = (8, 8, 4, 4)  # bytes per vector in each of the four arrays before the vectors
        ends = np.cumsum([0, *(size * self.count for size in sizes), 4 * (self.clusters + 1)]).tolist()
        parts = [whole[ends[index] : ends[index + 1]] for index in range(5)]
        self.sorted_owners = parts[0].view(np.uint64)
        self.owners = parts[1].view(np.uint64)
        self.by_owner = parts[2].view(np.uint32)
        self.scales = parts[3].view(np.float32)
        self.starts = parts[4].view(np.uint32)
        self.vectors = whole[ends[-1] :].view(np.int8).reshape(self.count, dimension)

    def rows_of(self, keys: Iterable[int]) -> NDArray[np.int64]:
        """Return the rows of these sessions' vectors."""
        bounds = np.array([(owner(key, 0), owner(key + 1, 0)) for key in keys], dtype=np.uint64).reshape(-1, 2)
        first = np.searchsorted(self.sorted_owners, bounds[:, 0])
        last = np.searchsorted(self.sorted_owners, bounds[:, 1])
        found = [self.by_owner[start:end] for start, end in zip(first, last, strict=True) if end > start]
        return np.concatenate(found).astype(np.int64) if found else np.zeros(0, dtype=np.int64)

    def near(self, rows: Rows, query: Floats) -> Floats:
        """Return the cosines of the vectors in these rows."""
        scales = self.scales[rows]
        if isinstance(rows, slice):
            run = self.vectors[rows]
            blocks = (run[start : start + SHARE] for start in range(0, len(scales), SHARE))
        else:
            blocks = (self.vectors.take(rows[start : start + SHARE], axis=0) for start in range(0, len(scales), SHARE))
        parts = [np.zeros(0, dtype=np.float32), *(block.astype(np.float32) @ query for block in blocks)]
        return np.asarray(np.concatenate(parts) * scales, dtype=np.float32)


class VectorSet:
    """All segments of one model, with their centroids."""

    def __init__(self, folder: str, files: Sequence[str]) -> None:
        self.folder = folder
        self.segments = [Segment(os.path.join(folder, name)) for name in files]
        self._centroids: dict[int, Floats] = {}

    def __len__(self) -> int:
        return sum(segment.count for segment in self.segments)

    def centroids(self, number: int) -> Floats:
        """Return the centroids that some segments are sorted by."""
        if number not in self._centroids:
            self._centroids[number] = np.load(centroid_file(self.folder, number))
        return self._centroids[number]

    def search(self, query: Floats, limit: int, keys: Collection[int] | None = None) -> list[Near]:
        """Return the nearest vectors; with `keys`, of these sessions only.

        Theirs are compared one by one if they are few, or if the nearest clusters have hardly any of them.
        """
        if keys is None:
            return _best(*self._compared(query, self._nearby(query)), limit)
        rows = [segment.rows_of(keys) for segment in self.segments] if len(keys) <= FEW_SESSIONS else None
        if rows is None or sum(map(len, rows)) > LOOKED_AT:
            owners, scores = self._compared(query, self._nearby(query))
            wanted = np.isin(owners >> np.uint64(32), np.fromiter(keys, dtype=np.uint64))
            if rows is None or np.count_nonzero(wanted) >= min(limit, ENOUGH):
                return _best(owners[wanted], scores[wanted], limit)
        return _best(*self._compared(query, [[part] for part in rows]), limit)

    def _compared(self, query: Floats, places: Sequence[Sequence[Rows]]) -> tuple[Owners, Floats]:
        """Return the owners and cosines of the vectors in these rows of each segment."""
        owners = [np.zeros(0, dtype=np.uint64)]
        scores = [np.zeros(0, dtype=np.float32)]
        for segment, parts in zip(self.segments, places, strict=True):
            for part in parts:
                owners.append(segment.owners[part])
                scores.append(segment.near(part, query))
        return np.concatenate(owners), np.concatenate(scores)

    def _nearby(self, query: Floats) -> list[list[Rows]]:
        """Return for each segment its nearest clusters, or all of it if it has none."""
        return [
            self._nearest_clusters(segment, query) if segment.clusters else [slice(0, segment.count)]
            for segment in self.segments
        ]

    def _nearest_clusters(self, segment: Segment, query: Floats) -> list[Rows]:
        near = self.centroids(segment.centroids) @ query
        # As many of the nearest clusters as hold this segment's share of the vectors to compare.
        share = LOOKED_AT * segment.count / max(len(self), 1)
        parts: list[Rows] = []
        seen = 0
        for cluster in np.argsort(-near):
            start, end = int(segment.starts[cluster]), int(segment.starts[cluster + 1])
            if end > start:
                parts.append(slice(start, end))
                seen += end - start
            if seen >= share and len(parts) > 3:
                break
        return parts

    def mean(self, key: int) -> Floats | None:
        """Return the normalised mean of a session's vectors, or None if it has none."""
        parts = []
        for segment in self.segments:
            rows = segment.rows_of([key])
            if len(rows):
                parts.append(segment.vectors[rows].astype(np.float32) * segment.scales[rows, None])
        if not parts:
            return None
        middle = np.concatenate(parts).mean(axis=0)
        return np.asarray(middle / max(float(np.linalg.norm(middle)), 1e-9), dtype=np.float32)

    def exactly(self, query: Floats, wanted: Sequence[tuple[int, int]]) -> list[Near]:
        """Return the cosines of these messages, given by (key, place); those without a vector are left out."""
        numbers = np.array([owner(key, place) for key, place in wanted], dtype=np.uint64)
        found: list[Near] = []
        for segment in self.segments:
            if not segment.count or not len(numbers):
                continue
            nearest = np.minimum(np.searchsorted(segment.sorted_owners, numbers), segment.count - 1)
            exists = segment.sorted_owners[nearest] == numbers
            rows = segment.by_owner[nearest[exists]].astype(np.int64)
            if len(rows):
                found += _best(segment.owners[rows], segment.near(rows, query), len(rows))
        return found


def _best(owners: Owners, scores: Floats, limit: int) -> list[Near]:
    if len(scores) > limit:
        chosen = np.argpartition(-scores, limit)[:limit]
        owners, scores = owners[chosen], scores[chosen]
    order = np.lexsort((owners, -scores))
    return [
        (int(number) >> 32, int(number) & 0xFFFFFFFF, float(score))
        for number, score in zip(owners[order], scores[order], strict=True)
    ]


def centroid_file(folder: str, number: int) -> str:
    """Return the path of a centroid file."""
    return os.path.join(folder, f"centroids-{number}.npy")


def cluster_count(vectors: int) -> int:
    """Return the number of clusters for this many vectors: about half the square root, a power of two."""
    return min(1 << max(6, round(math.log2(math.sqrt(vectors) / 2))), max(1, vectors // 4))


def train_centroids(vectors: Floats, count: int) -> Floats:
    """Return `count` centroids of a sample."""
    random = np.random.default_rng(0)  # the same sample gives the same centroids
    centroids = vectors[random.choice(len(vectors), count, replace=False)].copy()
    for _ in range(ROUNDS):
        nearest = nearest_centroids(vectors, centroids)
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


def nearest_centroids(vectors: NDArray[np.generic], centroids: Floats) -> NDArray[np.int64]:
    """Return the nearest centroid of each vector; the scale of a vector does not matter."""
    transposed = np.ascontiguousarray(centroids.T)
    parts = [
        np.argmax(vectors[start : start + BLOCK].astype(np.float32) @ transposed, axis=1)
        for start in range(0, len(vectors), BLOCK)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def save_centroids(folder: str, centroids: Floats) -> int:
    """Write the centroids to a new file and return its number."""
    number = int.from_bytes(os.urandom(6), "big")
    raw = io.BytesIO()
    np.save(raw, centroids)
    durable.replace_file(centroid_file(folder, number), [raw.getvalue()])
    return number
