"""Vectors of messages in files that are written once: int8, sorted by cluster, searched where it pays.

A segment is one file: who each vector belongs to, its scale, and the vectors. Very many are sorted by the nearest of
some hundred centroids; a query looks only into the nearest clusters. Segments are merged now and then, and vectors of
sessions that are gone drop out then. (MEASURED: a plain look at all of a million takes 100 ms, this 10.)
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.io import files as fsio

Floats = NDArray[np.float32]
Owners = NDArray[np.uint64]

Near = tuple[int, int, float]  # session key, place, how near (the cosine)

_HEAD = struct.Struct("<8sQIIQ")  # magic, vectors, dimension, clusters, which centroids
_MAGIC = b"ctxvec1\n"
LOOKED_AT = 24_000  # vectors that a query compares with, about
WRITTEN = 1 << 12  # vectors that are written at a time
SHARE = 1 << 11  # vectors that are turned into floats at a time: so many stay in the processor's own memory


def pack(vectors: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Vectors as int8 with a scale each."""
    scales = np.abs(vectors).max(axis=1) / 127.0
    scales[scales == 0] = 1.0
    return np.round(vectors / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def owner(key: int, place: int) -> int:
    """Whose vector it is, as one number that sorts by session and place."""
    return (key << 32) | place


def write(
    path: str, owners: Owners, scales: Floats, packed: NDArray[np.int8], clusters: NDArray[np.int64] | None,
    count: int, centroids: int,
) -> None:  # fmt: skip
    """Write a segment: in the order of its clusters, where it has some."""
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
        # The vectors are nearly all there is: they are put in order a few at a time, never all of them once more.
        for start in range(0, len(order), WRITTEN):
            yield packed[order[start : start + WRITTEN]].tobytes()

    fsio.replace_file(path, pieces())


class Segment:
    """A file of vectors, mapped into memory."""

    def __init__(self, path: str) -> None:
        with open(path, "rb", opener=fsio.plain_file) as file:
            if os.fstat(file.fileno()).st_size < _HEAD.size:
                raise ValueError(f"{path} is no file of vectors")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, self.count, dimension, self.clusters, self.centroids = _HEAD.unpack_from(self._map)
        if magic != _MAGIC:
            raise ValueError(f"{path} is no file of vectors")
        whole = np.frombuffer(self._map, dtype=np.uint8, offset=_HEAD.size)
        sizes = (8, 8, 4, 4)  # bytes a vector of the four parts that each has one of
        ends = np.cumsum([0, *(size * self.count for size in sizes), 4 * (self.clusters + 1)]).tolist()
        parts = [whole[ends[place] : ends[place + 1]] for place in range(5)]
        self.sorted_owners = parts[0].view(np.uint64)
        self.owners = parts[1].view(np.uint64)
        self.by_owner = parts[2].view(np.uint32)
        self.scales = parts[3].view(np.float32)
        self.starts = parts[4].view(np.uint32)
        self.vectors = whole[ends[-1] :].view(np.int8).reshape(self.count, dimension)

    def places_of(self, keys: Iterable[int]) -> NDArray[np.int64]:
        """Where the vectors of these sessions are."""
        bounds = np.array([(owner(key, 0), owner(key + 1, 0)) for key in keys], dtype=np.uint64).reshape(-1, 2)
        first = np.searchsorted(self.sorted_owners, bounds[:, 0])
        last = np.searchsorted(self.sorted_owners, bounds[:, 1])
        found = [self.by_owner[start:end] for start, end in zip(first, last, strict=True) if end > start]
        return np.concatenate(found).astype(np.int64) if found else np.zeros(0, dtype=np.int64)

    def near(self, places: NDArray[np.int64] | slice, query: Floats) -> Floats:
        """How near the vectors at these places are."""
        scales = self.scales[places]
        if isinstance(places, slice):
            row = self.vectors[places]
            lots = (row[start : start + SHARE] for start in range(0, len(scales), SHARE))
        else:
            lots = (self.vectors.take(places[start : start + SHARE], axis=0) for start in range(0, len(scales), SHARE))
        parts = [lot.astype(np.float32) @ query for lot in lots]
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
        """The centroids that some segments were sorted by."""
        if number not in self._centroids:
            self._centroids[number] = np.load(centroid_file(self.folder, number))
        return self._centroids[number]

    def search(self, query: Floats, limit: int, keys: Collection[int] | None = None) -> list[Near]:
        """The nearest vectors; with `keys`, the nearest of those sessions, each of which is looked at."""
        owners: list[Owners] = []
        scores: list[Floats] = []
        for segment in self.segments:
            if keys is not None:
                places = segment.places_of(keys)
                parts: list[NDArray[np.int64] | slice] = [places] if len(places) else []
            elif segment.clusters:
                parts = self._nearest_clusters(segment, query)
            else:
                parts = [slice(0, segment.count)] if segment.count else []
            for part in parts:
                owners.append(segment.owners[part])
                scores.append(segment.near(part, query))
        if not scores:
            return []
        return _best(np.concatenate(owners), np.concatenate(scores), limit)

    def _nearest_clusters(self, segment: Segment, query: Floats) -> list[NDArray[np.int64] | slice]:
        near = self.centroids(segment.centroids) @ query
        # So many of the nearest clusters as make up what is looked at; the share is that of all vectors.
        share = LOOKED_AT * segment.count / max(len(self), 1)
        parts: list[NDArray[np.int64] | slice] = []
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
        """The middle of a session's vectors, at length 1; None where it has none."""
        parts = []
        for segment in self.segments:
            places = segment.places_of([key])
            if len(places):
                parts.append(segment.vectors[places].astype(np.float32) * segment.scales[places, None])
        if not parts:
            return None
        middle = np.concatenate(parts).mean(axis=0)
        return np.asarray(middle / max(float(np.linalg.norm(middle)), 1e-9), dtype=np.float32)

    def exactly(self, query: Floats, wanted: Sequence[tuple[int, int]]) -> list[Near]:
        """How near these messages are, by (key, place); those without a vector are left out."""
        numbers = np.array([owner(key, place) for key, place in wanted], dtype=np.uint64)
        found: list[Near] = []
        for segment in self.segments:
            if not segment.count or not len(numbers):
                continue
            rows = np.minimum(np.searchsorted(segment.sorted_owners, numbers), segment.count - 1)
            there = segment.sorted_owners[rows] == numbers
            places = segment.by_owner[rows[there]].astype(np.int64)
            if len(places):
                found += _best(segment.owners[places], segment.near(places, query), len(places))
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
    """The file of a set of centroids."""
    return os.path.join(folder, f"centroids-{number}.npy")
