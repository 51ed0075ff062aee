"""The turn that an edit was made in: the user's words that led to it, what the model said, and what was decided."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from cortext.model.message import ASSISTANT, Message
from cortext.safety.secrets.masking import mask
from cortext.services.digest.asks import answered_before, turns
from cortext.services.origin.written import Written
from cortext.services.text.clip import clip
from cortext.services.text.decisions import decisions_in, topic_words
from cortext.services.text.sentences import sentences

LONGEST = 400  # characters of each quotation
BEFORE = 12  # messages before a turn in which a decision may have been made


class Reason(msgspec.Struct, kw_only=True):
    """The message of an edit and its time, and quotations without secrets, each with the number of its message."""

    seq: int
    timestamp: str
    call: str  # the name of the tool call
    path: str  # as the tool named it
    ask: str = ""
    ask_seq: int = -1
    answers: str = ""  # what a short ask ("yes") agrees with
    said: str = ""
    decision: str = ""
    decision_seq: int = -1


def reason_for(messages: Sequence[Message], written: Written) -> Reason:
    """Return the turn of an edit."""
    at = next((index for index, message in enumerate(messages) if message.seq == written.seq), 0)
    message = messages[at] if messages else None
    reason = Reason(
        seq=written.seq,
        timestamp=message.timestamp if message is not None else "",
        call=_quoted(written.edit.name, 60),
        path=_quoted(written.edit.path),
    )
    asked = turns(messages)
    index = bisect_right([turn.start for turn in asked], at) - 1
    start = 0
    if index >= 0:
        turn = asked[index]
        start = turn.start
        reason.ask, reason.ask_seq = _quoted(turn.ask), messages[start].seq
        if turn.is_short:
            reason.answers = _quoted(answered_before(messages, turn))
    reason.said = _said(messages[start : at + 1])
    near = messages[max(0, start - BEFORE) : at + 1]
    words = topic_words(f"{written.edit.path.rpartition('/')[2]} {reason.ask}")
    decided = decisions_in(near, words, [written.seq, reason.ask_seq])
    if decided:
        best = max(decided, key=lambda decision: (decision.score, decision.seq))
        reason.decision, reason.decision_seq = _quoted(best.text), best.seq
    return reason


def _said(messages: Sequence[Message]) -> str:
    """Return the last sentence of the model before an edit."""
    for message in reversed(messages):
        if message.role == ASSISTANT and message.content.strip():
            found = sentences(message.content)
            if found:
                return _quoted(found[-1])
    return ""


def _quoted(text: str, longest: int = LONGEST) -> str:
    """Return a text as it may be shown: masked before it is cut, because half a secret cannot be recognised."""
    return clip(mask(text).text, longest)
