"""A query as people type it: words, "a phrase", prefix*, +required, -excluded, and filters such as `tool:claude`.

No query is an error: what is not valid syntax is treated as a word.

And what a question asks for besides its words (`Intent`): a decision, something said at a certain time, where something
was left. "What did we decide about retries last month" is about retries; that it was decided, and when, only orders the
results.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

from cortext.index.search.frames import MODEL, USER, WORK, frame_of, says_something
from cortext.index.search.named_time import EVER, Released, named_time
from cortext.index.search.words import FUNCTION_WORDS, STOP, WORD, function_words, is_thing
from cortext.model.query import FILTERS, is_valid, written

LONGEST = 4_000  # characters that are parsed: anything longer is a text to compare with, not a query
MOST_WORDS = 64
LEAST_OF_ERROR = 3  # words of an error message that is looked for as a whole
ENDS = ".,;:!?()"  # at the end of a word, they belong to the sentence
BEGINS = ENDS.replace(".", "")  # not of `.gitignore`

# A sign counts only directly before a word: `--amend` excludes nothing.
_PIECE = re.compile(r'((?:[+-](?=["\w]))?)(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))')
# What a program prints with an error: its name, a code, "error:", a place in a file, or how such a sentence begins.
_ERROR = re.compile(
    r"\b[A-Z]\w*(?:Error|Exception|Warning|Fault)\b|\bE[A-Z]{3,}\b|\b(?:error|fatal|panic|failed)(?:\[\w+\])?:"
    r"|\w\.\w+:\d+|^(?:Cannot|Could not|Can't|Failed to|Unable to|No such|Permission denied|Undefined|Unexpected)\b"
)


class Word:
    """One word or phrase of a query. `must` and `excluded` stand for + and -; a phrase is always required."""

    __slots__ = ("begins", "excluded", "must", "phrase", "text")

    def __init__(self, text: str, *, phrase: bool, begins: bool, must: bool, excluded: bool) -> None:
        self.text, self.phrase, self.begins, self.must, self.excluded = text, phrase, begins, must, excluded

    @property
    def bare(self) -> str:
        """Its text without the signs of the sentence around it; a phrase is as it was quoted."""
        return self.text if self.phrase else self.text.rstrip(ENDS).lstrip(BEGINS)

    def unquoted(self) -> Word:
        """Return it as an ordinary word."""
        return Word(self.text, phrase=False, begins=False, must=self.must, excluded=self.excluded)

    def __repr__(self) -> str:
        marks = [name for name in ("phrase", "begins", "must", "excluded") if getattr(self, name)]
        return f"Word({self.text!r}{''.join(', ' + mark for mark in marks)})"


class ParsedQuery:
    """A parsed query; `said` is its text for the comparison by meaning, `asked` the question as typed.

    `intent` is what it asks for besides its words. `error` is the query if it is an error as a program prints it: then
    it is looked for as a whole, too.
    """

    def __init__(
        self,
        words: list[Word],
        filters: dict[str, str],
        said: str,
        *,
        asked: str,
        intent: Intent,
        error: Word | None,
    ) -> None:
        self.words, self.filters, self.said = words, filters, said
        self.asked, self.intent, self.error = asked, intent, error

    @cached_property
    def calendar(self) -> frozenset[str]:
        """The words that name the time: a message that answers need not have them."""
        return frozenset(WORD.findall(self.intent.calendar.lower()))

    @cached_property
    def person(self) -> frozenset[str]:
        """The words that name who decided or said it: a message that answers need not have them."""
        return frozenset(self.intent.person.lower().split())

    @property
    def demands(self) -> bool:
        """Whether some word is required or excluded."""
        return any(word.must or word.phrase or word.excluded for word in self.words)

    @property
    def wanted(self) -> list[Word]:
        """The words that are not excluded."""
        return [word for word in self.words if not word.excluded]

    @property
    def things(self) -> list[Word]:
        """Its identifiers, paths, versions and hashes: what is found as a whole first, and then in parts."""
        return [word for word in self.wanted if is_thing(word.bare)]

    def unquoted(self) -> ParsedQuery | None:
        """Return the query with its phrases as ordinary words; None if it has none."""
        quoted = [word for word in self.wanted if word.phrase and not word.must]
        if not quoted:
            return None
        other = copy(self)
        other.words = [word.unquoted() if word in quoted else word for word in self.words]
        return other

    def by_model(self) -> ParsedQuery | None:
        """Return the query for what the model said, if it asks what the user worked on at a time; else None."""
        if not self.intent.is_only_work or self.filters.get("role") != USER:
            return None
        other = copy(self)
        other.filters = {**self.filters, "role": MODEL}
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
    has_more = [any(piece[:3]) for piece in pieces]
    intent = intent_of(plain, released, is_beginning=not any(has_more[:1]), has_more=any(has_more))
    about = _about(f"{intent.person} {intent.subject}", pieces)
    words = [word for piece in about if (word := _word(piece)) is not None]
    empty = STOP | (function := function_words(set(WORD.findall(plain.lower()))))
    unsaid = function | set(intent.person.lower().split())  # a name has no meaning
    said = [word.text for word in words if not word.excluded and word.text.lower() not in unsaid]
    significant = [word for word in words if word.phrase or word.must or word.excluded or not _is_stop(word, empty)]
    calendar = frozenset(WORD.findall(intent.calendar.lower()))
    is_dated = not found.keys().isdisjoint(("after", "before"))
    if intent.when is not None and not is_dated and _is_only_time(significant, calendar):
        span = zip(("after", "before"), intent.when, strict=True)  # "what did we do yesterday": all of that time
        found |= {name: written(at, ".000Z") for name, at in span if at not in EVER}
        words, significant = [], []
    if intent.is_only_work:
        found.setdefault("role", USER)  # what tools printed says little about a day's work
    if not any(not word.excluded for word in significant):
        significant = words
    given = {name: value for name, value in (filters or {}).items() if value}
    return ParsedQuery(
        significant[:MOST_WORDS],
        found | given,
        " ".join(said),
        asked=plain,
        intent=intent,
        error=_error(about if intent.view else pieces),
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


def _error(pieces: Sequence[_Piece]) -> Word | None:
    """Return the query if it is an error as a program prints it; None if it is a question, or has words to require."""
    said = " ".join(
        f"{sign}{name}:{bare}" if name else f"{sign}{quoted or bare}" for sign, name, quoted, bare in pieces
    )
    is_one = _ERROR.search(said) and not said.endswith("?") and not any(quoted for _, _, quoted, _ in pieces)
    if not is_one or len(WORD.findall(said)) < LEAST_OF_ERROR:
        return None
    begins = said.endswith("*") and said[-2:-1].isalnum()
    return Word(said.rstrip("*") if begins else said, phrase=False, begins=begins, must=False, excluded=False)


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


# ── what a question asks for ─────────────────────────────────────────────────────────────────────────

_SETTLED = (
    r"decid(?:e|ed|ing)|agreed?|settled?|concluded?|choose|chosen?|pick(?:ed)?|land(?:ed)?|"
    r"end(?:ed)?\s+up|go(?:ne)?\s+with"
)
_SAID = r"say|said|discuss(?:ed)?|talk(?:ed)?|mention(?:ed)?"
_WE = r"(?:we|i|you|he|she|they|the team|anyone|everyone|everybody|somebody|someone)"
_NOUN = r"(?:decisions?|agreements?|conclusions?)"
_REMIND = r"(?:(?:please\s+|can you\s+)?(?:remind me|tell me)\s+(?:of\s+|about\s+)?|do you (?:remember|know)\s+)?"
_LEAD = re.compile(
    rf"{_REMIND}(?:"
    rf"(?:(?:what|which|why|how|when|where)\b(?P<object>.{{0,40}}?)\s)?(?:(?:did|do|have|had|has)\s+)?{_WE}\s+"
    rf"(?:have\s+|had\s+)?(?:ever\s+|finally\s+|already\s+)?(?:(?P<settled>{_SETTLED})|{_SAID})\b"
    rf"|who\s+(?P<by>{_SETTLED})\b"
    r"|what(?:\s+(?:was|has been|were|got)|['’]s\s+been)\s+(?:finally\s+)?"
    r"(?:(?P<passive>decided|agreed|settled|chosen|concluded)|said|discussed)\b"
    rf"|(?:what(?:\s+(?:was|is|were|are)|'s|’s)\s+)?(?:the|our|any|all)?\s*(?P<noun>{_NOUN})"
    r"(?:\s+(?:made|taken|reached))?(?=\s+(?:about|on|for|regarding|concerning|with))"
    r"|(?:was|wie|wann|warum|wieso|wofür|wogegen|worüber|worauf|welche[mnrs]?)\b(?P<german>.{0,40}?)\s"
    r"(?:haben|hatten)\s+wir\b|(?:was|wie)\s+wurde\b"
    r"|(?:qu['’]|que\s|quoi\s|comment\s|pourquoi\s)?(?:avons|avions)[- ]nous\b"
    r"|qu['’]est-ce\s+(?:qu['’]on\s+a|que\s+nous\s+avons)\b|(?:qu['’]|(?:pourquoi|comment|quand)\s+)a-t-(?:on|il|elle)\b"
    r")",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"\s*(?:\b(?:on|about|to|for|with|regarding|concerning|upon|that|over|doing|do)\b\s*)+", re.IGNORECASE
)
# In German and French, the verb that says whether it is about a decision comes at the end.
_TAIL = re.compile(
    r"\s*\b(?:(?P<settled>entschieden|beschlossen|vereinbart|festgelegt|gewählt|geeinigt|décidé|convenu|choisi)|"
    r"besprochen|gesprochen|gesagt|gemeint|erwähnt|dit|discuté)\b[\s?.!]*",
    re.IGNORECASE,
)
# Somebody by name: "alice", "Alice Smith", "Alice and Bob", "the customer".
_ONE = r"(?:(?:the|our|der|die|das|unsere?|le|la|notre)\s+)?[^\W\d][\w.-]*(?:\s+(?-i:[A-Z])[\w.-]*)?"
_NAME = rf"(?P<name>{_ONE}(?:\s+(?:and|und|et)\s+{_ONE})?)"
_ENDING = rf"(?=.*{_TAIL.pattern})".replace("(?P<settled>", "(?:")
_LATELY = r"(?:ever\s+|finally\s+|already\s+)?"
_ENGLISH_WHO = (
    rf"{_REMIND}(?:(?:what|which|why|how|when|where)\b(?P<object>.{{0,40}}?)\s)?(?:did|has|had|have)\s+{_NAME}\s+"
    rf"{_LATELY}(?:(?P<settled>{_SETTLED})|{_SAID})\b"
)
_ENGLISH_PAST = (
    rf"{_REMIND}(?:what|why|when|where)\s+{_NAME}\s+(?:has\s+|had\s+)?{_LATELY}"
    r"(?:(?P<settled>decided|agreed|settled|concluded|chose|chosen|picked)|said|discussed|mentioned)\b"
)
_ENGLISH_NOUN = (
    rf"(?:what(?:\s+(?:was|is|were|are)|['’]s)\s+)?{_NAME}['’]s\s+(?P<settled>{_NOUN})"
    r"(?=\s+(?:about|on|for|regarding|concerning|with)\b)"
)
_GERMAN_WHO = (
    r"(?:(?:was|wie|wann|warum|wieso|wofür|wogegen|worüber|worauf|welche[mnrs]?)\b(?P<object>.{0,40}?)\s)?"
    rf"(?:hat|hatte|haben|hatten|habe|hast)\s+(?:sich\s+)?{_NAME}\b{_ENDING}"
)
_GERMAN_PAST = (
    r"(?:was|wie|wann|warum|wieso|wofür)\s+(?:(?P<settled>entschied|beschloss|vereinbarte|wählte)|sagte|meinte)n?\s+"
    rf"(?:sich\s+)?{_NAME}\b"
)
_FRENCH_WHO = (
    r"(?:que|quand|pourquoi|comment|où|quel(?:le)?s?\b(?P<object>.{0,40}?))\s+"
    rf"{_NAME}\s+(?:a-t-|avait-|ont-|avaient-)(?:ils?|elles?)\b{_ENDING}"
)
_FRENCH_THAT = rf"qu['’]est-ce\s+qu(?:e\s+|['’]){_NAME}\s+(?:a|ont|avait|avaient)\b{_ENDING}"
_FRENCH_VERB = (
    r"(?:qu['’]|(?:que|quand|pourquoi|comment)\s+)(?:a|ont)\s+"
    rf"(?:(?P<settled>décidé|convenu|choisi)|dit|discuté)\s+{_NAME}\b"
)
_BY_NAME = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        *(_ENGLISH_WHO, _ENGLISH_PAST, _ENGLISH_NOUN),
        *(_GERMAN_WHO, _GERMAN_PAST),
        *(_FRENCH_WHO, _FRENCH_THAT, _FRENCH_VERB),
    )
]
_PRONOUNS = ("ich", "du", "er", "sie", "ihr", "man", "wir", "il", "elle", "ils", "elles", "on", "nous")
_ARTICLES = ("the", "our", "der", "die", "das", "unser", "unsere", "le", "la", "notre", "and", "und", "et")
_SOMETHING = re.compile(r"\w")


class Intent(NamedTuple):
    """What a question asks for: its subject, whether a decision is wanted, and when (two sortable times).

    `unclear` is what sounds like a time ("before the release"), but is none that is known. `calendar` is what names the
    time in words of the subject ("in March"): a message may have them, too. `person` is who decided or said it. `view`
    says how it is best answered (see STATE), `by` whose messages come first, and `time` are the words that name the
    time. All of this only orders what is found.
    """

    subject: str
    decision: bool
    when: tuple[int, int] | None
    unclear: str = ""
    calendar: str = ""
    person: str = ""
    view: str = ""
    by: str = ""
    time: str = ""

    @property
    def is_only_work(self) -> bool:
        """Whether it asks what was done at a time, and for nothing else."""
        return self.view == WORK and self.when is not None and not self.subject


def intent_of(
    text: str, released: Released = lambda version: 0, *, is_beginning: bool = True, has_more: bool = False
) -> Intent:
    """Return what a question asks for. If nothing would be left of it, the subject is the whole text.

    Only "what did we talk about yesterday" has no subject. A frame counts only at the beginning of the query
    (`is_beginning`), and if it has a subject, which may be beside the text (`has_more`), as a phrase is.
    """
    named = named_time(text, released)
    subject, span, unclear, calendar, time = named
    if not _SOMETHING.search(subject):
        return Intent(text, False, span, unclear, text if len(text.split()) > 1 else "", time=time)  # "since yesterday"
    view = by = ""
    if is_beginning:
        frame = frame_of(subject.replace(calendar, " ", 1).strip()) if span is not None and not has_more else None
        if frame and frame.view == WORK and not says_something(frame.subject):
            return Intent("", False, span, unclear, calendar, view=WORK, time=time)
        frame = frame_of(subject)
        if frame and (says_something(frame.subject) or has_more):
            subject, view, by = frame
    lead, person = _LEAD.match(subject), ""
    if not lead:
        lead, person = _by_name(subject)
    if not lead:
        return Intent(subject, False, span, unclear, calendar, "", view, by, time)
    groups = lead.groupdict()
    rest = subject[lead.end() :]
    tail = _TAIL.search(rest)
    settled = any(groups.get(name) for name in ("settled", "by", "passive", "noun"))
    decision = settled or (tail is not None and tail["settled"] is not None)
    rest = _TAIL.sub(" ", _LINK.sub(" ", rest, count=1) if _LINK.match(rest) else rest)
    rest = f"{groups.get('object') or groups.get('german') or ''} {rest}".strip()
    if not _SOMETHING.search(rest) and (decision or person or span is None):
        rest, person = person or subject, ""
    return Intent(rest, decision, span, unclear, calendar, person, view, by, time)


def _by_name(subject: str) -> tuple[re.Match[str] | None, str]:
    """Return the beginning of a question about what somebody decided or said, and who that is."""
    for pattern in _BY_NAME:
        found = pattern.match(subject)
        if found:
            words = [word for word in found["name"].split() if word.lower() not in _ARTICLES]
            if words and not (STOP | FUNCTION_WORDS).isdisjoint(word.lower() for word in words):
                return (found, "") if len(words) == 1 and words[0].lower() in _PRONOUNS else (None, "")
            return (found, " ".join(words)) if words else (None, "")
    return None, ""


def subject_of(text: str) -> str:
    """Return what a question is about: `retries`, of "what did we decide about retries"."""
    return intent_of(text).subject
