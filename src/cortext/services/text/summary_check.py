"""Checking what an agent says of a conversation: only what was said in it is kept, and only the user decides.

A line is checked as a whole: its length, and whether every name, path, number and quotation in it was said. A decision
must be one of the user: chosen in the user's own words, or agreed to. A line that fails is dropped, never shortened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cortext.model.asides import OWN_CALL, is_beside
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import BY_AGENT, DETAILS, Change, Details
from cortext.services.text.decisions import ASKS_USER
from cortext.services.text.sentences import sentences, terms, text_of
from cortext.services.text.threads import StoredThread
from cortext.store.base import Store

LONGEST_SUMMARY, LONGEST_LINE = 400, 300  # characters
MOST_SENTENCES, MOST_LINES = 2, 8
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]{2,})\"|“([^”]{2,})”|«([^»]{2,})»|„([^“]{2,})“|「([^」]{2,})」")
_PATH = re.compile(r"[\w~.@-]*/[\w./@-]*\w|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{1,5}\b")
_IDENTIFIER = re.compile(r"\b\w+_\w+\b|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z]+[A-Z]\w*\b|\b[A-Z][A-Z0-9]+\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*")
_NAME = re.compile(r"(?<=[a-zäöüéèàñ,;:] )[A-ZÄÖÜ][\w-]+")
_ABBREVIATED = ("e.g", "i.e", "etc")
_BY_AGENT = re.compile(
    r"\b(?:agent|assistant|model|claude|codex|gemini|opencode|copilot|aider|the ai|i) (?:has |have )?"
    r"(?:decided|chose|picked|settled)\b",
    re.IGNORECASE,
)
_AGREES = re.compile(
    r"\s*(?:yes|yeah|yep|ok(?:ay)?|sure|agreed|sounds good|great|perfect|good|fine|do (?:it|that|so|both)|go (?:ahead"
    r"|for|on|with)|please do|correct|right|exactly|makes sense|approved?|lgtm|continue|ship it|deal|ja|genau"
    r"|einverstanden|passt|mach|oui|d'accord|sí|vale|de acuerdo)\b|\s*(?:好|はい|同意|可以|対|对)",
    re.IGNORECASE,
)


class CheckedSummary(msgspec.Struct, kw_only=True):
    """What is kept of what an agent said, and each line that is not, with the reason."""

    summary: str = ""
    details: Details = msgspec.field(default_factory=Details)
    dropped: list[str] = []


class _Line(msgspec.Struct):
    """A line that is checked: which of its facts were not found yet, and whether the user decided it."""

    text: str
    missing: set[str]
    words: frozenset[str]
    problem: str = ""
    is_decision: bool = False
    is_proposed: bool = False  # the agent's last answer names it
    is_decided: bool = False

    @property
    def why_not(self) -> str:
        """Why it is dropped; empty if it is kept."""
        if self.problem:
            return self.problem
        if self.missing:
            return f"not in the conversation: {', '.join(sorted(self.missing))}"
        return "the user did not decide that" if self.is_decision and not self.is_decided else ""


def check_summary(summary: str, details: Details, messages: Iterable[Message]) -> CheckedSummary:
    """Return what the messages bear out of a summary and its details."""
    head = _line(summary, LONGEST_SUMMARY)
    if len(sentences(head.text)) > MOST_SENTENCES:
        head.problem = f"more than {MOST_SENTENCES} sentences"
    named = {name: [_line(text) for text in lines] for name, lines in details.by_name().items()}
    for line in named["decided"]:
        line.is_decision = True
    every = [line for lines in ([head], *named.values()) for line in lines]
    _look_up(every, messages)
    kept = {name: [one.text for one in lines if not one.why_not][:MOST_LINES] for name, lines in named.items()}
    labels = [("summary", head), *((name, line) for name, lines in named.items() for line in lines)]
    dropped = [f'{name} ({line.why_not}): "{line.text}"' for name, line in labels if line.text and line.why_not]
    dropped += [
        f'{name} (more than {MOST_LINES} lines): "{line.text}"'
        for name, lines in named.items()
        for line in [one for one in lines if not one.why_not][MOST_LINES:]
    ]
    return CheckedSummary(summary="" if head.why_not else head.text, details=Details.of(kept), dropped=dropped)


def describe(store: Store, session_id: str, summary: str, details: Details) -> list[str]:
    """Store what an agent says of a conversation, as far as the conversation bears it out; return what is dropped."""
    session = store.get(session_id)
    checked = check_summary(summary, details, StoredThread(store, session_id, whole=True))
    change = Change()
    if checked.summary:
        change.summary, change.summary_by, change.summary_covers = checked.summary, BY_AGENT, session.line_count
    if any(checked.details.by_name().values()) and (checked.summary or session.summary_by == BY_AGENT):
        change.extra = {DETAILS: msgspec.to_builtins(checked.details)}
    if change != Change():
        store.update(session_id, change)
    return checked.dropped


def facts_in(text: str) -> set[str]:
    """Return the names, paths, numbers and quoted words of a text."""
    quoted = {" ".join(next(filter(None, found)).split()) for found in _QUOTED.findall(text)}
    rest = _QUOTED.sub(" ", text)
    found = {match for pattern in (_PATH, _IDENTIFIER, _NUMBER, _NAME) for match in pattern.findall(rest)}
    return quoted | {fact for fact in found if fact.lower() not in _ABBREVIATED}


def _line(text: str, longest: int = LONGEST_LINE) -> _Line:
    text = " ".join(text.split())
    line = _Line(text, facts_in(text), terms(text))
    if len(text) > longest:
        line.problem = f"longer than {longest} characters"
    elif _BY_AGENT.search(text):
        line.problem = "decisions are the user's"
    return line


def _look_up(lines: Iterable[_Line], messages: Iterable[Message]) -> None:
    """Note which facts the messages hold, and which decisions are the user's."""
    ours: set[str] = set()  # our own calls, with which the agent hands over these very lines
    asked: set[str] = set()  # calls with which the agent asked the user
    waiting = [line for line in lines if line.missing or line.is_decision]
    for message in messages:
        if is_beside(message):
            continue
        calls = message.parts_of(TOOL_CALL)
        ours |= {part.id for part in calls if part.id and OWN_CALL.search(f"{part.name} {_words(part.input)}")}
        asked |= {part.id for part in calls if ASKS_USER.search(part.name)}
        parts = [part for part in message.parts or () if part.id not in ours and part.call_id not in ours]
        held = _flat(" ".join((message.content, *map(_text_in, parts))))
        for line in waiting:
            line.missing = {fact for fact in line.missing if not _is_in(fact, held)}
        if not message.aside:
            chosen = [part.output for part in parts if part.type == TOOL_RESULT and part.call_id in asked]
            by_user = "\n".join([text_of(message), *chosen] if message.role == USER else chosen)
            for line in (line for line in waiting if line.is_decision and not line.is_decided):
                _decide(line, by_user, text_of(message) if message.role == ASSISTANT else "")


def _decide(line: _Line, by_user: str, by_agent: str) -> None:
    """Note if the user chooses what the line says, or agrees to it after the agent has named it."""
    if by_user.strip():
        stated = " ".join(one for one in sentences(by_user) or [by_user] if not one.endswith(("?", "？")))
        agrees = line.is_proposed and _AGREES.match(by_user) is not None
        line.is_decided = agrees or _shares(line, stated)
        line.is_proposed = False
    if by_agent:
        line.is_proposed = line.is_proposed or _shares(line, by_agent)


def _shares(line: _Line, text: str) -> bool:
    """Whether a text has enough of the words of a line to be about the same."""
    shared = len(line.words & terms(text))
    return shared >= min(2, len(line.words)) and shared * 4 >= len(line.words) and shared > 0


def _text_in(part: Part) -> str:
    return f"{part.text} {part.name} {_words(part.input)} {part.output}"


def _words(value: Any) -> str:
    """Return the texts in a call's input, one after the other."""
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_words, value))
    return str(value) if value is not None else ""


def _flat(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", " ".join(text.split())).casefold()


def _is_in(fact: str, held: str) -> bool:
    """Whether a text holds a fact as a whole word; of a path with several names, each may stand by itself."""
    wanted = _flat(fact)
    if wanted not in held:
        names = wanted.split("/") if "/" in wanted else []
        return len(names) > 1 and all(name in held for name in names)
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", held) is not None or not wanted.isascii()
