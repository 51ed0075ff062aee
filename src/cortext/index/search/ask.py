"""A query as tantivy is asked it: every word a term, or what the words of the index make of it.

All words are looked for, and messages with more and rarer ones come first. A word that is rare or unknown is also
looked for inside longer words, and, if even that finds nothing, with a letter wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import tantivy

from cortext.index.search.keywords import Keywords, any_of
from cortext.index.search.query import Query, Word
from cortext.index.search.wordlist import WordList
from cortext.index.search.words import SIGNS, STOP, camel_pieces, clean

RARE = 1_000  # a word in so many messages is not looked for inside others
INSIDE = 0.4  # how much a word counts that only holds the one looked for
PIECE = 0.5  # and a piece of an identifier beside the whole of it
WRONG = 0.3  # and a word with a letter wrong
NAME = 1.2  # and a word in a session's title or summary
MOST_INSIDE = 24
FIELDS = ("body", "name")
LONGEST_ROW = 24  # signs of one row that are looked for together

Should, Must, MustNot = tantivy.Occur.Should, tantivy.Occur.Must, tantivy.Occur.MustNot


class Asking:
    """One query against one state of the index."""

    def __init__(self, keywords: Keywords, words: WordList, *, exact: bool) -> None:
        self._keywords, self._words, self._exact = keywords, words, exact
        self._schema = keywords.schema
        self._searcher = keywords.searcher()
        self.lit: set[str] = set()  # the terms that a snippet shows lit

    def build(self, query: Query, restrictions: Sequence[tuple[tantivy.Occur, tantivy.Query]]) -> tantivy.Query | None:
        """The whole query; None where it has no words and no restrictions."""
        should: list[tantivy.Query] = []
        clauses: list[tuple[tantivy.Occur, tantivy.Query]] = []
        for word in query.words:
            found = self._word(word)
            if found is None:
                continue
            if word.excluded:
                clauses.append((MustNot, found))
            elif word.must or word.phrase:
                clauses.append((Must, found))
            else:
                should.append(found)
        if should:
            required = any(occur == Must for occur, _ in clauses)
            clauses.append((Should if required else Must, any_of(should)))
        clauses += restrictions
        if not clauses:
            return None
        if not any(occur == Must for occur, _ in clauses):
            clauses.append((Must, tantivy.Query.all_query()))
        return tantivy.Query.boolean_query(clauses)

    def occurs(self, query: Query) -> bool:
        """Whether a word of the query that says something was ever said; `in` and `the` say nothing beside others."""
        telling = [word for word in query.wanted if word.text.lower() not in STOP]
        if not telling or len(telling) == len(query.wanted):
            return True
        for word in telling:
            text = clean(word.text)
            terms = self._keywords.stems(SIGNS.sub(" ", text))
            if SIGNS.search(text) or any(self._searcher.doc_freq(name, term) for term in terms for name in FIELDS):
                return True
            plain = text.strip().lower()
            if plain.isalnum() and self._words.holding(plain, most=1):
                return True
        return False

    def _word(self, word: Word) -> tantivy.Query | None:
        text = clean(word.text)
        rows = [row for row in SIGNS.findall(text) if row]
        parts = [self._row(row, whole=word.phrase or word.excluded) for row in rows]
        rest = SIGNS.sub(" ", text) if rows else text
        terms = self._keywords.stems(rest)
        if terms:
            parts.append(self._terms(word, rest, terms))
        if not parts:
            return None
        if len(parts) > 1 and word.phrase:
            return tantivy.Query.boolean_query([(Must, part) for part in parts])
        return any_of(parts)

    def _terms(self, word: Word, text: str, terms: list[str]) -> tantivy.Query:
        if not word.excluded:
            self.lit.update(terms)
        if len(terms) > 1:
            whole = self._both(terms)
            if word.phrase or word.excluded or word.must:
                return whole
            # An identifier or a path: the pieces side by side, or at least some of them. Those that are everywhere
            # (`src`, `py`) say nothing by themselves, and cost most.
            often = self._searcher.num_docs // 50 + RARE
            telling = [term for term in dict.fromkeys(terms) if self._searcher.doc_freq("body", term) <= often]
            pieces = [self._boosted(self._both([term]), PIECE) for term in telling]
            return any_of([whole, *pieces])
        plain = text.strip().lower()
        if word.begins:
            return self._one_of([terms[0], *self._stems_of(self._words.holding(plain, begins=True, most=200))], 1.0)
        asked = [self._both(terms)]
        if word.phrase or word.excluded or self._exact:
            return asked[0]
        asked += [self._boosted(self._both(self._keywords.stems(piece)), PIECE) for piece in camel_pieces(text.strip())]
        often = self._searcher.doc_freq("body", terms[0])
        if often <= RARE and plain.isalnum():
            inside = [stem for stem in self._stems_of(self._words.holding(plain, most=MOST_INSIDE)) if stem != terms[0]]
            if inside:
                asked.append(self._one_of(inside, INSIDE))
            elif not often and len(plain) > 3:
                asked.append(self._misspelt(terms[0]))
        return any_of(asked)

    def _misspelt(self, term: str) -> tantivy.Query:
        found = tantivy.Query.fuzzy_term_query(self._schema, "body", term, distance=1)
        return self._boosted(found, WRONG)

    def _stems_of(self, words: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(stem for word in words for stem in self._keywords.stems(word)))

    def _one_of(self, terms: Sequence[str], weight: float) -> tantivy.Query:
        """Any of several words that stand for one: the best counts, not their sum."""
        self.lit.update(terms)
        queries = [self._term("body", term) for term in terms] + [self._term("name", term) for term in terms]
        found = tantivy.Query.disjunction_max_query(queries) if len(queries) > 1 else queries[0]
        return self._boosted(found, weight)

    def _both(self, terms: Sequence[str]) -> tantivy.Query:
        """In a message, or in the name of a session."""
        if len(terms) == 1:
            return any_of([self._term("body", terms[0]), self._boosted(self._term("name", terms[0]), NAME)])
        phrase = tantivy.Query.phrase_query
        words: list[str | tuple[int, str]] = list(terms)
        return any_of([
            phrase(self._schema, "body", words), self._boosted(phrase(self._schema, "name", words), NAME)
        ])  # fmt: skip

    def _row(self, row: str, *, whole: bool) -> tantivy.Query:
        """Signs that stand side by side: all of them in a row, and (unless only that counts) each two."""
        signs: list[str | tuple[int, str]] = list(row[:LONGEST_ROW])
        self.lit.add(row)
        if len(signs) == 1:
            return self._term("signs", row)
        asked = [tantivy.Query.phrase_query(self._schema, "signs", signs)]
        if len(signs) > 2 and not whole:
            pairs = dict.fromkeys(row[place : place + 2] for place in range(min(len(row), LONGEST_ROW) - 1))
            asked += [
                self._boosted(tantivy.Query.phrase_query(self._schema, "signs", list(two)), PIECE) for two in pairs
            ]
            self.lit.update(pairs)
        return any_of(asked)

    def _term(self, field: str, term: str) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, term, index_option="freq")

    def _boosted(self, query: tantivy.Query, weight: float) -> tantivy.Query:
        return query if weight == 1.0 else tantivy.Query.boost_query(query, weight)


def restricted_to(keywords: Keywords, field: str, values: Sequence[object]) -> tantivy.Query:
    """Documents with one of these values; it does not count for the score."""
    query = tantivy.Query.term_set_query(keywords.schema, field, values)
    return tantivy.Query.const_score_query(query, 0.0)


def between(keywords: Keywords, first: int, last: int) -> tantivy.Query:
    """Documents of a time."""
    query = tantivy.Query.range_query(
        keywords.schema, "time", tantivy.FieldType.Unsigned, lower_bound=max(0, first), upper_bound=last
    )
    return tantivy.Query.const_score_query(query, 0.0)
