"""Translate a parsed query into a tantivy query.

Every word is a term of its own, and messages with more and rarer terms rank first. A rare or unknown word also matches
inside longer words and, if that finds nothing, with one letter wrong, or two in a long word. Messages and the names of
sessions are asked separately: among a million messages, no name would be in the first few hundred.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import tantivy

from cortext.index.search.fuse import At
from cortext.index.search.keywords import Keywords, WordList, any_of
from cortext.index.search.query import ENDS, ParsedQuery, Word
from cortext.index.search.words import FUNCTION_WORDS, SIGNS, STOP, WORD, camel_pieces, clean, is_thing

RARE = 1_000  # a word in more messages than this is not matched inside longer words
INSIDE = 0.4  # weight of a longer word that contains the one asked for
PIECE = 0.5  # weight of a piece of an identifier, relative to the whole
WRONG = 0.3  # weight of a word with one letter wrong
LONG = 8  # letters of a word in which two may be wrong
MOST_INSIDE = 24
MESSAGES, NAMES = "body", "name"  # the fields that words are looked up in
LEAST_IN_A_ROW, MOST_IN_A_ROW = 2, 24  # words of a query that are also looked for in their order; of more, both ends
MOST_BEGUN = 50  # words that one that is being typed may become, if it is the last of several
FEW_WRITTEN = 20  # messages with the words of a thing in a row: as few are read to see whether it is written there
LONGEST_ROW = 24  # characters of an unspaced run that are matched together
_PARTS_OF_A_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)+")

Should, Must, MustNot = tantivy.Occur.Should, tantivy.Occur.Must, tantivy.Occur.MustNot


class QueryBuilder:
    """Builds one query against one state of the index."""

    def __init__(self, keywords: Keywords, words: WordList, *, exact: bool) -> None:
        self._keywords, self._words, self._exact, self._field = keywords, words, exact, MESSAGES
        self._forms: dict[str, set[str]] = {}  # by word, the terms that it matches
        self._spellings: dict[str, tuple[list[str], float]] = {}  # what else a word may be, and how much that counts
        self._nearest: dict[str, str] = {}  # by word that does not occur, the one that contains it or is spelled alike
        self._schema = keywords.schema
        self._searcher = keywords.searcher()
        self.lit: set[str] = set()  # the terms to highlight in a snippet

    def build(
        self, query: ParsedQuery, restrictions: Sequence[tuple[tantivy.Occur, tantivy.Query]], field: str = MESSAGES
    ) -> tantivy.Query | None:
        """Return the whole query over messages or names, or None if it has neither words nor restrictions."""
        self._field = field
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

    def occurs(self, query: ParsedQuery) -> bool:
        """Whether any significant word of the query occurs; stop words count only if there are no others."""
        significant = [word for word in query.wanted if word.text.lower() not in STOP]
        if not significant or len(significant) == len(query.wanted):
            return True
        for word in significant:
            text = clean(word.text)
            terms = self._keywords.stems(SIGNS.sub(" ", text))
            if SIGNS.search(text) or any(
                self._searcher.doc_freq(name, term) for term in terms for name in (MESSAGES, NAMES)
            ):
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
        forms = set(terms)
        if not word.excluded:
            self.lit.update(terms)
            self._forms[word.text] = forms
        if len(terms) > 1:
            whole = self._in_a_row(terms)
            if word.phrase or word.excluded or word.must:
                return whole
            # An identifier or a path: its pieces next to each other, or at least some of them. Pieces that are
            # everywhere (`src`, `py`) carry no information by themselves and cost the most.
            often = self._searcher.num_docs // 50 + RARE
            significant = [term for term in dict.fromkeys(terms) if self._searcher.doc_freq(MESSAGES, term) <= often]
            pieces = [self._boosted(self._in_a_row([term]), PIECE) for term in significant]
            return any_of([whole, *pieces])
        plain = text.strip().lower()
        if word.begins:
            begin = self._stems_of(self._words.holding(plain, begins=True, most=200))
            forms.update(begin)
            return self._one_of([terms[0], *begin], 1.0)
        asked = [self._in_a_row(terms)]
        if word.phrase or word.excluded or self._exact:
            return asked[0]
        for piece in camel_pieces(text.strip()):
            stems = self._keywords.stems(piece)
            forms.update(stems)
            asked.append(self._boosted(self._in_a_row(stems), PIECE))
        often = self._searcher.doc_freq(MESSAGES, terms[0])
        if often <= RARE and plain.isalnum() and plain not in STOP and plain not in FUNCTION_WORDS:
            if plain not in self._spellings:
                self._spellings[plain] = self._others(plain, terms[0], known=often > 0)
            others, weight = self._spellings[plain]
            if others:
                forms.update(others)
                asked.append(self._one_of(others, weight))
        return any_of(asked)

    def absent(self, query: ParsedQuery) -> dict[str, str]:
        """Return what of the query occurs in no message and no name, by what was looked for instead (or empty).

        A word occurs if it is a part of a longer one; one that is being typed, if any begins with it. A path, an
        identifier, a quoted phrase or an error occurs as a whole or not at all; an identifier may be spelled in another
        way (`parseReply`, `parse_reply`). Words that name a time are not absent: messages of that time need not have
        them.
        """
        gone: dict[str, str] = {}
        if query.error is not None and not self._occurs_whole(query.error):
            gone[query.error.text] = ""
        for word in query.wanted:
            text = word.bare
            is_several = bool(SIGNS.search(text)) and not word.phrase  # words without spaces between them
            if not (is_several or _names_time(word, query) or self._occurs_whole(word)):
                gone[text] = self._nearest.get(text.lower(), "")
        return gone

    def _occurs_whole(self, word: Word) -> bool:
        """Whether a message or a name has this text: all of its words in a row."""
        said = clean(word.bare)
        if any(not self._occurs(self._row(row, whole=True)) for row in SIGNS.findall(said) if row):
            return False
        plain = SIGNS.sub(" ", said).strip()
        terms = self._keywords.stems(plain)
        if not terms:
            return True
        rows = self._rows(word)
        if len(terms) == 1 and not word.begins:
            rows += [[term] for term in self._stems_of(self._words.holding(plain.lower()))]
        elif len(terms) > 1 and _PARTS_OF_A_WORD.fullmatch(plain) and not is_thing(plain):
            rows += [[term] for term in terms]  # "it's", "cursor-based": a part of it is enough
        if not word.phrase:  # of a stack trace that was pasted, its beginning or its end is enough
            rows = [end for row in rows for end in _ends(row)]
        return any(self._occurs(self._in_a_row(row, name)) for row in rows for name in (MESSAGES, NAMES))

    def _rows(self, word: Word) -> list[list[str]]:
        """Return the terms in a row by which a text has a word as a whole; those of its other spellings, too.

        The last of a word that is being typed stands for any that begins with it, or is left out if these are many.
        """
        plain = SIGNS.sub(" ", clean(word.bare)).strip()
        texts = [plain]
        if not plain.split()[1:]:
            texts += [" ".join(camel_pieces(plain)), "".join(WORD.findall(plain))]
        rows: list[list[str]] = []
        for text in dict.fromkeys(texts):
            terms = self._keywords.stems(text)
            if not word.begins:
                rows.append(terms)
                continue
            *_, last = WORD.findall(text.lower()) or [""]
            begun = self._words.holding(last, begins=True, most=MOST_BEGUN)
            is_any = len(begun) == MOST_BEGUN and len(terms) > 1
            ends = dict.fromkeys([*terms[-1:], *self._stems_of(begun)])
            rows += [terms[:-1]] if is_any else [[*terms[:-1], one] for one in ends]
        return [row for row in rows if row]

    def few(self, word: Word) -> list[At]:
        """Return the messages with the words of a thing in a row, if these are few and no name has them; else none."""
        rows = self._rows(word)
        if any(self._occurs(self._in_a_row(row, NAMES)) for row in rows):
            return []
        asked = any_of([self._in_a_row(row, MESSAGES) for row in rows])
        if len(self._searcher.search(asked, FEW_WRITTEN + 1, count=False).hits) > FEW_WRITTEN:
            return []
        return [(key, place >> 1) for key, place, _ in self._keywords.search(asked, FEW_WRITTEN + 1)]

    def _occurs(self, query: tantivy.Query) -> bool:
        return bool(self._searcher.search(query, 1, count=False).hits)

    def share(self, query: ParsedQuery, rarity: Callable[[str], float]) -> Callable[[str], float]:
        """Return what says how much of the query is in a text, from 0 to 1; rare words count more.

        Words that name a time or a speaker do not count: what was said then, or by them, need not have them.
        """
        wanted = [word for word in query.wanted if not _names_time(word, query) and not _names_person(word, query)]
        wanted = wanted or query.wanted
        words = [(rarity(word.text), self._forms.get(word.text, set()), _pairs(word.text)) for word in wanted]
        whole = sum(weight for weight, _, _ in words)

        def of(text: str) -> float:
            said = set(self._keywords.stems(text))
            has = sum(
                weight
                for weight, forms, pairs in words
                if not forms.isdisjoint(said) or any(pair in text for pair in pairs)
            )
            return has / whole if whole else 1.0

        return of

    def whole(
        self, query: ParsedQuery, restrictions: Sequence[tuple[tantivy.Occur, tantivy.Query]]
    ) -> tantivy.Query | None:
        """Return what finds the words of a query in their order, or one of its things; None if it has neither."""
        terms = self._keywords.stems(query.error.text if query.error is not None else query.said)
        rows: list[tuple[list[str], int]] = []
        if not query.demands and len(terms) >= LEAST_IN_A_ROW:
            rows += [(end, 1 + len(end) // 4) for end in _ends(terms)]
        rows += [(row, 0) for thing in query.things for row in self._rows(thing)]
        found = [self._in_a_row(row, MESSAGES, slop) for row, slop in rows]
        return tantivy.Query.boolean_query([(Must, any_of(found)), *restrictions]) if found else None

    def _others(self, plain: str, term: str, *, known: bool) -> tuple[list[str], float]:
        """Return the terms that contain a word or, if it is not known, those that are spelled nearly like it."""
        longer = self._words.holding(plain, most=MOST_INSIDE)
        inside = [stem for stem in self._stems_of(longer) if stem != term]
        if inside or known or len(plain) <= 3:
            if inside and not known:
                self._nearest[plain] = longer[0]
            return inside, INSIDE
        similar = self._words.similar(plain, 2 if len(plain) >= LONG else 1)
        if similar:
            self._nearest[plain] = similar[0]
        return self._stems_of(similar), WRONG

    def respelled(self, said: str, has_meaning: Callable[[str], bool]) -> str:
        """Return a text with words as messages have them, if they occur nowhere and have no meaning of their own."""
        return " ".join(
            word if has_meaning(word) else self._nearest.get(word.strip(ENDS).lower(), word) for word in said.split()
        )

    def _stems_of(self, words: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(stem for word in words for stem in self._keywords.stems(word)))

    def _one_of(self, terms: Sequence[str], weight: float) -> tantivy.Query:
        """Match any of several spellings of one word: the best one counts, not their sum."""
        self.lit.update(terms)
        queries = [self._term(self._field, term) for term in terms]
        found = tantivy.Query.disjunction_max_query(queries) if len(queries) > 1 else queries[0]
        return self._boosted(found, weight)

    def _in_a_row(self, terms: Sequence[str], field: str = "", slop: int = 0) -> tantivy.Query:
        """Match one term, or several next to each other, or with `slop` others between them."""
        if len(terms) == 1:
            return self._term(field or self._field, terms[0])
        words: list[str | tuple[int, str]] = list(terms)
        return tantivy.Query.phrase_query(self._schema, field or self._field, words, slop=slop)

    def _row(self, row: str, *, whole: bool) -> tantivy.Query:
        """Match a run of unspaced characters: all in order and, unless `whole`, every adjacent pair."""
        signs: list[str | tuple[int, str]] = list(row[:LONGEST_ROW])
        self.lit.add(row)
        if len(signs) == 1:
            return self._term("signs", row)
        asked = [tantivy.Query.phrase_query(self._schema, "signs", signs)]
        if len(signs) > 2 and not whole:
            pairs = dict.fromkeys(row[start : start + 2] for start in range(min(len(row), LONGEST_ROW) - 1))
            asked += [
                self._boosted(tantivy.Query.phrase_query(self._schema, "signs", list(two)), PIECE) for two in pairs
            ]
            self.lit.update(pairs)
        return any_of(asked)

    def _term(self, field: str, term: str) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, term, index_option="freq")

    def _boosted(self, query: tantivy.Query, weight: float) -> tantivy.Query:
        return query if weight == 1.0 else tantivy.Query.boost_query(query, weight)


def _ends(row: list[str]) -> list[list[str]]:
    """Return a row, or the first and the last words of one that is too long to be looked for in its order."""
    return [row] if len(row) <= MOST_IN_A_ROW else [row[:MOST_IN_A_ROW], row[-MOST_IN_A_ROW:]]


def _pairs(text: str) -> list[str]:
    """Return the adjacent pairs of characters in the unspaced runs of a text; a single character as it is."""
    return [row[start : start + 2] for row in SIGNS.findall(clean(text)) for start in range(max(1, len(row) - 1))]


def restricted_to(keywords: Keywords, field: str, values: Sequence[object]) -> tantivy.Query:
    """Match documents with one of these values, without affecting the score."""
    query = tantivy.Query.term_set_query(keywords.schema, field, values)
    return tantivy.Query.const_score_query(query, 0.0)


def between(keywords: Keywords, first: int, last: int) -> tantivy.Query:
    """Match documents in a range of times, without affecting the score."""
    query = tantivy.Query.range_query(
        keywords.schema, "time", tantivy.FieldType.Unsigned, lower_bound=max(0, first), upper_bound=last
    )
    return tantivy.Query.const_score_query(query, 0.0)


def _names_time(word: Word, query: ParsedQuery) -> bool:
    return word.bare.lower() in query.calendar


def _names_person(word: Word, query: ParsedQuery) -> bool:
    return word.bare.lower() in query.person
