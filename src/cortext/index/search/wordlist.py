"""Every distinct word of all messages, one per line, for finding words by a part of them.

A plain scan takes milliseconds for a million words, and the list is far smaller than any n-gram index of the text. It
grows by appending; duplicates do no harm and are removed from time to time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cortext.io import durable

NAME = "words.txt"
SLACK = 1 << 20  # bytes of duplicates that are tolerated
LOOKED_AT = 4_000
SHORTEST = 4  # letters of the shortest part that is looked for


class WordList:
    """The word list in this folder."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, NAME)
        self._read = (-1, -1)
        self._words = b"\n"

    def add(self, words: Iterable[str]) -> None:
        """Append words; called by the one writer. A torn end is harmless: every batch begins on a new line."""
        batch = "\n".join(words)
        if batch:
            durable.append_once(self._path, f"\n{batch}\n".encode())

    def tidy(self, before: int) -> int:
        """Remove duplicates if the list has doubled since it had `before` bytes. Return its size for the next call."""
        try:
            size = os.stat(self._path).st_size
        except FileNotFoundError:
            return 0
        if not before or size <= 2 * before + SLACK:
            return before or size
        distinct = sorted(set(self._all().split(b"\n")) - {b""})
        words = b"\n" + b"\n".join(distinct) + b"\n"
        durable.replace_file(self._path, [words])
        return len(words)

    def holding(self, piece: str, *, begins: bool = False, most: int = 24) -> list[str]:
        """Return words that contain (or begin with) a piece, the shortest first: they are closest to what was typed."""
        if len(piece) < (1 if begins else SHORTEST):
            return []
        words = self._all()
        pattern = (b"\n" if begins else b"") + piece.encode("utf-8", "replace")
        found: set[bytes] = set()
        at = words.find(pattern)
        while at >= 0 and len(found) < LOOKED_AT:
            start = at + 1 if begins else words.rfind(b"\n", 0, at) + 1
            end = words.find(b"\n", at + 1)
            if end < 0:
                break
            found.add(words[start:end])
            at = words.find(pattern, end)
        nearest = sorted(found, key=lambda word: (len(word), word))[:most]
        return [word.decode("utf-8", "replace") for word in nearest]

    def similar(self, word: str, wrong: int, most: int = 6) -> list[str]:
        """Return words that differ from this one in at most so many letters, the most similar first.

        Only words are compared that begin or end like this one: with nearly half of it, or with nearly a third if two
        may be wrong. Two letters in the middle that are swapped are in neither half.
        """
        words, wanted = self._all(), word.encode("utf-8", "replace")
        size = max(2, (len(wanted) - 2) // (wrong + 1))
        found: dict[bytes, int] = {}
        for pattern, at_start in ((b"\n" + wanted[:size], True), (wanted[-size:] + b"\n", False)):
            at = words.find(pattern)
            while at >= 0 and len(found) < LOOKED_AT:
                begin = at + 1 if at_start else words.rfind(b"\n", 0, at) + 1
                end = words.find(b"\n", begin)
                other = words[begin:end]
                if end > 0 and abs(len(other) - len(wanted)) <= wrong and other not in found and other != wanted:
                    found[other] = _distance(wanted, other)
                at = words.find(pattern, at + 1)
        nearest = sorted((far, other) for other, far in found.items() if far <= wrong)[:most]
        return [other.decode("utf-8", "replace") for _, other in nearest]

    def _all(self) -> bytes:
        try:
            status = os.stat(self._path)
            if (status.st_ino, status.st_size) != self._read:
                with open(self._path, "rb", opener=durable.plain_file) as file:
                    self._words = file.read()
                self._read = (status.st_ino, status.st_size)
        except FileNotFoundError:
            self._words, self._read = b"\n", (-1, -1)
        return self._words


def _distance(one: bytes, other: bytes) -> int:
    """Return how many letters are missing, added, wrong, or swapped with the next."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for down, letter in enumerate(one, 1):
        earlier, before, row = before, row, [down]
        for across, wanted in enumerate(other, 1):
            least = min(before[across] + 1, row[-1] + 1, before[across - 1] + (letter != wanted))
            if down > 1 and across > 1 and letter == other[across - 2] and one[down - 2] == wanted:
                least = min(least, earlier[across - 2] + 1)
            row.append(least)
    return row[-1]
