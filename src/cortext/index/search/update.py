"""Bringing the keywords up to date with the session list: only what changed is read, and only what is new is added.

The order makes a kill harmless: announce what will be true after the commit, commit the index, then apply the
announcement. After a kill in between, the index's own stamp shows whether its commit was made.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from cortext.index.refresh import StoreSource
from cortext.index.search.keywords import Keywords, WordList
from cortext.index.search.reading import batches, log_fingerprint, only_grew
from cortext.index.search.state import IndexedSession, IndexState
from cortext.index.search.words import searchable
from cortext.index.sessions import Changed, Row
from cortext.model.message import Message

if TYPE_CHECKING:
    from cortext.index.search.keyword_writer import KeywordWriter


Progress = Callable[[int, int], None]

BATCH = 150_000  # messages between two commits of a long update
AT_RISK = 5.0  # seconds of work that a kill may cost, unless a single session takes longer
SMALL = 2_000  # up to this many messages, the writer uses little memory and starts quickly
MANY_SEGMENTS = 12
VERIFIED = 2_000  # a changed session of up to this many messages is always compared with the index


class KeywordUpdate:
    """One update; the caller holds the lock."""

    def __init__(
        self, keywords: Keywords, words: WordList, state: IndexState, sources: Mapping[str, StoreSource]
    ) -> None:
        self._keywords, self._words, self._state, self._sources = keywords, words, state, sources
        self._made: KeywordWriter | None = None
        self._small = True
        self._done: list[tuple[int, int, str, int, str, int]] = []  # rows of `session` after the next commit
        self._added = 0
        self._committed = time.monotonic()

    def run(
        self, changed: Sequence[Changed], gone: Iterable[tuple[str, str]], progress: Progress | None = None
    ) -> None:
        """Index these changes. What was committed before an interruption stays."""
        self._state.settle(self._keywords.stamp())
        try:
            self._run(changed, gone, progress)
        except BaseException:
            self._state.rollback()
            if self._made is not None:
                self._made.close()
                self._made = None
            raise

    def _run(self, changed: Sequence[Changed], gone: Iterable[tuple[str, str]], progress: Progress | None) -> None:
        total = sum(row.message_count for row, _, _ in changed)
        self._small = total <= SMALL
        known = self._state.all() if len(changed) > 500 else self._state.of((row.root, row.id) for row, _, _ in changed)
        self._state.begin()
        for item in self._state.of(gone).values():
            self._state.retire(item.key)
        for key in self._state.retired():
            self._writer.forget(key)
        done = 0
        for row, fingerprint, number in changed:
            if row.root in self._sources:
                self._update_session(row, fingerprint, number, known.get((row.root, row.id)))
            done += row.message_count
            if progress:
                progress(done, total)
            if self._added >= BATCH or (self._done and time.monotonic() - self._committed > AT_RISK):
                self._commit()
        self._commit()

    def _update_session(self, row: Row, fingerprint: str, number: int, known: IndexedSession | None) -> None:
        if known is not None and known.changed == number:
            return
        name = f"{row.title}\n{row.summary}".strip()
        log = log_fingerprint(row.kind, fingerprint)
        if known is None:
            self._index(row, log, number, name)
            return
        if name != known.name:
            self._writer.name(known.key, name, row.last_active)
        if log == known.signs:
            self._done.append((known.indexed, known.digest, log, number, name, known.key))
        elif row.message_count > VERIFIED and known.signs and only_grew(known.signs, log):
            end, digest = self._add(known.key, self._read(row, known.indexed), known.indexed, known.digest)
            self._done.append((end, digest, log, number, name, known.key))
        else:
            self._compare(row, log, number, name, known)

    def _compare(self, row: Row, log: str, number: int, name: str, known: IndexedSession) -> None:
        """Read the whole session: what is indexed must be its beginning, otherwise it is indexed again."""
        reading = self._read(row, 0)
        digest = 0
        last = -1
        ahead: list[Message] = []
        for batch in reading:
            indexed = [message for message in batch if message.seq < known.indexed]
            if indexed:
                last = indexed[-1].seq
                digest = _digest([searchable(message) for message in indexed], digest)
            ahead = batch[len(indexed) :]
            if ahead:
                break
        if digest != known.digest or last + 1 != known.indexed:
            self._state.begin()
            self._state.retire(known.key)
            self._writer.forget(known.key)
            self._index(row, log, number, name)
            return
        end, digest = self._add(known.key, chain([ahead], reading), known.indexed, digest)
        self._done.append((end, digest, log, number, name, known.key))

    def _index(self, row: Row, log: str, number: int, name: str) -> None:
        self._state.begin()
        key = self._state.new_key(row.root, row.id)
        self._writer.name(key, name, row.last_active, first=True)
        end, digest = self._add(key, self._read(row, 0), 0, 0)
        self._done.append((end, digest, log, number, name, key))

    def _add(self, key: int, reading: Iterable[list[Message]], end: int, digest: int) -> tuple[int, int]:
        writer = self._writer
        for batch in reading:
            texts = [searchable(message) for message in batch]
            writer.add(key, batch, texts)
            if writer.has_many_new_words:  # a surplus word is harmless
                self._words.add(writer.new_words())
            digest = _digest(texts, digest)
            self._added += len(batch)
            end = batch[-1].seq + 1 if batch else end
        return end, digest

    def _read(self, row: Row, start: int) -> Iterator[list[Message]]:
        return batches(self._sources[row.root], row.id, row.path, start)

    @property
    def _writer(self) -> KeywordWriter:
        if self._made is None:
            from cortext.index.search.keyword_writer import KeywordWriter  # not needed for queries

            self._made = KeywordWriter(self._keywords, small=self._small)
        return self._made

    def _commit(self) -> None:
        if not self._done and not self._state.connection.in_transaction:
            return
        self._state.begin()
        self._state.announce(self._done, self._keywords.stamp() if self._made is not None else "")
        self._state.commit()
        if self._made is not None:
            # Words before the index: a surplus word is harmless, a missing one would not be found by its pieces.
            self._words.add(self._made.new_words())
            self._made.commit()
        self._state.settle(self._keywords.stamp())
        self._done, self._added = [], 0
        self._committed = time.monotonic()

    def merge(self) -> None:
        """Wait for small index segments to be merged, if there are many."""
        if self._made is not None and self._keywords.searcher().num_segments > MANY_SEGMENTS:
            self._made.merged()
            self._made = None


def _digest(texts: Iterable[str], digest: int) -> int:
    return zlib.crc32("".join(texts).encode("utf-8", "surrogatepass"), digest)
