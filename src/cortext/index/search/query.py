"""A query as people type it: words, "a phrase", prefix*, +required, -excluded, and filters such as `tool:claude`.

No query is an error: what is not valid syntax is treated as a word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from copy import copy

from cortext.index.search.intent import intent_of
from cortext.index.search.named_time import EVER, Released
from cortext.index.search.words import SIGNS, STOP, WORD, camel_pieces, function_words
from cortext.model.query import FILTERS, is_valid, written

LONGEST = 4_000  # characters that are parsed: anything longer is a text to compare with, not a query
MOST_WORDS = 64
LEAST_OF_ERROR = 3  # words of an error message that is looked for as a whole
SHORT = 3  # characters of "e.g", "1st" and their like
ENDS = ".,;:!?()"  # at the end of a word, they belong to the sentence

# A sign counts only directly before a word: `--amend` excludes nothing.
_PIECE = re.compile(r'((?:[+-](?=["\w]))?)(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))')
# What a program prints with an error: its name, a code, "error:", a place in a file, or how such a sentence begins.
_ERROR = re.compile(
    r"\b[A-Z]\w*(?:Error|Exception|Warning|Fault)\b|\bE[A-Z]{3,}\b|\b(?:error|fatal|panic|failed)(?:\[\w+\])?:"
    r"|\w\.\w+:\d+|^(?:Cannot|Could not|Can't|Failed to|Unable to|No such|Permission denied|Undefined|Unexpected)\b"
)
# Signs inside a word, an option, or letters and digits: no word of a sentence.
_THING = re.compile(r"\w[_./:\\@#]+\w|^--\w|[^\W\d_]\d|\d[^\W\d_]")


class Word:
    """One word or phrase of a query. `must` and `excluded` stand for + and -; a phrase is always required."""

    __slots__ = ("begins", "excluded", "must", "phrase", "text")

    def __init__(self, text: str, *, phrase: bool, begins: bool, must: bool, excluded: bool) -> None:
        self.text, self.phrase, self.begins, self.must, self.excluded = text, phrase, begins, must, excluded

    @property
    def bare(self) -> str:
        """Its text without the signs of the sentence around it; a phrase is as it was quoted."""
        return self.text if self.phrase else self.text.strip(ENDS)

    def unquoted(self) -> Word:
        """Return it as an ordinary word."""
        return Word(self.text, phrase=False, begins=False, must=self.must, excluded=self.excluded)

    def __repr__(self) -> str:
        marks = [name for name in ("phrase", "begins", "must", "excluded") if getattr(self, name)]
        return f"Word({self.text!r}{''.join(', ' + mark for mark in marks)})"


class ParsedQuery:
    """A parsed query; `said` is its text for the comparison by meaning, `asked` the question as typed.

    `decision` says whether it asks for a decision, `when` the span of time it names (two sortable numbers): both only
    order what is found. `unclear` is what sounds like a time, but is none that is known. `calendar` are the words that
    name the time, `person` those that name who decided or said it: a message that answers need not have them. `error`
    is the query if it is an error as a program prints it: then it is looked for as a whole, too.
    """

    def __init__(
        self,
        words: list[Word],
        filters: dict[str, str],
        said: str,
        *,
        asked: str = "",
        decision: bool = False,
        when: tuple[int, int] | None = None,
        unclear: str = "",
        calendar: Collection[str] = (),
        person: frozenset[str] = frozenset(),
        error: str = "",
    ) -> None:
        self.words, self.filters, self.said = words, filters, said
        self.calendar, self.person, self.error = calendar, person, error
        self.asked, self.decision, self.when, self.unclear = asked, decision, when, unclear

    @property
    def demands(self) -> bool:
        """Whether some word is required or excluded."""
        return any(word.must or word.phrase or word.excluded for word in self.words)

    @property
    def wanted(self) -> list[Word]:
        """The words that are not excluded."""
        return [word for word in self.words if not word.excluded]

    @property
    def things(self) -> list[str]:
        """Its identifiers, paths, versions and hashes: what is found as a whole first, and then in parts."""
        words = [word.bare for word in self.wanted if not word.begins and not SIGNS.search(word.text)]
        return [word for word in words if len(word) > SHORT and (_THING.search(word) or camel_pieces(word))]

    def unquoted(self) -> ParsedQuery | None:
        """Return the query with its phrases as ordinary words; None if it has none."""
        quoted = [word for word in self.wanted if word.phrase and not word.must]
        if not quoted:
            return None
        other = copy(self)
        other.words = [word.unquoted() if word in quoted else word for word in self.words]
        return other


def parse(text: str, filters: Mapping[str, str] | None = None, released: Released = lambda version: 0) -> ParsedQuery:
    """Parse a query; filters passed in `filters` override those in the text."""
    found: dict[str, str] = {}
    pieces: list[_Piece] = []
    for sign, name, quoted, bare in _PIECE.findall(text[:LONGEST]):
        value = bare or quoted
        if name in FILTERS and not sign and value and is_valid(name, value):
            found[name] = value
        else:
            pieces.append((sign, name, quoted, bare))
    # What is quoted, required, excluded or named is never part of the question around it.
    plain = " ".join(bare for sign, name, quoted, bare in pieces if not (sign or name or quoted))
    intent = intent_of(plain, released)
    about = _about(f"{intent.person} {intent.subject}", pieces)
    words = [word for piece in about if (word := _word(piece)) is not None]
    empty = STOP | (function := function_words(set(WORD.findall(plain.lower()))))
    person = frozenset(intent.person.lower().split())
    unsaid = function | person  # a name has no meaning
    said = [word.text for word in words if not word.excluded and word.text.lower() not in unsaid]
    significant = [word for word in words if word.phrase or word.must or word.excluded or not _is_stop(word, empty)]
    calendar = frozenset(WORD.findall(intent.calendar.lower()))
    if intent.when is not None and not found and _is_only_time(significant, calendar):
        span = zip(("after", "before"), intent.when, strict=True)  # "what did we do yesterday": all of that time
        found = {name: written(at, ".000Z") for name, at in span if at not in EVER}
        words, significant = [], []
    if not any(not word.excluded for word in significant):
        significant = words
    given = {name: value for name, value in (filters or {}).items() if value}
    return ParsedQuery(
        significant[:MOST_WORDS],
        found | given,
        " ".join(said),
        asked=plain,
        decision=intent.decision,
        when=intent.when,
        unclear=intent.unclear,
        calendar=calendar,
        person=person,
        error=_error(pieces),
    )


_Piece = tuple[str, str, str, str]  # sign, name of a filter, quoted text, bare word


def _about(subject: str, pieces: Iterable[_Piece]) -> list[_Piece]:
    """Return the pieces that a question is about: the words of its subject, and what is more than a word."""
    left = subject.split()
    kept: list[_Piece] = []
    for piece in pieces:
        if left and piece == ("", "", "", left[0]):
            del left[0]
            kept.append(piece)
        elif any(piece[:3]):
            kept.append(piece)
    return kept + [("", "", "", word) for word in left]


def _error(pieces: Iterable[_Piece]) -> str:
    """Return the query if it is an error as a program prints it; empty if it is a question, or has words to require."""
    said = " ".join(
        f"{sign}{name}:{bare}" if name else f"{sign}{quoted or bare}" for sign, name, quoted, bare in pieces
    )
    is_one = _ERROR.search(said) and not said.endswith("?") and not any(quoted for _, _, quoted, _ in pieces)
    return said if is_one and len(WORD.findall(said)) >= LEAST_OF_ERROR else ""


def _word(piece: _Piece) -> Word | None:
    sign, name, quoted, bare = piece
    value = bare or quoted
    begins = bare.endswith("*") and len(bare) > 1
    text = f"{name}:{value}" if name else value
    if not WORD.search(text):
        return None
    return Word(
        text.rstrip("*") if begins else text,
        phrase=bool(quoted) and not name,
        begins=begins,
        must=sign == "+",
        excluded=sign == "-",
    )


def _is_stop(word: Word, empty: Collection[str]) -> bool:
    return not word.begins and all(piece in empty for piece in WORD.findall(word.text.lower()))


def _is_only_time(words: Iterable[Word], calendar: Collection[str]) -> bool:
    """Whether nothing is left of a question but the time it names; a number may be something else."""
    left = [piece for word in words if not word.phrase for piece in WORD.findall(word.text.lower())]
    named = not left or any(piece.isalpha() for piece in left)
    return named and all(piece in calendar for piece in left) and not any(word.phrase or word.must for word in words)
