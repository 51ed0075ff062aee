"""Noticing that the user wants to stop, and offering to save what was never saved; a "no" is respected.

Words only: what the user typed is looked at here, the model is told what was done and passes it on.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cortext.model.session import Change, Session

# Whole phrases at the end (or as all) of a short message: "let's stop there", not "let's stop the server".
_PAUSE = re.compile(
    r"(?:^|[.!?,;:\n]\s*|\b(?:ok|okay|alright|thanks|thank you|well|so|and)[,.!]?\s+)"
    r"(?:let'?s (?:stop|pause|leave it|call it a day|wrap (?:it |this )?up|take a break|(?:pick this up|go on) later)"
    r"|that'?s (?:enough|all|it) (?:for (?:now|today|tonight)|from me)"
    r"|(?:i|we) (?:need|have|got|gotta|must|should) (?:to )?(?:go|run|leave|head out|stop|sleep)"
    r"|i'?(?:m| am) (?:done|off|out|leaving)(?: for (?:now|today|tonight))?"
    r"|(?:talk|see|catch) (?:to )?you (?:later|tomorrow|soon)|good ?night|enough for (?:now|today)"
    r"|(?:pause|stop) (?:here|this conversation|for (?:now|today)))"
    r"(?: (?:here|there|now|then|for (?:now|today|tonight)|tomorrow|later|soon|please|to \w+(?: \w+)?))*\s*[.!…]*\s*$",
    re.IGNORECASE,
)
_NO = re.compile(
    r"^\s*(?:no|nope|nah|not now|later|don'?t|no,? thanks?(?: you)?|skip(?: it)?)\b[\s.,!]*(?:save|it|thanks)?[\s.!]*$",
    re.IGNORECASE,
)
LONGEST = 400


class Looked(NamedTuple):
    """What to tell the model, and what to note with the session."""

    context: str = ""
    change: Change | None = None


def wants_to_pause(text: str, more: str = "") -> bool:
    """Whether a message says that the user stops for now. Long messages are work, not goodbyes."""
    text = text.strip().replace("\u2019", "'")
    if not text or len(text) > LONGEST or text.endswith("?"):
        return False
    own = [word.strip().lower() for word in more.split(",") if word.strip()]
    return _PAUSE.search(text) is not None or any(word in text.lower() for word in own)


def look(text: str, session: Session, settings: Any) -> Looked:
    """Look at a prompt: a goodbye, a refusal of our offer, or time for an offer."""
    if wants_to_pause(text, settings["workspace.pause_words"]):
        return Looked(
            "cortext saves and pauses this conversation after your answer. Tell the user so, in a sentence: "
            f'"{session.title or session.id}" is saved and can be continued with /workspace.resume.',
            Change(extra={"pause_after_answer": True}),
        )
    if session.extra.get("save_offered") and not session.extra.get("save_declined") and _NO.match(text):
        return Looked(change=Change(extra={"save_declined": True}))
    unsaved = session.message_count - int(session.extra.get("saved_messages", 0) or 0)
    if unsaved >= settings["workspace.offer_after"] and not session.extra.get("save_offered"):
        return Looked(
            "This conversation has grown long without being committed. After your answer, ask the user once, in a "
            "sentence, whether to save it now (/workspace.stop-conversation saves and pauses it); a no is fine.",
            Change(extra={"save_offered": True}),
        )
    return Looked()


def saved(session: Session) -> Change:
    """What to note after a save: the offer may come again when as much was said anew."""
    notes = {"pause_after_answer": False, "save_offered": False, "save_declined": False}
    return Change(extra={**notes, "saved_messages": session.message_count})
