"""Checking what an agent says of a conversation: only what was said in it is kept, and only the user decides.

A line is checked as a whole: its length, and whether every name, path, number and quotation in it was said. A decision,
also one that a sentence of the summary states, must be one of the user: asked for in the user's own words, or agreed
to, and not turned down since. A line that fails is dropped, never shortened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from cortext.index.search.words import FUNCTION_WORDS, STOP, WORD
from cortext.model.asides import OWN_CALL, is_beside
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import BY_AGENT, DETAILS, Change, Details
from cortext.services.text.decisions import ASKS_USER, VERBS, Stance, orders, raises, says_no, stance
from cortext.services.text.sentences import COMMAND, sentences, text_of, with_heading
from cortext.services.text.threads import StoredThread
from cortext.store.base import Store

LONGEST_SUMMARY, LONGEST_LINE = 400, 300  # characters
MOST_SENTENCES, MOST_LINES = 2, 8
NOT_DECIDED = "the user did not decide that"
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]{2,})\"|“([^”]{2,})”|«([^»]{2,})»|„([^“]{2,})“|「([^」]{2,})」")
_PATH = re.compile(r"[\w~.@-]*/[\w./@-]*\w|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{1,5}\b")
_IDENTIFIER = re.compile(r"\b\w+_\w+\b|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z]+[A-Z]\w*\b|\b[A-Z][A-Z0-9]+\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*\w*")
_WITH_UNIT = re.compile(r"(\d[\d.,:]*)([a-z]{1,3})")  # 250ms
_NAME = re.compile(r"(?<=[a-zäöüéèàñ,;:] )[A-ZÄÖÜ][\w-]+")
_OPENS = re.compile(r"(?:^|(?<=[.!?] ))([A-ZÄÖÜ][\w-]+)(?: (\w+))?")
# A word that opens a sentence is written like a name; these are none, nor is one with such an ending, nor a verb.
_OPENERS = frozenset(
    re.findall(
        r"\w+",
        "agree agreed although another anything asked back besides branch cache choice choose clients code comments "
        "commits conflicts cost count currently data decision design details docs documentation either endpoints "
        "enough errors events everyone everything feedback few field fields files first five folder format four "
        "further goal group help hooks however idea instead issue issues keys label last later learn less lines lint "
        "load logging logs many map match messages metrics missing models modules moreover much names need neither "
        "next nobody none notes nothing once one open order orders otherwise packages pages parts paths pending "
        "people performance permissions plans plus points ports prices problem problems process profile prompt query "
        "questions queue reads reason reasons release remaining research rest results review reviews rules schema "
        "script scripts search security see server service services sessions settings several share since six so "
        "someone something state status still storage structure style suggestions summary support tables target task "
        "tasks team ten tests text therefore three thus time titles tokens tool tools traffic two type types "
        "understand unless updates uploads upon user users value values version versions view warnings way whether "
        "who words work writes yet",
    )
)
_ENDING = re.compile(r"(?:ing|ed|ly|tions?|ments?|ness|ities|ity|able|ible|ful|ous)$")
_DETERMINERS = frozenset(
    re.findall(r"\w+", "the a an this that these those them each every both whether how what its our")
)
_ABBREVIATED = ("e.g", "i.e", "etc")
# What a sentence of the summary says when it states a decision.
_SAYS_DECIDED = re.compile(
    r"\b(?:decided|decision|chose|chosen|agreed|settled on|opted for|picked|rejected|ruled out|refused|entschieden"
    r"|beschlossen|gewählt|verworfen|décidé|choisi|decidido|elegido)\b|決定|採用|采用|决定",
    re.IGNORECASE,
)
_CHOSEN = re.compile(r'="([^"]*)"')  # an answer to a question that the tool asked, as Claude Code notes it
_BY_AGENT = re.compile(
    r"\b(?:agent|assistant|model|claude|codex|gemini|opencode|copilot|aider|the ai|i) (?:has |have )?"
    r"(?:decided|chose|picked|settled)\b",
    re.IGNORECASE,
)
_AGREES = re.compile(
    r"\s*(?:yes|yeah|yep|ok(?:ay)?|sure|agreed|sounds good|great|perfect|good(?! (?:question|point))|fine|i like"
    r"|all good|it'?s perfect|do (?:it|that|so|both)|go (?:ahead|for|on|with)|let['’]s (?:do|go|implement|add|use|take)"
    r"|implement|options? \w|all (?:of them|two|three|four|five)|both|please do|correct|right|exactly|makes sense"
    r"|approved?|lgtm|continue|ship it|deal|ja|genau"
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
    opening: set[str]  # words that open a sentence and could be names: any form of them is enough
    stance: Stance
    problem: str = ""
    is_decision: bool = False
    is_proposed: bool = False  # the agent's last answer names it
    is_decided: bool = False

    @property
    def why_not(self) -> str:
        """Why it is dropped; empty if it is kept."""
        if self.problem:
            return self.problem
        if absent := self.missing | self.opening:
            return f"not in the conversation: {', '.join(sorted(absent))}"
        return NOT_DECIDED if self.is_decision and not self.is_decided else ""

    def shared_with(self, other: Stance) -> int:
        """How many of its words a text has, for what it is for and against."""
        return len(self.stance.wants & other.wants) + len(self.stance.refuses & other.refuses)

    def opposed_by(self, other: Stance) -> int:
        """How many of its words a text has the other way round, and only so."""
        turned_down = self.stance.wants & (other.refuses - other.wants)
        return len(turned_down) + len(self.stance.refuses & (other.wants - other.refuses))

    def is_named_in(self, other: Stance) -> bool:
        """Whether a text has enough of its words to be about the same."""
        shared, size = self.shared_with(other), len(self.stance.wants | self.stance.refuses)
        return shared >= min(2, size) and shared * 4 >= size and shared > 0


class _Said(NamedTuple):
    """What a message of the user says: what it orders, what else it states, and whether it agrees or says no."""

    ordered: Stance
    stated: Stance
    agrees: bool
    refuses: bool


def check_summary(summary: str, details: Details, messages: Iterable[Message]) -> CheckedSummary:
    """Return what the messages bear out of a summary and its details."""
    head = _line(summary, LONGEST_SUMMARY)
    if len(sentences(head.text)) > MOST_SENTENCES:
        head.problem = f"more than {MOST_SENTENCES} sentences"
    named = {name: [_line(text) for text in lines] for name, lines in details.by_name().items()}
    stated = [_line(one) for one in sentences(head.text) if _SAYS_DECIDED.search(one)]
    for line in (*named["decided"], *stated):
        line.is_decision = True
    every = [line for lines in ([head], stated, *named.values()) for line in lines]
    _look_up(every, messages)
    if not head.why_not and not all(line.is_decided for line in stated):
        head.problem = NOT_DECIDED
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
    kept = [(name, text) for name, lines in checked.details.by_name().items() for text in lines]
    if kept and (checked.summary or session.summary_by == BY_AGENT):
        change.extra = {DETAILS: msgspec.to_builtins(checked.details)}
    else:  # an extract will stand there, which says nothing of them
        checked.dropped += [f'{name} (kept only beside a summary): "{text}"' for name, text in kept]
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
    line = _Line(text, facts_in(text), _opening(text), stance(text))
    if len(text) > longest:
        line.problem = f"longer than {longest} characters"
    elif _BY_AGENT.search(text):
        line.problem = "decisions are the user's"
    return line


def _opening(text: str) -> set[str]:
    """Return the words that open a sentence of a text and could be names. In languages that are not known, none."""
    if not FUNCTION_WORDS.isdisjoint(WORD.findall(text.casefold())):
        return set()
    return {word for word, after in _OPENS.findall(_QUOTED.sub(" ", text)) if not _is_ordinary(word.casefold(), after)}


def _is_ordinary(word: str, after: str) -> bool:
    """Whether a word at the beginning of a sentence is none that only a name could be."""
    singular = word.removesuffix("s")
    listed = word in STOP or word in _OPENERS or word in VERBS or singular in VERBS
    return listed or "_" in word or after.casefold() in _DETERMINERS or _ENDING.search(word) is not None


def _look_up(lines: Iterable[_Line], messages: Iterable[Message]) -> None:
    """Note which facts the messages hold, and which decisions are the user's."""
    ours: set[str] = set()  # our own calls, with which the agent hands over these very lines
    asked: set[str] = set()  # calls with which the agent asked the user
    waiting = [line for line in lines if line.missing or line.opening or line.is_decision]
    decisions = [line for line in waiting if line.is_decision]
    proposed: frozenset[str] = frozenset()  # the words of what the agent said since the user's last message
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
            line.opening = {word for word in line.opening if not _opens_in(word, held)}
        if message.aside or not decisions:
            continue
        chosen = [part.output for part in parts if part.type == TOOL_RESULT and part.call_id in asked]
        by_user = text_of(message) if message.role == USER else ""
        if by_user.strip() or chosen:
            said = _said(by_user, chosen)
            for line in decisions:
                _decide(line, said, proposed)
            proposed = frozenset()
        elif message.role == ASSISTANT and (text := text_of(message)):
            named = stance(text)
            proposed |= named.wants
            for line in decisions:
                line.is_proposed = line.is_proposed or line.is_named_in(named)


def _said(by_user: str, chosen: Iterable[str]) -> _Said:
    """Return what the user says in a message, or chose when the tool asked."""
    text = with_heading(COMMAND.sub("", by_user))
    every = sentences(text) or [text]
    answers = [answer for output in chosen for answer in _CHOSEN.findall(output) or [output]]
    ordered = stance("\n".join([*(one for one in every if orders(one)), *answers]))
    stated = stance("\n".join([*(one for one in every if not raises(one)), *answers]))
    return _Said(ordered, stated, _AGREES.match(by_user) is not None, says_no(by_user))


def _decide(line: _Line, said: _Said, proposed: frozenset[str]) -> None:
    """Note if the user orders what the line says, or agrees to it after the agent has named it; or turns it down."""
    against = line.opposed_by(said.stated)
    refused = line.stance.refuses & proposed if said.refuses else frozenset[str]()
    answers = said.agrees or line.is_named_in(said.stated) or _is_short_for(line, said.stated)
    turns_down = refused and 2 * len(refused) >= len(line.stance.refuses)
    if against and against >= line.shared_with(said.stated):
        line.is_decided = line.is_decided and against < min(2, len(line.stance.wants | line.stance.refuses))
    elif line.is_named_in(said.ordered) or turns_down or (line.is_proposed and answers):
        line.is_decided = True
    line.is_proposed = False


def _is_short_for(line: _Line, stated: Stance) -> bool:
    """Whether an answer is nothing but a few of the words of a line."""
    return 0 < len(stated.wants) <= 3 and not stated.refuses and stated.wants <= line.stance.wants


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
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", " ".join(text.split())).casefold()


def _is_in(fact: str, held: str) -> bool:
    """Whether a text holds a fact as a whole word; of a path with several names, each may stand by itself."""
    wanted = _flat(fact)
    if wanted not in held:
        if with_unit := _WITH_UNIT.fullmatch(wanted):
            return re.search(rf"(?<![\w.]){re.escape(with_unit[1])} {with_unit[2]}(?!\w)", held) is not None
        names = wanted.split("/") if "/" in wanted else []
        return len(names) > 1 and all(name in held for name in names)
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", held) is not None or not wanted.isascii()


def _opens_in(word: str, held: str) -> bool:
    """Whether a text has any form of a word."""
    stem = word.casefold()[: max(4, len(word) - 3)]
    return stem in held and re.search(rf"(?<![^\W_]){re.escape(stem)}", held) is not None
