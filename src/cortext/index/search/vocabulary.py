"""Words as the index has them: stemmed when they are met first, not each time that they are said."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cortext.index.search.words import LONGEST_TERM, LONGEST_WORD, camel_pieces, plain_words

Take = Callable[[str], list[str]]

MOST_KNOWN = 1_000_000  # words that are remembered while indexing
GAP = "x" * LONGEST_TERM  # for a word that is not indexed: the index drops it, and keeps its place


class Vocabulary:
    """The words that went by, with their terms.

    `split` and `stems` are the index's own: how it takes a text apart, and what it makes of the words.
    """

    def __init__(self, split: Take, stems: Take) -> None:
        self.fresh: set[str] = set()  # in lower case; taken out by whoever writes them down
        self._split, self._stems = split, stems
        self._known: dict[str, str] = {}
        self._camel: dict[str, str] = {}

    def terms(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        """The terms of each text with blanks between them, and those of the pieces of its words in camelCase."""
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
        """What new words become: the term of each, and those of its pieces."""
        self.fresh.update(" ".join(words).lower().split(" "))
        pieces = [camel_pieces(word) for word in words]
        parts = iter(self._stemmed([piece for several in pieces for piece in several]))
        return [
            (term, " ".join([next(parts) for _ in several]) if several else "")
            for term, several in zip(self._stemmed(words), pieces, strict=True)
        ]

    def _stemmed(self, words: Sequence[str]) -> list[str]:
        """The term of each word; all are asked for at once, which is right if each of them has one."""
        terms = self._stems(" ".join(words))
        return terms if len(terms) == len(words) else [(self._stems(word) or [GAP])[0] for word in words]
