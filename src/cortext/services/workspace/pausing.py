"""When a conversation is paused: the user says goodbye, or it was quiet for too long.

Also when it is offered to save what was never saved; a "no" is respected. Of what the user typed, only the text is
examined; the model is told what was done and passes it on.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from cortext.config.schema import Settings
from cortext.model import clock
from cortext.model.session import Change, Session

# Complete phrases at the end (or as the whole) of a short message: "let's stop there", not "let's stop the server".
_PAUSE = re.compile(
    r"(?:^|[.!?,;\n]\s*|\b(?:ok|okay|alright|thanks|thank you|well|so|and|sorry)[,.!]?\s+)"
    r"(?:let'?s (?:stop|pause|leave it|call it a (?:day|night)|wrap (?:it |this )?up|take a (?:short |little )?break"
    r"|(?:pick (?:this|it) up|go on|continue(?: this)?) (?:later|tomorrow|another (?:day|time)))"
    r"|that(?:'?s| is) (?:enough|all|it) (?:for (?:now|today|tonight)|from me)"
    r"|(?:(?:i|we)(?:'?ve)? (?:need to|have to|got to|gotta|must|should)|gotta) "
    r"(?:go|get going|run|leave|head out|sleep|stop (?:here|now|for (?:now|today|tonight)))"
    r"|i(?:'?m| am) (?:(?:done|off|out) for (?:now|today|tonight)|leaving|heading (?:out|home|off))"
    r"|(?:talk|see|catch) (?:to )?you (?:later|tomorrow|soon)|good ?night|enough for (?:now|today|tonight)"
    r"|(?:pause|stop) (?:here|this conversation|for (?:now|today|tonight)))"
    r"(?: (?:here|there|now|then|for (?:now|today|tonight)|today|tonight|tomorrow|later|soon|please"
    r"|to (?:bed|sleep|work|lunch|dinner|school|a meeting|my meeting)))*"
    r"(?:[,.!…]* (?:thanks|thank you|thx|bye|bye bye|goodbye|cheers|see you))*[\s.!…]*$",
    re.IGNORECASE,
)
_NO = re.compile(
    r"^\s*(?:no|nope|nah|not now|later|don'?t|no,? thanks?(?: you)?|skip(?: it)?)\b[\s.,!]*(?:save|it|thanks)?[\s.!]*$",
    re.IGNORECASE,
)
LONGEST = 400
_NOTES = ("pause_after_answer", "save_offered", "save_declined")


class Reaction(NamedTuple):
    """What to tell the model, and what to record with the session."""

    context: str = ""
    change: Change | None = None


def is_quiet(last_active: str, minutes: float) -> bool:
    """Whether nothing was said in a conversation for more than these minutes; False if it is unknown when it was."""
    seen = clock.to_epoch(last_active)
    return seen is not None and seen < time.time() - minutes * 60


def wants_to_pause(text: str, more: str = "") -> bool:
    """Whether a message says that the user stops for now. Long messages are work, not goodbyes."""
    text = text.strip().replace("\u2019", "'")
    if not text or len(text) > LONGEST or text.endswith("?"):
        return False
    return _PAUSE.search(text) is not None or any(_ends_with(text, word.strip()) for word in more.split(","))


def _ends_with(text: str, words: str) -> bool:
    """Whether a message ends with these words of the user's setting, ignoring punctuation."""
    # A letter before them would make another word; scripts without spaces between words are exempt.
    pattern = rf"(?<![0-9A-Za-z\u00c0-\u052f]){re.escape(words)}\W*$"
    return bool(words) and re.search(pattern, text, re.IGNORECASE) is not None


def react_to_prompt(text: str, session: Session, settings: Settings) -> Reaction:
    """Examine a prompt for a goodbye, a refusal of our offer, or the time to make an offer."""
    if wants_to_pause(text, settings.workspace.pause_words):
        return Reaction(
            "cortext saves and pauses this conversation after your answer. Tell the user so, in a sentence: "
            f'"{session.title or session.id}" is saved and can be continued with /workspace.resume.',
            Change(extra={"pause_after_answer": True}),
        )
    if session.extra.get("save_offered") and not session.extra.get("save_declined") and _NO.match(text):
        return Reaction(change=Change(extra={"save_declined": True}))
    unsaved = session.message_count - int(session.extra.get("saved_messages", 0) or 0)
    if unsaved >= settings.workspace.offer_after and not session.extra.get("save_offered"):
        return Reaction(
            "This conversation has grown long without being committed. After your answer, ask the user once, in a "
            "sentence, whether to save it now (/workspace.stop-conversation saves and pauses it); a no is fine.",
            Change(extra={"save_offered": True}),
        )
    return Reaction()


def saved(session: Session) -> Change:
    """Return what to record with a save: the offer may be repeated once as much has been said again."""
    notes = dict.fromkeys((name for name in _NOTES if name in session.extra), False)
    return Change(extra={**notes, "saved_messages": session.message_count})
