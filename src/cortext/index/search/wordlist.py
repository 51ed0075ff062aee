"""Every distinct word that was ever said, one a line: where pieces of words are looked for.

A plain search through it takes milliseconds for a million words, which is far smaller than any index of the pieces of
the text itself. It only grows by appending; words that are there twice do no harm, and are sorted out now and then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cortext.io import files as fsio

NAME = "words.txt"
SLACK = 1 << 20  # bytes of words that may be there twice
LOOKED_AT = 4_000
SHORTEST = 3  # letters that a piece of a word must have


class WordList:
    """The list in this folder."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, NAME)
        self._read = (-1, -1)
        self._words = b"\n"

    def add(self, words: Iterable[str]) -> None:
        """Append words; called by the one writer. A torn end is harmless: every lot begins on a new line."""
        lot = "\n".join(words)
        if lot:
            fsio.append_once(self._path, f"\n{lot}\n".encode())

    def tidy(self, before: int) -> int:
        """Write the list anew, each word once, where it doubled since it had `before` bytes; how many it has now."""
        try:
            size = os.stat(self._path).st_size
        except FileNotFoundError:
            return 0
        if not before or size <= 2 * before + SLACK:
            return before or size
        distinct = sorted(set(self._all().split(b"\n")) - {b""})
        words = b"\n" + b"\n".join(distinct) + b"\n"
        fsio.replace_file(self._path, [words])
        return len(words)

    def holding(self, piece: str, *, begins: bool = False, most: int = 24) -> list[str]:
        """Words that hold (or begin with) a piece: the shortest first, they are nearest to what was typed."""
        if len(piece) < (1 if begins else SHORTEST):
            return []
        words = self._all()
        looked_for = (b"\n" if begins else b"") + piece.encode("utf-8", "replace")
        found: set[bytes] = set()
        place = words.find(looked_for)
        while place >= 0 and len(found) < LOOKED_AT:
            start = place + 1 if begins else words.rfind(b"\n", 0, place) + 1
            end = words.find(b"\n", place + 1)
            if end < 0:
                break
            found.add(words[start:end])
            place = words.find(looked_for, end)
        nearest = sorted(found, key=lambda word: (len(word), word))[:most]
        return [word.decode("utf-8", "replace") for word in nearest]

    def _all(self) -> bytes:
        try:
            status = os.stat(self._path)
            if (status.st_ino, status.st_size) != self._read:
                with open(self._path, "rb", opener=fsio.plain_file) as file:
                    self._words = file.read()
                self._read = (status.st_ino, status.st_size)
        except FileNotFoundError:
            self._words, self._read = b"\n", (-1, -1)
        return self._words
