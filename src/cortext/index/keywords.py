"""Finding messages by their words: one tantivy index, a document a message, nothing stored but what names it.

A document is (session key, place, time); the text itself stays in the log. A session's name (its title and summary)
is a document of its own. Scores are BM25.
"""

from __future__ import annotations

import os

import tantivy

from cortext import fsio
from cortext.index.query import number
from cortext.index.words import LONGEST_WORD, SIGNS, Vocabulary, clean, without_signs

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cortext.model.message import Message

HEAP = 96_000_000
THREADS = 2
SMALL_HEAP = 15_000_000  # the least that tantivy takes: quick to set up for a few messages
NAME_PLACE = 1 << 40  # the place of a session's name, far behind every message

Hit = tuple[int, int, float]  # session key, place, score


def place_of(message: Message) -> int:
    """Where a message stands in its session, and (the last bit) whether the user said it."""
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


def _analyzers() -> tuple[tantivy.TextAnalyzer, tantivy.TextAnalyzer]:
    tokenizer, filters = tantivy.Tokenizer, tantivy.Filter
    words = tantivy.TextAnalyzerBuilder(tokenizer.simple())
    for step in (
        filters.remove_long(LONGEST_WORD),
        filters.lowercase(),
        filters.ascii_fold(),
        filters.stemmer("english"),
    ):
        words = words.filter(step)
    return words.build(), tantivy.TextAnalyzerBuilder(tokenizer.regex(r"\S")).build()


class Keywords:
    """The index in this folder; it is made where there is none."""

    def __init__(self, folder: str) -> None:
        fsio.ensure_folder(folder)
        self.folder = folder
        self.schema = _schema()
        self.words, self.signs = _analyzers()
        self.index = tantivy.Index(self.schema, path=folder)
        self.index.register_tokenizer("words", self.words)
        self.index.register_tokenizer("signs", self.signs)
        self.index.config_reader("manual")
        self._seen = self._meta()
        self._searcher = self.index.searcher()

    def searcher(self) -> tantivy.Searcher:
        """A view of the last commit, whoever made it."""
        now = self._meta()
        if now != self._seen:
            self.index.reload()
            self._searcher = self.index.searcher()
            self._seen = now
        return self._searcher

    def _meta(self) -> tuple[int, int]:
        # tantivy puts a new meta.json in place at every commit: its inode and time tell one from another.
        status = os.stat(os.path.join(self.folder, "meta.json"))
        return status.st_ino, status.st_mtime_ns

    def stems(self, text: str) -> list[str]:
        """The terms of a text, as the index holds them."""
        return self.words.analyze(clean(text))

    def tokens(self, text: str) -> list[tuple[str, int, int]]:
        """The terms of a text with their places in it; signs are given as each one and each two."""
        found = [
            (token.text, token.char_offset_from, token.char_offset_to) for token in self.words.pre_tokenize(text).tokens
        ]
        for row in SIGNS.finditer(text):
            signs, start = row.group(), row.start()
            found += [
                (signs[place : place + size], start + place, start + place + size)
                for size in (1, 2, 3, 4)
                for place in range(len(signs) - size + 1)
            ]
        return sorted(found, key=lambda item: item[1:])

    def search(self, query: tantivy.Query, limit: int, *, newest: bool = False) -> list[Hit]:
        """The best documents for a query (or the newest, where there are no words to be good at), best first."""
        searcher = self.searcher()
        found = searcher.search(query, limit, count=False, order_by_field="time" if newest else None).hits
        if len(found) == limit and found[0][0] > found[-1][0]:
            # Which of those with the same last score came in depends on how the index came about: none of them does.
            found = [hit for hit in found if hit[0] > found[-1][0]]
        addresses = [address for _, address in found]
        sessions = searcher.fast_field_values("session", addresses)
        places = searcher.fast_field_values("place", addresses)
        return [
            (int(session or 0), int(place or 0), 0.0 if newest else score)
            for (score, _), session, place in zip(found, sessions, places, strict=True)
        ]

    def stamp(self) -> str:
        """tantivy's count of operations at its last commit: it tells whether a commit was made."""
        import json

        with open(os.path.join(self.folder, "meta.json"), encoding="utf-8") as file:
            return str(json.load(file)["opstamp"])

    def size(self) -> int:
        """Bytes on disk."""
        return folder_size(self.folder)


class KeywordWriter:
    """The one writer; the caller holds the lock. Nothing is seen by others before `commit`."""

    def __init__(self, keywords: Keywords, *, small: bool) -> None:
        self._keywords = keywords
        self.vocabulary = Vocabulary()
        self._writer = keywords.index.writer(SMALL_HEAP if small else HEAP, 1 if small else THREADS)

    def add(self, key: int, message: Message, text: str) -> None:
        """One message."""
        document = tantivy.Document()
        document.add_unsigned("session", key)
        document.add_unsigned("place", place_of(message))
        document.add_unsigned("time", number(message.timestamp))
        document.add_text("role", clean(message.role))
        if not text.isascii():
            text = clean(text)
            text, signs = without_signs(text)
            if signs:
                document.add_text("signs", signs)
        document.add_text("body", text)
        pieces = self.vocabulary.pieces(text)
        if pieces:
            document.add_text("body", pieces)
        self._writer.add_document(document)

    def name(self, key: int, name: str, moment: str, *, first: bool = False) -> None:
        """A session's name: its first, or in place of the one it had."""
        if not first:
            self._writer.delete_documents_by_query(tantivy.Query.term_query(self._keywords.schema, "named", key))
        if not name.strip():
            return
        document = tantivy.Document()
        document.add_unsigned("session", key)
        document.add_unsigned("place", NAME_PLACE)
        document.add_unsigned("named", key)
        document.add_unsigned("time", number(moment))
        words, signs = without_signs(clean(name))
        document.add_text("name", f"{words} {self.vocabulary.pieces(words)}")
        if signs:
            document.add_text("signs", signs)
        self._writer.add_document(document)

    def forget(self, key: int) -> None:
        """Everything of a session."""
        # Not by term: tantivy-py takes the number for a signed one, which this field has none of, and deletes nothing.
        self._writer.delete_documents_by_query(tantivy.Query.term_query(self._keywords.schema, "session", key))

    def commit(self) -> None:
        """Make everything since the last commit visible and durable, at once."""
        self._writer.commit()

    def merged(self) -> None:
        """Wait until small pieces of the index are merged into larger ones; the writer is used up."""
        self._writer.wait_merging_threads()


def folder_size(folder: str) -> int:
    """The bytes of all files below a folder."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_size
            except FileNotFoundError:
                continue  # merged away meanwhile
    return total


def any_of(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """At least one of them; the scores add up."""
    if len(queries) == 1:
        return queries[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])
