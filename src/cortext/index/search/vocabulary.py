"""Words as the index holds them: stemmed when they are first seen, not every time they occur."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cortext.index.search.words import LONGEST_TERM, LONGEST_WORD, camel_pieces, plain_words

Take = Callable[[str], list[str]]

MOST_KNOWN = 1_000_000  # words that are cached while indexing
GAP = "x" * LONGEST_TERM  # stands for a word that is not indexed: the index drops it but counts its position


class Vocabulary:
    """The words seen so far, with their terms.

    `split` and `stems` are the index's own functions: how it splits a text, and which terms it makes of the words.
    """

    def __init__(self, split: Take, stems: Take) -> None:
        self.fresh: set[str] = set()  # words not yet in the word list, in lower case; the writer empties it
        self._split, self._stems = split, stems
        self._known: dict[str, str] = {}
        self._camel: dict[str, str] = {}

    def terms(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """Return the terms of each text, separated by spaces, and the terms of its camelCase pieces."""
        found: list[tuple[str, str]] = []
        for text in texts:
            words = self._words(text)
            distinct = dict.fromkeys(words)
            new = [word for word in distinct if word not in self._known and len(word.encode()) < LONGEST_WORD]
            for word, (term, pieces) in zip(new, self.met(new) if new else (), strict=True):
                self._known[word] = term
                if pieces:
                    self._camel[word] = pieces
            camel = [self._camel[word] for word in distinct if word in self._camel]
            found.append((" ".join([self._known.get(word, GAP) for word in words]), " ".join(camel)))
        return found

    def _words(self, text: str) -> list[str]:
        return plain_words(text) if text.isascii() else self._split(text)

    def met(self, words: Sequence[str]) -> list[tuple[str, str]]:
        """Register new words and return, for each, its term and the terms of its pieces."""
        self.fresh.update(" ".join(words).lower().split(" "))
        pieces = [camel_pieces(word) for word in words]
        parts = iter(self._stemmed([piece for group in pieces for piece in group]))
        return [
            (term, " ".join([next(parts) for _ in group]) if group else "")
            for term, group in zip(self._stemmed(words), pieces, strict=True)
        ]

    def _stemmed(self, words: Sequence[str]) -> list[str]:
        """Return the term of each word: in one call, or one by one if a word does not have exactly one term."""
        terms = self._stems(" ".join(words))
        return terms if len(terms) == len(words) else [(self._stems(word) or [GAP])[0] for word in words]
