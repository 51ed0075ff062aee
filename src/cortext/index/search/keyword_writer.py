"""Writing keywords: documents are collected so that their words can be looked up in large batches."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
import tantivy

from cortext.index.search.keywords import NAME_PLACE, PRIVATE, Keywords, place_of
from cortext.index.search.words import Vocabulary, clean, without_signs
from cortext.model.message import Message
from cortext.model.query import number

Fields = dict[str, int | str | list[str]]

HEAP = 96_000_000
SMALL_HEAP = 15_000_000  # tantivy's minimum: quick to set up for a few messages
BATCH = 1 << 18  # letters of documents that are processed together
MANY_WORDS = 100_000  # new words that are held in memory
BARE = 64  # what a document counts beyond its text, in letters


class KeywordWriter:
    """The one writer; the caller holds the lock. Nothing is visible to readers before `commit`."""

    def __init__(self, keywords: Keywords, *, small: bool) -> None:
        self._keywords = keywords
        self._waiting: list[tuple[Fields, str, str]] = []  # fields, the name of the text field, and its text
        self._letters = 0
        keywords.shut()
        # tantivy creates its files, also from its own threads, by the umask: they must be private to the user.
        self._umask: int | None = os.umask(PRIVATE)
        # One tantivy thread keeps up with us and leaves larger segments, which are faster to query.
        self._writer = keywords.index.writer(SMALL_HEAP if small else HEAP, 1)
        self._vocabulary = self._words(small=small)
        self._encoded = msgspec.json.Encoder().encode

    def _words(self, *, small: bool) -> Vocabulary:
        how = self._keywords.plain.analyze, self._keywords.words.analyze
        if small:
            return Vocabulary(*how)
        from cortext.index.search.wordtable import ManyTerms

        return ManyTerms(*how)

    def add(self, key: int, messages: Sequence[Message], texts: Sequence[str]) -> None:
        """Add messages of a session, with their texts."""
        for message, text in zip(messages, texts, strict=True):
            role = message.role if message.role.isascii() else clean(message.role)
            fields: Fields = {
                "session": key, "place": place_of(message), "time": number(message.timestamp), "role": role
            }  # fmt: skip
            self._add(fields, "body", text)

    def name(self, key: int, name: str, moment: str, *, first: bool = False) -> None:
        """Set a session's name; with `first`, it has none to replace."""
        if not first:
            self._writer.delete_documents_by_query(tantivy.Query.term_query(self._keywords.schema, "named", key))
        if name.strip():
            self._add({"session": key, "place": NAME_PLACE, "time": number(moment), "named": key}, "name", name)

    def _add(self, fields: Fields, field: str, text: str) -> None:
        """Queue a document; a batch is processed as soon as it is large enough."""
        if not text.isascii():
            text, signs = without_signs(clean(text))
            if signs:
                fields["signs"] = signs
        self._waiting.append((fields, field, text))
        self._letters += len(text) + BARE
        if self._letters > BATCH:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._letters = self._waiting, [], 0
        found = self._vocabulary.terms([text for _, _, text in waiting])
        for (fields, field, _), (terms, pieces) in zip(waiting, found, strict=True):
            fields[field] = [terms, pieces] if pieces else terms
            # JSON takes half the time of a document that is built field by field.
            self._writer.add_json(self._encoded(fields).decode())

    def forget(self, key: int) -> None:
        """Delete everything of a session."""
        self._flush()  # documents added before this call
        # Not by term: tantivy-py would pass a signed number, which does not match this field, and delete nothing.
        self._writer.delete_documents_by_query(tantivy.Query.term_query(self._keywords.schema, "session", key))

    @property
    def has_many_new_words(self) -> bool:
        """Whether `new_words` should be called now, because they take much memory."""
        return len(self._vocabulary.fresh) > MANY_WORDS

    def new_words(self) -> list[str]:
        """Return the words first seen since the last call, in lower case."""
        self._flush()
        words = sorted(self._vocabulary.fresh)
        self._vocabulary.fresh.clear()
        return words

    def commit(self) -> None:
        """Make everything since the last commit visible and durable, atomically."""
        self._flush()
        self._writer.commit()

    def merged(self) -> None:
        """Wait until small segments are merged into larger ones. The writer cannot be used afterwards."""
        self._writer.wait_merging_threads()
        self._restore_umask()

    def close(self) -> None:
        """Release tantivy's lock now, not when an error's traceback is freed. The writer cannot be used afterwards."""
        del self._writer
        self._restore_umask()

    def _restore_umask(self) -> None:
        if self._umask is not None:
            os.umask(self._umask)
            self._umask = None
