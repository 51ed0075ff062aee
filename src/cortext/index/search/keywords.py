"""Finding messages by their words: one tantivy index with one document per message, which stores only its address.

A document is (session key, place, time); the text itself stays in the log. A session's name (title and summary) is a
document of its own. Scores are BM25.

Beside it, every distinct word of all messages, one per line, for finding words by a part of them. A plain scan takes
milliseconds for a million words, and the list is far smaller than any n-gram index of the text. It grows by appending;
duplicates do no harm and are removed from time to time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence

import tantivy

from cortext.index.search.words import LONGEST_TERM, LONGEST_WORD, SIGNS, clean
from cortext.io import durable
from cortext.model.message import Message

NAME_PLACE = 1 << 40  # the place of a session's name, far beyond every message

Hit = tuple[int, int, float]  # session key, place, score


def place_of(message: Message) -> int:
    """Return a message's number, shifted left by one bit; the lowest bit says whether the user wrote it."""
    return message.seq * 2 + (message.role == "user")


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("session", indexed=True, fast=True)
    builder.add_unsigned_field("place", fast=True)
    builder.add_unsigned_field("time", fast=True)
    builder.add_unsigned_field("named", indexed=True)
    builder.add_text_field("role", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("body", tokenizer_name="words", index_option="position")
    builder.add_text_field("signs", tokenizer_name="signs", index_option="position")
    builder.add_text_field("name", tokenizer_name="words", index_option="position")
    return builder.build()


def _analyzers() -> tuple[tantivy.TextAnalyzer, tantivy.TextAnalyzer, tantivy.TextAnalyzer]:
    """Return the analyzers that make terms of a text, that only split it, and that take terms as they are."""
    tokenizer, filters = tantivy.Tokenizer, tantivy.Filter
    words = tantivy.TextAnalyzerBuilder(tokenizer.simple())
    for step in (
        filters.remove_long(LONGEST_WORD),
        filters.lowercase(),
        filters.ascii_fold(),
        filters.stemmer("english"),
    ):
        words = words.filter(step)
    ready = tantivy.TextAnalyzerBuilder(tokenizer.whitespace()).filter(filters.remove_long(LONGEST_TERM))
    return words.build(), tantivy.TextAnalyzerBuilder(tokenizer.simple()).build(), ready.build()


PRIVATE = 0o077  # permission bits of other users


class Keywords:
    """The index in this folder, created if there is none."""

    def __init__(self, folder: str) -> None:
        durable.ensure_folder(folder)
        self.folder = folder
        self.schema = _schema()
        self.words, self.plain, ready = _analyzers()
        before = os.umask(PRIVATE)
        try:
            self.index = tantivy.Index(self.schema, path=folder)
        finally:
            os.umask(before)
        # Texts arrive as terms: a word is stemmed when it is first seen, not every time it occurs.
        self.index.register_tokenizer("words", ready)
        self.index.register_tokenizer("signs", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex(r"\S")).build())
        self.index.config_reader("manual")
        self._seen = self._meta()
        self._searcher = self.index.searcher()

    def searcher(self) -> tantivy.Searcher:
        """Return a searcher of the last commit, whichever process made it."""
        now = self._meta()
        if now != self._seen:
            self.index.reload()
            self._searcher = self.index.searcher()
            self._seen = now
        return self._searcher

    def _meta(self) -> tuple[int, int]:
        # tantivy replaces meta.json at every commit: its inode and mtime tell commits apart.
        status = os.stat(os.path.join(self.folder, "meta.json"))
        return status.st_ino, status.st_mtime_ns

    def stems(self, text: str) -> list[str]:
        """Return the terms of a text, as the index holds them."""
        return self.words.analyze(clean(text))

    def tokens(self, text: str) -> list[tuple[str, int, int]]:
        """Return the terms of a text with start and end offsets; unspaced runs as every 1 to 4 adjacent characters."""
        found = [
            (token.text, token.char_offset_from, token.char_offset_to) for token in self.words.pre_tokenize(text).tokens
        ]
        if text.isascii():
            return found
        for row in SIGNS.finditer(text):
            signs, start = row.group(), row.start()
            found += [
                (signs[first : first + size], start + first, start + first + size)
                for size in (1, 2, 3, 4)
                for first in range(len(signs) - size + 1)
            ]
        return sorted(found, key=lambda item: item[1:])

    def search(self, query: tantivy.Query, limit: int, *, newest: bool = False) -> list[Hit]:
        """Return the best documents for a query, or the newest if it has no words to rank by."""
        searcher = self.searcher()
        found = searcher.search(query, limit, count=False, order_by_field="time" if newest else None).hits
        if len(found) == limit and found[0][0] > found[-1][0]:
            # Which of several documents with the lowest score made the cut depends on segment order: drop them all.
            found = [hit for hit in found if hit[0] > found[-1][0]]
        addresses = [address for _, address in found]
        sessions = searcher.fast_field_values("session", addresses)
        places = searcher.fast_field_values("place", addresses)
        return [
            (int(session or 0), int(place or 0), 0.0 if newest else score)
            for (score, _), session, place in zip(found, sessions, places, strict=True)
        ]

    def shut(self) -> None:
        """Remove the access that an older version gave to other users."""
        for entry in os.scandir(self.folder):
            try:
                if entry.stat(follow_symlinks=False).st_mode & PRIVATE:
                    os.chmod(entry.path, durable.FILE_MODE)
            except OSError:
                continue  # merged away meanwhile, or not ours

    def stamp(self) -> str:
        """Return tantivy's operation counter at its last commit, which shows whether a commit was made."""
        return str(json.loads(durable.read_text(os.path.join(self.folder, "meta.json")))["opstamp"])

    def size(self) -> int:
        """Return the size on disk in bytes."""
        return folder_size(self.folder)


def folder_size(folder: str) -> int:
    """Return the total size of all files below a folder in bytes."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_size
            except FileNotFoundError:
                continue  # merged away meanwhile
    return total


def any_of(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Match at least one of the queries; their scores add up."""
    if len(queries) == 1:
        return queries[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])


WORDS = "words.txt"
SLACK = 1 << 20  # bytes of duplicates that are tolerated
LOOKED_AT = 4_000
SHORTEST = 4  # letters of the shortest part of a word that is looked for


class WordList:
    """The word list in this folder."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, WORDS)
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
