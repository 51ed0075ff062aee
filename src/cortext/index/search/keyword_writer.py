"""Writing the keywords: documents are gathered, and their words looked up for very many of them at once."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
import tantivy

from cortext.index.search.keywords import NAME_PLACE, PRIVATE, Keywords, place_of
from cortext.index.search.query import number
from cortext.index.search.vocabulary import Vocabulary
from cortext.index.search.words import clean, without_signs
from cortext.model.message import Message

Fields = dict[str, int | str | list[str]]

HEAP = 96_000_000
SMALL_HEAP = 15_000_000  # the least that tantivy takes: quick to set up for a few messages
LOT = 1 << 18  # letters of documents that are taken together
BARE = 64  # letters that a document counts for without its text


class KeywordWriter:
    """The one writer; the caller holds the lock. Nothing is seen by others before `commit`."""

    def __init__(self, keywords: Keywords, *, small: bool) -> None:
        self._keywords = keywords
        self._waiting: list[tuple[Fields, str, str]] = []  # each with its field for words, and its text
        self._letters = 0
        keywords.shut()
        # tantivy makes its files, also those of its own threads, as the umask says: they are to be the user's alone.
        self._umask: int | None = os.umask(PRIVATE)
        # One thread of tantivy's keeps up with us, and leaves larger pieces, which are quicker to ask.
        self._writer = keywords.index.writer(SMALL_HEAP if small else HEAP, 1)
        self._vocabulary = self._words(small=small)
        self._encoded = msgspec.json.Encoder().encode

    def _words(self, *, small: bool) -> Vocabulary:
        how = self._keywords.plain.analyze, self._keywords.words.analyze
        if small:
            return Vocabulary(*how)
        from cortext.index.search.manyterms import (
            ManyTerms,  # it needs numpy, which takes longer to load than a few messages
        )

        return ManyTerms(*how)

    def add(self, key: int, messages: Sequence[Message], texts: Sequence[str]) -> None:
        """Messages of a session, with their texts."""
        for message, text in zip(messages, texts, strict=True):
            role = message.role if message.role.isascii() else clean(message.role)
            fields: Fields = {
                "session": key, "place": place_of(message), "time": number(message.timestamp), "role": role
            }  # fmt: skip
            self._add(fields, "body", text)

    def name(self, key: int, name: str, moment: str, *, first: bool = False) -> None:
        """A session's name: its first, or in place of the one it had."""
        if not first:
            self._writer.delete_documents_by_query(tantivy.Query.term_query(self._keywords.schema, "named", key))
        if name.strip():
            self._add({"session": key, "place": NAME_PLACE, "time": number(moment), "named": key}, "name", name)

    def _add(self, fields: Fields, field: str, text: str) -> None:
        """Documents wait until there are enough to be taken together."""
        if not text.isascii():
            text, signs = without_signs(clean(text))
            if signs:
                fields["signs"] = signs
        self._waiting.append((fields, field, text))
        self._letters += len(text) + BARE
        if self._letters > LOT:
            self._take()

    def _take(self) -> None:
        waiting, self._waiting, self._letters = self._waiting, [], 0
        found = self._vocabulary.terms([text for _, _, text in waiting])
        for (fields, field, _), (terms, pieces) in zip(waiting, found, strict=True):
            fields[field] = [terms, pieces] if pieces else terms
            # As JSON it takes half the time of a document that is put together field by field.
            self._writer.add_json(self._encoded(fields).decode())

    def forget(self, key: int) -> None:
        """Everything of a session."""
        self._take()  # what was said before this
        # Not by term: tantivy-py takes the number for a signed one, which this field has none of, and deletes nothing.
        self._writer.delete_documents_by_query(tantivy.Query.term_query(self._keywords.schema, "session", key))

    def new_words(self) -> list[str]:
        """The words that were met since the last time, in lower case."""
        self._take()
        words = sorted(self._vocabulary.fresh)
        self._vocabulary.fresh.clear()
        return words

    def commit(self) -> None:
        """Make everything since the last commit visible and durable, at once."""
        self._take()
        self._writer.commit()

    def merged(self) -> None:
        """Wait until small pieces of the index are merged into larger ones; the writer is used up."""
        self._writer.wait_merging_threads()
        self._open_up()

    def close(self) -> None:
        """Let go of tantivy's lock at once, not when the last frame of an error is forgotten; the writer is used up."""
        del self._writer
        self._open_up()

    def _open_up(self) -> None:
        if self._umask is not None:
            os.umask(self._umask)
            self._umask = None
