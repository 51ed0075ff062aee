"""The meaning of a text as a vector, from a static table shipped with the package: no network and no setup.

A text's vector is the normalised sum of the vectors of its word pieces. Words outside the vocabulary (CJK, long
identifiers) have no vector; keyword search covers them. `embedding/README.md` describes how the table was made.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from itertools import chain
from threading import Lock
from typing import Protocol

from numpy.typing import NDArray

from cortext.index.search.arrays import np
from cortext.index.search.words import LONGEST_WORD, STOP, WORD, camel_pieces, words_of
from cortext.index.search.wordtable import Rows, WordTable

Vectors = NDArray[np.float32]


class Model(Protocol):
    """Turns texts into vectors of length 1, or 0 if the model knows nothing in a text."""

    name: str
    quick: bool  # whether it is fast enough for a query to wait for
    near: float  # a cosine that any two texts reach
    far: float  # a lower cosine means nothing
    sure: float  # a cosine that texts about something else hardly reach

    def embed(self, texts: Sequence[str]) -> Vectors: ...


DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "embedding")
WORDS = 256  # words of a text that count; a message states its subject at the beginning
BATCH = 1_024  # texts whose words are looked up together
TOGETHER = 64  # texts whose table rows are fetched together
MOST_KNOWN = 500_000  # words whose pieces are cached
CRUMB = 3  # a word whose pieces are shorter than this on average is noise
LONGEST = 48  # letters of the longest word that is split into pieces


class StaticModel:
    """The embedding table in the package."""

    name = "built-in/static-256-2"
    dimension = 256
    quick = True
    near = 0.3
    far = 0.35
    sure = 0.55

    def __init__(self) -> None:
        self._table = np.asarray(np.load(os.path.join(DATA, "table.int8.npy"), mmap_mode="r"))
        self._scale = np.load(os.path.join(DATA, "scale.f32.npy"))
        with open(os.path.join(DATA, "vocab.txt"), encoding="utf-8") as file:
            self._ids = {piece: number for number, piece in enumerate(file.read().split("\n"))}
        self._lock = Lock()  # a server embeds in several threads
        self._begin()

    def _begin(self) -> None:
        self._words = WordTable(self._meet)
        self._rows: Rows[np.int32] = Rows(np.int32)  # the pieces of each word
        self._rows.keep(np.zeros(0, dtype=np.int32), [0])  # number 0 stands for every word that is too long

    def _meet(self, words: list[str]) -> None:
        pieces = [self._pieces(word) for word in words]
        flat = np.fromiter(chain.from_iterable(pieces), dtype=np.int32)
        self._rows.keep(flat, [len(ids) for ids in pieces])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""
        if len(texts) < 8:
            return np.stack([self._one(text) for text in texts])
        return np.concatenate([self._many(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)])

    def known(self, text: str) -> str:
        """Return the words of a text that have a meaning; a word that falls into tiny pieces (`zzzzqqq`) has none."""
        words = [word for word in words_of(text)[:WORDS] if self._is_word(word)]
        return " ".join(words) if any(word.lower() not in STOP for word in words) else ""

    def has(self, word: str) -> bool:
        """Whether a word is in the table as a whole."""
        return len(self._pieces(word)) == 1

    def _is_word(self, word: str) -> bool:
        pieces = len(self._pieces(word))
        return pieces == 1 or len(word) >= CRUMB * pieces > 0

    def _many(self, texts: Sequence[str]) -> Vectors:
        """Look all words up at once, and fetch the table rows for a few texts at a time."""
        pieces, cuts = self.pieces(texts)
        added = np.zeros((len(texts), self.dimension), dtype=np.float32)
        offsets = cuts.tolist()
        for start in range(0, len(texts), TOGETHER):
            end = min(start + TOGETHER, len(texts))
            taken = pieces[offsets[start] : offsets[end]]
            rows, scales = self._table.take(taken, axis=0).astype(np.float32), self._scale[taken]
            for text in range(start, end):
                here = slice(offsets[text] - offsets[start], offsets[text + 1] - offsets[start])
                np.dot(scales[here], rows[here], out=added[text])
        return _normalised(added)

    def pieces(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the numbers of the texts' word pieces, and the index where each text begins and the last ends."""
        begins = [text[: WORDS * 12] for text in texts]
        raw = [
            text.encode("ascii") if text.isascii() else " ".join(WORD.findall(text)).encode("utf-8", "replace")
            for text in begins
        ]
        with self._lock:
            if len(self._words) > MOST_KNOWN:
                self._begin()
            numbers, bounds = self._words.numbers(raw)
            first = np.arange(len(numbers)) - np.repeat(bounds[:-1], np.diff(bounds)) < WORDS
            return self._rows.joined(numbers[first], np.concatenate(([0], np.cumsum(first)))[bounds])

    def unit_rows(self, pieces: NDArray[np.int32]) -> Vectors:
        """Return the rows of these pieces at length 1."""
        rows = self._table.take(pieces, axis=0).astype(np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        return np.asarray(rows / np.maximum(lengths, 1e-9)[:, None], dtype=np.float32)

    def weights(self, pieces: NDArray[np.int32]) -> Vectors:
        """Return how much these pieces count in a sum: the lengths of their rows."""
        rows = self._table.take(pieces, axis=0).astype(np.float32)
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * self._scale[pieces], dtype=np.float32)

    def _one(self, text: str) -> Vectors:
        ids = [piece for word in words_of(text)[:WORDS] for piece in self._pieces(word)]
        if not ids:
            return np.zeros(self.dimension, dtype=np.float32)
        whole = self._scale[ids] @ self._table[ids].astype(np.float32)
        found: Vectors = _normalised(whole[None, :])[0]
        return found

    def _pieces(self, word: str) -> list[int]:
        """Split a word into the longest pieces of the vocabulary, left to right; empty if some part has none."""
        if len(word.encode()) >= LONGEST_WORD:
            return []
        parts = camel_pieces(word) or [word]
        found: list[int] = []
        for part in parts:
            part = part.lower()
            if not part.isascii():
                letters = unicodedata.normalize("NFD", part)
                part = "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
            found += self._split(part)
        return found

    def _split(self, word: str) -> list[int]:
        whole = self._ids.get(word)
        if whole is not None:
            return [whole]
        found: list[int] = []
        start = 0
        if len(word) > LONGEST:
            return []
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self._ids.get(("##" if start else "") + word[start:end])
                if piece is not None:
                    found.append(piece)
                    start = end
                    break
            else:
                return []
        return found


def _normalised(vectors: Vectors) -> Vectors:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    lengths[lengths == 0] = 1.0
    return np.asarray(vectors / lengths[:, None], dtype=np.float32)
