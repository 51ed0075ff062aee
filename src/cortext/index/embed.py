"""The meaning of a text as a vector: our own static table, shipped with the package; no network, no set-up.

A text's vector is the sum of the vectors of its word pieces, at length 1. Words outside the vocabulary of pieces
(CJK, long identifiers) have none; they are left to the keywords. `embedding/README.md` says how the table was made.
"""

from __future__ import annotations

import os
import unicodedata
from itertools import chain

from cortext.index.arrays import np
from cortext.index.words import camel_pieces, words_of

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
LOT = 128  # texts that are done together
MOST_KNOWN = 500_000  # words whose pieces are remembered
LONGEST = 48  # letters of a word that is taken apart


class _Known(dict[bytes, list[int]]):
    """The pieces of each word that went by; a new word is taken apart when it is asked for."""

    def __init__(self, pieces: Callable[[bytes], list[int]]) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, word: bytes) -> list[int]:
        self[word] = found = self._pieces(word)
        return found


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
        self._known = _Known(self._pieces)
        self._floats: Vectors | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector a text."""
        if len(texts) < 8:
            return np.stack([self._one(text) for text in texts])
        return np.concatenate([self._many(texts[start : start + LOT]) for start in range(0, len(texts), LOT)])

    def _many(self, texts: Sequence[str]) -> Vectors:
        """The rows of the table are fetched for all texts at once, and added up a text at a time."""
        if self._floats is None:
            self._floats = self._table * self._scale[:, None]
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        pieces: list[int] = []
        ends: list[int] = []
        for text in texts:
            words = words_of(text[: WORDS * 12])[:WORDS]
            pieces.extend(chain.from_iterable(map(self._known.__getitem__, words)))
            ends.append(len(pieces))
        rows = self._floats[np.array(pieces, dtype=np.intp)]
        ones = np.ones(max(np.diff(ends, prepend=0), default=0), dtype=np.float32)
        added = np.zeros((len(texts), self.dimension), dtype=np.float32)
        start = 0
        for place, end in enumerate(ends):
            # A product with ones: twice as fast as sum().
            np.dot(ones[: end - start], rows[start:end], out=added[place])
            start = end
        return _of_length_one(added)

    def _one(self, text: str) -> Vectors:
        ids = [piece for word in words_of(text)[:WORDS] for piece in self._known[word]]
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
