"""What was settled about a topic: by whom, what was rejected, whether it was said again, and whether it was reversed.

A decision is quoted verbatim, with its message and its time, so that it can be checked. An order ("now do point 2") is
none, nor is a symptom ("it prints none instead of the total"). A reversal is named only where the words leave no doubt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from cortext.index.search.words import WORD
from cortext.model.message import ASSISTANT, ATTACHMENT, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.wording import clip
from cortext.services.text.decisions import (
    ASKS_USER,
    NEGATED,
    NEXT_STEP,
    OUTRIGHT,
    QUESTION,
    SHORT,
    START,
    THING,
    any_of,
    chooses,
    may_decide,
    prefix,
    rejected_in,
    relevance,
    says_no,
    states_decision,
)
from cortext.services.text.sentences import NOTICE, sentences, terms

LONGEST = 400  # characters of one decision with its reason
LEAST = 12  # characters of a sentence that decides something by itself
PASTED = 4_000  # characters: a longer message of the user is mostly not in the user's own words
OWN_WORDS = 600  # characters at the beginning of an ask; what follows is mostly pasted
FEW = 4  # significant words: without a word of the topic, such a sentence points at something said
ALIKE = 0.8  # of the significant words of two sentences that say the same
AGREED, MODEL = "agreed", "model"

_REASON = re.compile(
    r"\b(?:because|since|so that|the reason|due to|otherwise|weil|damit|sonst|parce que|porque)\b|因为|因為|ので|ため",
    re.IGNORECASE,
)


_CLEARLY = any_of(
    r"\b(?:decided|decision|agreed|go(?:ing)? with|chosen?|entschieden|beschlossen|vereinbart|décidé|convenu"
    r"|acordamos)\b"
)
_TOGETHER = any_of(
    r"\b(?:we|i|you)(?:'ve| have|'ll| will)? (?:\w+ )?(?:decided|agreed|settled|chose|keep|drop|go with)\b"
    r"|\bgoing with\b",
    r"\b(?:decision|decided|agreed):|\b(?:wir|ich|nous|on)\b.*\b(?:entschieden|beschlossen|vereinbart|geeinigt"
    r"|décidé|convenu)\b",
    r"決定|決め|决定|采用|採用",
)
# How far something is, and not what holds.
_PROGRESS = any_of(r"\b(?:fixed|works now|leaning|behoben)\b")
# What something does, although it should not.
_SYMPTOM = any_of(
    r"\b(?:prints?|printed|shows?|showed|returns?|returned|gives|gave|gets?|got|says|said|displays?|fails?|failed"
    r"|crash\w*|raises|throws|produces|outputs|zeigt|liefert|gibt|kommt|affiche|renvoie)\b",
    r"^(?:it |this |that )?can\b",
)
# A choice of the user without the verb: "sqlite rather than redis", "we stay with tar", "go back to files".
_CHOOSES = any_of(
    r"\b(?:instead of|rather than|(?:i|we)(?:'d| would)? prefer|stay(?:ing)? with|stick(?:ing)? (?:with|to)"
    r"|(?:go|went) back to|revert(?:ed)? to|no longer (?:use|need|want|support)|is final|that's final)\b",
    r"\b(?:it|that|this) stays (?:at|with|as)\b",
    rf"{START}we (?:use|take|keep|drop|go with)\b",
    r"\b(?:let's|let’s|we'll|we’ll|we (?:will|won't|will not)) (?:use|take|keep|drop|go with|stop using)\b",
    r"\bi(?:'ll|’ll| will| won't) (?:use|take|keep|go with)\b",
    rf"{START}(?:drop|go with|(?:don't|do not) (?:use|take|keep))\b",
    r"\b(?:(?:an)?statt|anstelle von|sondern|doch wieder|bleib(?:t es|en wir) (?:bei|dabei)"
    r"|wir bleiben (?:bei|dabei))\b",
    r"\b(?:(?:ich|wir) (?:nehme|verwende|nutze)n?|lieber)\b",
    r"\b(?:au lieu de|plutôt que|on (?:garde|prend|utilise)|en vez de|en lugar de)\b",
)
_RULE = any_of(
    rf"{START}(?:always|never|use|prefer|avoid|keep|immer|nie|niemals|nimm|verwende|toujours|jamais|utilise|siempre"
    rf"|nunca)\b",
    r"\b(?:must|should|may) (?:always|never|only)\b|\bmust(?: not)? (?!be\b|have\b)\w"
    r"|\bdarf (?:nie|nicht|nur)\b|\bnur noch\b",
)
# What says what to do now, and settles nothing.
_ORDER = any_of(
    rf"{START}(?:(?:let's|let’s|lets|let us|we'll|we will|i'll|you can|go|machen wir|mach)\s+)*(?:do(?! not)"
    rf"|go (?:on|ahead)|continue|proceed|start|begin|run|fix|implement|commit|push|merge|write|add|create|show|check"
    rf"|look|read|test|try|explain|review|resume|move on|finish|update|make sure|weiter\w*|mit punkt|fang\w*|schau\w*"
    rf"|(?:punkt|schritt|point|step|étape) \d+)\b",
)
_WHAT_NEXT = any_of(r"\b(?:do|go|start) (?:with )?next\b|\bnext steps?\b|\bproceed\b")
_GOES_ON = any_of(
    r"\b(?:i|we|me to|ich|wir)\s+(?:now |also )?(?:continue|proceed|go on|go ahead|start|begin|commit|push|run|show"
    r"|explain|weitermachen|anfangen)\b"
)

_AGREES = any_of(
    r"(?:yes|yeah|yep|ok(?:ay)?|sure|agreed|sounds good|perfect|fine|do (?:it|that|so)|go (?:ahead|for|with)"
    r"|please do|exactly|makes sense|approved?|lgtm|deal|ja|genau|einverstanden|passt|gerne|oui|d'accord|sí|vale"
    r"|de acuerdo)\b"
    r"(?!,? (?:but|aber|mais|pero)\b)",
    r"(?:好|はい|同意|可以)",
)
_PROPOSES = any_of(
    r"\b(?:shall|should) (?:we|i)\b|\bi(?:'d| would)? (?:suggest|propose|recommend)\b|\b(?:how|what) about\b"
    r"|\bdo you want\b",
    r"\bwould you (?:like|prefer)\b|\bmy (?:suggestion|recommendation|proposal)\b"
    r"|\b(?:soll(?:en)?|sollten) (?:ich|wir)\b",
    r"\b(?:ich schlage|schlage ich) vor\b|\bmein vorschlag\b|\bje propose\b|\b(?:or|oder|ou)\b.*\?$",
)
_TAKES = any_of(
    r"\b(?:use|take|keep|drop|go with|stay with|stick to|switch to|move to|replace|choose|pick|adopt|remove|rather"
    r"|instead|prefer|limit|set|store|name|call|introduce|support|nehmen|verwenden|behalten|statt|lassen|wechseln"
    r"|utiliser|garder|prendre)\b"
)
# How Claude Code returns the answers, in the order of the questions; other tools return the answer to one.
_QUOTED = re.compile(r'"="(.*?)"(?=, "|,? user notes|\.? You can|[.,]?\s*$)', re.DOTALL)
_OR = any_of(r",?\s+(?:or|oder|ou)\s+")

_TAKEN = any_of(
    rf"\b(?:use|take|keep|go(?:ing)? with|stay with|stick to|switch(?:ed)? to|move to|adopt|introduce|pick|chose"
    rf"|choose|decided on|decided to use|decision:|verwenden|nehmen|utiliser)\s+{THING}"
)
_OBJECT = any_of(rf"{THING}")
_BACK = any_of(
    rf"\b(?:(?:go|went|going|switch|roll|move)(?:ed)? back to|revert(?:ed)? to|doch wieder|zurück zu[rm]?)\s+{THING}"
)


class Decision(msgspec.Struct, kw_only=True):
    """One sentence that settles something; `score` says how much it is about the topic.

    `by` is who settled it: the user, the model, or both (`AGREED`: the user accepted a proposal). `rejected` is what
    was not chosen, `reversed_by` the `session#seq` of a later decision against it; it was said `times` times.
    """

    seq: int
    role: str
    timestamp: str
    text: str
    score: float
    by: str = USER
    rejected: str = ""
    reversed_by: str = ""
    times: int = 1


class _Turn(NamedTuple):
    """What is known where a sentence stands: the topic, whether the title is about it, the ask, what the model said."""

    words: Collection[str]
    is_titled: bool
    ask: str = ""
    before: Sequence[str] = ()

    def is_about(self, *texts: str) -> bool:
        """Whether the title or these texts have half of the topic's words, or two of them."""
        return self.is_titled or self.is_named_in(*texts)

    def is_named_in(self, *texts: str) -> bool:
        """Whether these texts have half of the topic's words, or two of them."""
        hits = round(relevance(" ".join(texts), self.words) * len(self.words))
        return hits >= min(2, max(1, (len(self.words) + 1) // 2))

    def decision(self, message: Message, text: str, by: str, rejected: str, *, is_rule: bool = False) -> Decision:
        """Return a decision in a message."""
        return Decision(
            seq=message.seq,
            role=message.role,
            timestamp=message.timestamp[:24],
            text=clip(text, LONGEST),
            score=round(relevance(text, self.words) + (not is_rule), 4),
            by=by,
            rejected=rejected,
        )


def decisions_in(messages: Iterable[Message], words: Collection[str], title: str = "") -> list[Decision]:
    """Return what was settled about the words: what the user states, chooses or agrees to, or the model calls settled.

    The words must be in the sentence, in the one before a short sentence, in the ask that the model answers, or in the
    title of the session. What the user answers to a tool that asks counts, too.
    """
    found: list[Decision] = []
    turn = _Turn(words, relevance(title, words) >= 0.5)
    asked: dict[str, Part] = {}
    for message in messages:
        if message.aside or message.partial:
            continue
        for part in message.parts or ():
            if part.type == TOOL_CALL and ASKS_USER.search(part.name):
                asked[part.id] = part
            elif part.type == TOOL_RESULT and part.call_id in asked and not part.is_error:
                found += _answered(message, asked.pop(part.call_id), part.output, turn)
        if message.role not in (USER, ASSISTANT) or not message.content or NOTICE.match(message.content):
            continue
        if message.extra is not None and ATTACHMENT in message.extra:
            continue
        said = sentences(message.content)
        if message.role == USER:
            found += _by_user(message, said, turn)
            turn = turn._replace(ask=message.content[:OWN_WORDS], before=())
        else:
            found += _by_model(message, said, turn)
            turn = turn._replace(before=said[-3:])
    return found


def _by_user(message: Message, said: list[str], turn: _Turn) -> Iterator[Decision]:
    """Yield what the user answers to a proposal, states or chooses."""
    start = 1
    if len(said) > 1 and len(said[0]) < LEAST:  # "No. Keep the disk."
        said = [f"{said[0]} {said[1]}", *said[2:]]
    reply = _reply(said[0], turn) if said else None
    if reply is not None:
        yield turn.decision(message, *reply)
    else:
        start = 0
    for index, sentence in enumerate(said[start:], start):
        if len(sentence) < LEAST or sentence.endswith(QUESTION):
            continue
        is_stated = (states_decision(sentence) or bool(OUTRIGHT.search(sentence))) and not _is_progress(sentence)
        is_own = len(message.content) <= PASTED
        is_chosen = is_stated or (is_own and _chooses(sentence))
        if not is_chosen and not (is_own and relevance(sentence, turn.words) >= 0.5 and _RULE.search(sentence)):
            continue
        previous = said[index - 1] if index else "".join(turn.before[-1:])
        is_answer = not index and previous.endswith(QUESTION)
        around = (previous, turn.ask) if is_answer else (previous,) if len(sentence) < SHORT else ()
        if turn.is_about(sentence, *around) and not _is_order(sentence, turn):
            text = _with_reason(sentence, said[index + 1 : index + 2])
            if not index and len(text) < SHORT and previous:
                text = f'{text} (in answer to: "{clip(previous, 160)}")'
            yield turn.decision(message, text, USER, rejected_in(sentence), is_rule=not is_chosen)


def _by_model(message: Message, said: list[str], turn: _Turn) -> Iterator[Decision]:
    """Yield what the model says is settled, but not what it is about to do."""
    if not may_decide(message.content) and not OUTRIGHT.search(message.content):
        return
    for index, sentence in enumerate(said):
        if len(sentence) < LEAST or sentence.endswith(QUESTION) or _is_progress(sentence):
            continue
        if not (states_decision(sentence) or OUTRIGHT.search(sentence)):
            continue
        if NEXT_STEP.match(sentence) and not _CLEARLY.search(sentence):
            continue
        before = said[index - 1] if index and len(sentence) < SHORT else ""
        # "Found the root cause." under an ask about the topic says nothing of it.
        if turn.is_named_in(sentence, before) or (turn.is_about(turn.ask) and _TOGETHER.search(sentence)):
            text = _with_reason(sentence, said[index + 1 : index + 2])
            yield turn.decision(message, text, MODEL, rejected_in(sentence))


def _reply(answer: str, turn: _Turn) -> tuple[str, str, str] | None:
    """Return what an answer to a proposal settles, who settled it, and what is rejected; None if it settles nothing."""
    proposal = next((one for one in reversed(turn.before) if _PROPOSES.search(one)), "")
    if not proposal or _GOES_ON.search(proposal) or not turn.is_about(proposal, answer, turn.ask):
        return None
    text = f'{answer} (in answer to: "{clip(proposal, 200)}")'
    own, words = rejected_in(answer), terms(answer)
    alternatives = _OR.split(proposal.rstrip("?？ "), maxsplit=1)
    if len(alternatives) == 2 and words and len(words) <= FEW:
        shared = [len(words & terms(one)) for one in alternatives]
        if shared[0] != shared[1]:
            return text, USER, own or _taken_in(alternatives[shared[0] > shared[1]])
    if _AGREES.match(answer) and _TAKES.search(proposal) and len(alternatives) == 1:
        return text, AGREED, own or rejected_in(proposal)
    if says_no(answer):
        return text, USER, own or _taken_in(proposal)
    return None


def _taken_in(proposal: str) -> str:
    """Return what a proposal is to take; if it does not say that shortly, all of it."""
    proposal = proposal.rstrip("?？ ")
    taken = _TAKEN.search(proposal) or (_OBJECT.match(proposal) if len(proposal) < SHORT else None)
    return clip(taken["thing"] if taken else proposal, 160)


def _answered(message: Message, call: Part, output: str, turn: _Turn) -> Iterator[Decision]:
    """Yield what the user answered when the model asked through a tool; the options not taken are rejected."""
    asked = _asked(call.input)
    answers = _QUOTED.findall(output) if '"="' in output else [output]
    if len(answers) != len(asked):
        return
    for (question, options), quoted in zip(asked, answers, strict=True):
        answer = " ".join(quoted.split())
        taken = [option for option in options if option in answer]
        if not answer or (not taken and any(sign in answer for sign in QUESTION)) or _WHAT_NEXT.search(question):
            continue
        if turn.is_about(question, answer[:OWN_WORDS]):
            rejected = ", ".join(option for option in options if option not in answer) if taken else ""
            text = f'{clip(answer, LONGEST // 2)} (in answer to: "{clip(question, LONGEST // 2)}")'
            yield turn.decision(message, text, USER, clip(rejected, 160))


def _asked(fields: Any) -> list[tuple[str, list[str]]]:
    """Return each question in a call that asks the user with the labels of its options, however they are nested."""
    found: list[tuple[str, list[str]]] = []
    todo = [("", fields)]
    while todo:
        name, value = todo.pop(0)
        if isinstance(value, dict):
            todo = [(str(key), inner) for key, inner in value.items()] + todo
        elif isinstance(value, list):
            todo = [(name, inner) for inner in value] + todo
        elif isinstance(value, str) and value.strip():
            if name in ("question", "prompt", "message"):
                found.append((value, []))
            elif name in ("label", "options", "choices") and found:
                found[-1][1].append(value)
    return found


def _chooses(sentence: str) -> bool:
    return chooses(sentence) or (_CHOOSES.search(sentence) is not None and not _SYMPTOM.search(sentence))


def _is_progress(sentence: str) -> bool:
    return _PROGRESS.search(sentence) is not None and not _CLEARLY.search(sentence)


def _is_order(sentence: str, turn: _Turn) -> bool:
    """Whether a sentence of the user only says what to do now, or points at something said."""
    if _CLEARLY.search(sentence) or rejected_in(sentence):
        return False
    return _ORDER.match(sentence) is not None or (
        not relevance(sentence, turn.words) and len(terms(sentence)) <= FEW and not turn.before
    )


def _with_reason(sentence: str, following: list[str]) -> str:
    """Return the sentence, and the next one if it gives the reason."""
    if following and not _REASON.search(sentence) and _REASON.search(following[0]):
        sentence = f"{sentence} {following[0]}"
    return clip(sentence, LONGEST)


# ── the same decision again, and its reversal ────────────────────────────────────────────────────────


@lru_cache(maxsize=1024)
def stems(text: str) -> frozenset[str]:
    """Return the significant words of a text as prefixes."""
    return frozenset(map(prefix, terms(text.casefold())))


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts are the same in other words: another number, name or negation makes another decision."""
    left, right = stems(one), stems(other)
    if len(left & right) < ALIKE * len(left | right) or (NEGATED.search(one) is None) != (
        NEGATED.search(other) is None
    ):
        return False
    return all(_names(text) <= frozenset(WORD.findall(than.casefold())) for text, than in ((one, other), (other, one)))


def _names(text: str) -> frozenset[str]:
    """Return the words of a text with a digit, or with a capital that does not begin a sentence."""
    return frozenset(
        word.casefold()
        for index, word in enumerate(WORD.findall(text))
        if any(map(str.isdigit, word)) or (index and any(map(str.isupper, word)))
    )


def reverses(later: Decision, earlier: Decision, words: Collection[str]) -> bool:
    """Whether a later decision, not of the model, rejects what an earlier one chose, or chooses what that rejected."""
    if later.by == MODEL or later.timestamp <= earlier.timestamp:
        return False
    if 2 * sum(bool(relevance(later.text, [word]) and relevance(earlier.text, [word])) for word in words) < len(words):
        return False
    chosen, not_chosen = stems(earlier.text), stems(earlier.rejected)
    again = _BACK.search(later.text) or (_TAKEN.search(later.text) if NEGATED.search(later.text) is None else None)
    if again is not None and stems(again["thing"]) and stems(again["thing"]) <= not_chosen:
        return True
    rejected = stems(later.rejected)
    if not rejected or not rejected <= chosen - not_chosen or NEGATED.search(earlier.text):
        return False
    taken = _TAKEN.search(earlier.text)
    return not rejected <= frozenset(words) or (taken is not None and rejected <= stems(taken["thing"]))
