"""The terms of very many texts: the same as a vocabulary gives, in a third of the time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from cortext.index.search.arrays import np
from cortext.index.search.vocabulary import GAP, MOST_KNOWN, Take, Vocabulary
from cortext.index.search.wordtable import Numbers, Rows, WordTable

_EIGHT = 8


class ManyTerms(Vocabulary):
    """A vocabulary by numbers: a text is a row of them, and its terms are fetched by them all at once."""

    def __init__(self, split: Take, stems: Take) -> None:
        super().__init__(split, stems)
        self._begin()

    def _begin(self) -> None:
        self._table = WordTable(lambda words: self._keep(self.met(words)))
        self._terms, self._pieces = _Texts(), _Texts()
        self._keep([(GAP, "")])  # of a word that is too long, whose number is 0

    def _keep(self, met: Sequence[tuple[str, str]]) -> None:
        self._terms.add([term for term, _ in met])
        self._pieces.add([pieces for _, pieces in met])

    def terms(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """The terms of each text with blanks between them, and those of the pieces of its words in camelCase."""
        if self._table.count > MOST_KNOWN:
            self._begin()
        numbers, bounds = self._table.numbers(
            [text.encode("ascii") if text.isascii() else " ".join(self._words(text)).encode() for text in texts]
        )
        camel = np.flatnonzero(self._pieces.lengths(numbers))
        whose = np.searchsorted(bounds, camel, side="right")
        # The pieces of a word count once in a text, however often it says the word.
        once = np.unique(whose * self._table.count + numbers[camel], return_index=True)[1]
        once.sort()
        cuts = np.searchsorted(whose[once], np.arange(1, len(bounds) + 1))
        pieces = self._pieces.between(numbers[camel[once]], cuts)
        return list(zip(self._terms.between(numbers, bounds), pieces, strict=True))


class _Texts(Rows[np.uint64]):
    """Texts by number. Each but an empty one has blanks behind it up to a multiple of eight letters: so they are
    fetched eight at a time, and blanks are nothing to the index."""

    def __init__(self) -> None:
        super().__init__(np.uint64)

    def add(self, texts: Sequence[str]) -> None:
        """More of them."""
        raw = [text.encode() for text in texts]
        padded = [text.ljust((len(text) + _EIGHT) // _EIGHT * _EIGHT) if text else b"" for text in raw]
        self.keep(np.frombuffer(b"".join(padded), dtype=np.uint64), [len(text) // _EIGHT for text in padded])

    def between(self, numbers: Numbers, bounds: Numbers) -> list[str]:
        """The texts with these numbers, put together from each of the bounds to the next."""
        letters, cuts = self.joined(numbers, bounds)
        made, places = letters.tobytes(), (cuts * _EIGHT).tolist()
        return [made[cut:end].decode() for cut, end in pairwise(places)]
