"""The meaning of a text as a vector: our own static table, shipped with the package; no network, no set-up.

A text's vector is the sum of the vectors of its word pieces, at length 1. Words outside the vocabulary of pieces
(CJK, long identifiers) have none; they are left to the keywords. `embedding/README.md` says how the table was made.
"""

from __future__ import annotations

import os
import unicodedata

from cortext.index.arrays import np
from cortext.index.words import camel_pieces, words_of

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

    class Model(Protocol):
        """What turns texts into vectors of length 1 (or 0, where a text says nothing to it)."""

        name: str
        dimension: int
        quick: bool  # whether a query may wait for it

        def embed(self, texts: Sequence[str]) -> Vectors: ...


DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "embedding")
WORDS = 256  # of a text that count; what a message is about is said at its beginning
LOT = 32  # texts that are done together
MOST_KNOWN = 500_000  # words whose pieces are remembered
LONGEST = 48  # letters of a word that is taken apart


class StaticModel:
    """The table in the package."""

    name = "built-in/static-256-1"
    dimension = 256
    quick = True

    def __init__(self) -> None:
        self._table = np.load(os.path.join(DATA, "table.int8.npy"), mmap_mode="r")
        self._scale = np.load(os.path.join(DATA, "scale.f32.npy"))
        with open(os.path.join(DATA, "vocab.txt"), encoding="utf-8") as file:
            self._ids = {piece: number for number, piece in enumerate(file.read().split("\n"))}
        self._known: dict[bytes, list[int]] = {}
        self._floats: Vectors | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector a text."""
        if len(texts) < 8:
            return np.stack([self._one(text) for text in texts])
        return np.concatenate([self._many(texts[start : start + LOT]) for start in range(0, len(texts), LOT)])

    def _many(self, texts: Sequence[str]) -> Vectors:
        """How often each text has each piece, times the table: one product of matrices is faster than many sums."""
        if self._floats is None:
            self._floats = self._table * self._scale[:, None]
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        known = self._known
        pieces: list[int] = []
        ends: list[int] = []
        for text in texts:
            for word in words_of(text[: WORDS * 12])[:WORDS]:
                if word in known:
                    pieces += known[word]
                else:
                    known[word] = found = self._pieces(word)
                    pieces += found
            ends.append(len(pieces))
        if not pieces:
            return np.zeros((len(texts), self.dimension), dtype=np.float32)
        distinct, column = np.unique(np.array(pieces), return_inverse=True)
        row = np.repeat(np.arange(len(texts)), np.diff(ends, prepend=0))
        counts = np.bincount(row * len(distinct) + column, minlength=len(texts) * len(distinct))
        counted = counts.reshape(len(texts), len(distinct)).astype(np.float32)
        return _of_length_one(counted @ self._floats[distinct])

    def _one(self, text: str) -> Vectors:
        ids = [piece for word in words_of(text)[:WORDS] for piece in self._pieces(word)]
        if not ids:
            return np.zeros(self.dimension, dtype=np.float32)
        whole = self._scale[ids] @ self._table[ids].astype(np.float32)
        found: Vectors = _of_length_one(whole[None, :])[0]
        return found

    def _pieces(self, word: bytes) -> list[int]:
        """The pieces of a word: the longest that the vocabulary has, from left to right; none where one is missing."""
        text = word.decode("utf-8")
        parts = camel_pieces(text) or [text]
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


def _of_length_one(vectors: Vectors) -> Vectors:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    lengths[lengths == 0] = 1.0
    return np.asarray(vectors / lengths[:, None], dtype=np.float32)
