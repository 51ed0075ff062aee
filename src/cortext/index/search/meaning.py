"""The vectors of one model over one index: which files hold them, and how they are kept up to date.

A new file is written completely and then recorded in the state together with the progress of each session. A kill
leaves either both, or a file without a record, which is removed later.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence

from numpy.typing import NDArray

from cortext.index.refresh import StoreSource
from cortext.index.search import vectors
from cortext.index.search.arrays import np
from cortext.index.search.embed import Model
from cortext.index.search.keywords import place_of
from cortext.index.search.reading import messages
from cortext.index.search.state import IndexState
from cortext.index.search.vectors import Segment, VectorSet, owner, pack, write
from cortext.index.search.words import searchable
from cortext.index.sessions import SessionIndex
from cortext.io import durable

Packed = tuple[NDArray[np.int8], NDArray[np.float32]]  # vectors, and the scale of each

Progress = Callable[[int, int], None]

BATCH = 2_048  # texts per call of a model
FILE_SIZE = 1 << 16  # vectors per file during a large update
AT_RISK = 5.0  # seconds of work that a kill may cost, unless a single session takes longer
MOST_FILES = 8
GROWN = 6  # retrain the centroids when there are this many times as many vectors


class Meaning:
    """The vectors of one model in the folder of an index."""

    def __init__(self, folder: str, state: IndexState, model: str) -> None:
        self.model = model
        # A model's name may contain any character; its folder is named by a hash.
        self.folder = os.path.join(folder, "vectors", hashlib.sha256(model.encode()).hexdigest()[:12])
        self._state = state
        self._files: tuple[str, ...] = ()
        self._set: VectorSet | None = None

    def vectors(self) -> VectorSet:
        """Return all vectors that exist now."""
        files = tuple(item.file for item in self._state.segments(self.model))
        if self._set is None or files != self._files:
            try:
                self._set = VectorSet(self.folder, files)
            except FileNotFoundError:  # merged between the query and the open
                files = tuple(item.file for item in self._state.segments(self.model))
                self._set = VectorSet(self.folder, files)
            self._files = files
        return self._set

    def count(self) -> int:
        """Return the number of vectors."""
        return sum(item.vectors for item in self._state.segments(self.model))

    def missing(self) -> int:
        """Return the number of messages without a vector."""
        return sum(end - first for _, _, _, first, end in self._state.to_embed(self.model))

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────

    def update(
        self,
        model: Model,
        listed: SessionIndex,
        sources: Mapping[str, StoreSource],
        progress: Progress | None = None,
    ) -> None:
        """Make the missing vectors; the caller holds the lock."""
        durable.ensure_folder(self.folder)
        self._sweep()
        missing = self._state.to_embed(self.model)
        total = sum(end - first for _, _, _, first, end in missing)
        rows = listed.named([(root, name) for _, root, name, _, _ in missing])
        made = _Making(self, model)
        done = 0
        for key, root, name, first, end in missing:
            row = rows.get((root, name))
            if row is None or root not in sources:
                continue
            reached = first
            for message in messages(sources[root], name, row.path, first):
                if message.seq >= end:
                    break
                made.add(owner(key, place_of(message)), searchable(message))
                reached = message.seq + 1
            made.reached(key, max(reached, end))
            done += end - first
            if progress:
                progress(done, total)
        made.write()
        self.merge()

    def save(self, owners: list[int], batches: Sequence[Packed], reached: Sequence[tuple[int, int]]) -> None:
        """Write one new file of vectors, and record how far its sessions are."""
        state = self._state
        name = ""
        if owners:
            packed, scales = (np.concatenate(part) for part in zip(*batches, strict=True))
            name = f"{os.urandom(8).hex()}.vectors"
            number, count, nearest = self._sorted_by(packed)
            path = os.path.join(self.folder, name)
            write(path, np.array(owners, dtype=np.uint64), scales, packed, nearest, count, number)
        state.begin()
        if name:
            state.add_segment(self.model, name, len(owners))
        state.embedded(self.model, reached)
        state.commit()

    def _sorted_by(self, packed: NDArray[np.int8]) -> tuple[int, int, NDArray[np.int64] | None]:
        """Return the current centroids and each vector's cluster, if there are enough vectors to sort."""
        number = int(self._state.fact(f"centroids {self.model}", "0"))
        if not number or len(packed) < 1_000:
            return 0, 0, None
        centroids = self.vectors().centroids(number)
        return number, len(centroids), vectors.nearest_centroids(packed, centroids)

    def merge(self) -> None:
        """Merge small files; train centroids once there are enough vectors, and again when there are many more."""
        segments = self._state.segments(self.model)
        total = sum(item.vectors for item in segments)
        trained = int(self._state.fact(f"trained {self.model}", "0"))
        if total >= vectors.WORTH and total > GROWN * trained:
            self._rewrite([item.file for item in segments], train=True)
        elif len(segments) > MOST_FILES:
            small: list[str] = []
            size = 0
            for item in sorted(segments, key=lambda item: item.vectors):
                if len(small) >= MOST_FILES and item.vectors > 4 * size:
                    break
                small.append(item.file)
                size += item.vectors
            self._rewrite(small, train=False)

    def _rewrite(self, files: Sequence[str], *, train: bool) -> None:
        """Merge several files into one, without the vectors of removed sessions."""
        state = self._state
        segments = [Segment(os.path.join(self.folder, name)) for name in files]
        alive = np.array(sorted(state.in_use()), dtype=np.uint64)
        kept = [np.flatnonzero(np.isin(segment.owners >> np.uint64(32), alive)) for segment in segments]
        owners = np.concatenate([segment.owners[rows] for segment, rows in zip(segments, kept, strict=True)])
        scales = np.concatenate([segment.scales[rows] for segment, rows in zip(segments, kept, strict=True)])
        packed = np.empty((len(owners), segments[0].vectors.shape[1]), dtype=np.int8)
        end = 0
        for segment, rows in zip(segments, kept, strict=True):  # a single copy of the vectors: they dominate memory
            np.take(segment.vectors, rows, axis=0, out=packed[end : end + len(rows)], mode="clip")
            end += len(rows)
        facts: dict[str, str] = {}
        if train:
            count = vectors.cluster_count(len(owners))
            chosen = np.random.default_rng(0).permutation(len(owners))[: count * vectors.SAMPLE]
            sample = packed[chosen].astype(np.float32) * scales[chosen, None]
            number = vectors.save_centroids(self.folder, vectors.train_centroids(sample, count))
            facts = {f"centroids {self.model}": str(number), f"trained {self.model}": str(len(owners))}
            nearest: NDArray[np.int64] | None = vectors.nearest_centroids(packed, self.vectors().centroids(number))
        else:
            number, count, nearest = self._sorted_by(packed)
        name = f"{os.urandom(8).hex()}.vectors"
        write(os.path.join(self.folder, name), owners, scales, packed, nearest, count, number)
        state.begin()
        state.drop_segments(self.model, files)
        state.add_segment(self.model, name, len(owners))
        state.set_facts(**facts)
        state.commit()
        self._sweep()

    def _sweep(self) -> None:
        """Remove files without a record: left by a kill, or merged. Processes still reading one keep it open."""
        named = {item.file for item in self._state.segments(self.model)}
        current = self._state.fact(f"centroids {self.model}", "0")
        with os.scandir(self.folder) as entries:
            for entry in list(entries):
                if entry.name not in named and entry.name != f"centroids-{current}.npy":
                    durable.remove(entry.path)


class _Making:
    """Embeds texts in batches. Each batch is packed at once, which takes a quarter of the memory."""

    def __init__(self, meaning: Meaning, model: Model) -> None:
        self._meaning, self._model = meaning, model
        self._texts: list[str] = []
        self._waiting: list[int] = []  # the owner of each text
        self._owners: list[int] = []
        self._done: list[Packed] = []
        self._reached: list[tuple[int, int]] = []
        self._written = time.monotonic()

    def add(self, owner_number: int, text: str) -> None:
        self._waiting.append(owner_number)
        self._texts.append(text)
        if len(self._texts) == BATCH:
            self._embed()

    def reached(self, key: int, end: int) -> None:
        """Record that all of a session's messages before `end` were added."""
        self._reached.append((key, end))
        if len(self._owners) + len(self._waiting) >= FILE_SIZE or time.monotonic() - self._written > AT_RISK:
            self.write()

    def _embed(self) -> None:
        if not self._texts:
            return
        vectors = self._model.embed(self._texts)
        has_meaning: NDArray[np.bool_] = np.any(vectors != 0, axis=1)  # false if the text has no known word
        self._owners += [one for one, known in zip(self._waiting, has_meaning.tolist(), strict=True) if known]
        self._done.append(pack(vectors[has_meaning]))
        self._texts, self._waiting = [], []

    def write(self) -> None:
        """Write what has been collected to a file."""
        self._embed()
        if not self._reached:
            return
        self._meaning.save(self._owners, self._done, self._reached)
        self._owners, self._done, self._reached = [], [], []
        self._written = time.monotonic()
