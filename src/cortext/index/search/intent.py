"""What a question asks for besides its words: a decision, or something said at a certain time.

"What did we decide about retries last month" is about retries; that it was decided, and when, only orders the results.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cortext.index.search.named_time import Released, named_time
from cortext.index.search.words import FUNCTION_WORDS, STOP

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
    time in words of the subject ("in March"): a message may have them, too. `person` is who decided or said it.
    """

    subject: str
    decision: bool
    when: tuple[int, int] | None
    unclear: str = ""
    calendar: str = ""
    person: str = ""


def intent_of(text: str, released: Released = lambda version: 0) -> Intent:
    """Return what a question asks for. If nothing would be left of it, the subject is the whole text.

    Only "what did we talk about yesterday" has no subject.
    """
    subject, span, unclear, calendar = named_time(text, released)
    if not _SOMETHING.search(subject):
        return Intent(text, False, span, unclear, text if len(text.split()) > 1 else "")  # "since yesterday"
    lead, person = _LEAD.match(subject), ""
    if not lead:
        lead, person = _by_name(subject)
    if not lead:
        return Intent(subject, False, span, unclear, calendar)
    groups = lead.groupdict()
    rest = subject[lead.end() :]
    tail = _TAIL.search(rest)
    settled = any(groups.get(name) for name in ("settled", "by", "passive", "noun"))
    decision = settled or (tail is not None and tail["settled"] is not None)
    rest = _TAIL.sub(" ", _LINK.sub(" ", rest, count=1) if _LINK.match(rest) else rest)
    rest = f"{groups.get('object') or groups.get('german') or ''} {rest}".strip()
    if not _SOMETHING.search(rest) and (decision or person or span is None):
        rest, person = person or subject, ""
    return Intent(rest, decision, span, unclear, calendar, person)


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
