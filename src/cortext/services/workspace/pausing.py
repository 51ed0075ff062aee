"""When a conversation is paused because the user says goodbye (`auto_pause`: because it was quiet for too long).

Also when it is offered to save what was never saved; a "no" is respected. Of what the user typed, only the text is
examined; the model is told what was done and passes it on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import msgspec

from cortext.config.schema import Settings
from cortext.io import durable
from cortext.model.session import Change, Session

LONGEST_CLAUSE = 60  # characters of a clause that can be a phrase
_PHRASES = os.path.join(os.path.dirname(__file__), "pause_phrases.json")
_SENTENCE_ENDS = re.compile(r"(?:[.!?…]+(?=\s|$)|[。！？\n])+\s*")
_CLAUSE_ENDS = re.compile(r"\s*(?:[,;](?=\s|$)|[，；、]|\s[-–—](?=\s))\s*")
_SYMBOLS = re.compile(r"[\s.!…~\u2600-\u27bf\ufe0f\U0001f300-\U0001faff]+$")
_CHOICE = re.compile(r"\{([^{}]*)\}")
_NO = re.compile(
    r"^\s*(?:no|nope|nah|not now|later|don'?t|no,? thanks?(?: you)?|skip(?: it)?)\b[\s.,!]*(?:save|it|thanks)?[\s.!]*$",
    re.IGNORECASE,
)
LONGEST = 400
NOTES = ("pause_after_answer", "save_offered", "save_declined")


class Reaction(NamedTuple):
    """What to tell the model, and what to record with the session."""

    context: str = ""
    change: Change | None = None


def wants_to_pause(text: str, more: str = "") -> bool:
    """Whether a message says that the user stops for now: the whole of it, or its last clause, is such a phrase.

    Long messages are work, not goodbyes. `more` are phrases of the user's own.
    """
    text = text.strip().replace("\u2019", "'")
    if not text or len(text) > LONGEST or text.endswith(("?", "？")):
        return False
    return _ends_in_pause(text.casefold()) or any(_ends_with(text, word.strip()) for word in more.split(","))


def _ends_in_pause(text: str) -> bool:
    """Whether the last clause that is more than a courtesy is a phrase of a pause.

    A goodbye is a short word that also ends lists of words: in its sentence, nothing else may be said.
    """
    words = _words()
    for sentence in reversed(_SENTENCE_ENDS.split(text)):
        clauses = [" ".join(_SYMBOLS.sub("", clause.lstrip("¡")).split()) for clause in _CLAUSE_ENDS.split(sentence)]
        while clauses and (not clauses[-1] or _is_one_of(clauses[-1], words.courtesies, words)):
            clauses.pop()
        if clauses:
            is_farewell = all(_is_one_of(clause, words.farewells, words) for clause in clauses)
            return is_farewell or _is_one_of(clauses[-1], words.phrases, words)
    return False


class _Words(NamedTuple):
    """What a clause may be to mean a pause, in every language; what may stand before and after that, longest first."""

    phrases: frozenset[str]
    farewells: frozenset[str]  # phrases, goodbyes and courtesies
    endings: tuple[str, ...]
    courtesies: tuple[str, ...]


@cache
def _words() -> _Words:
    """Read `pause_phrases.json`, in which `{a|b}` is a choice."""
    languages = msgspec.json.decode(durable.read_file(_PHRASES), type=dict[str, dict[str, list[str]]])
    entries: dict[str, list[str]] = {"phrases": [], "goodbyes": [], "endings": [], "courtesies": []}
    for language in languages.values():
        for kind, found in language.items():
            entries[kind] += (phrase for entry in found for phrase in _expanded(entry))
    phrases, courtesies = frozenset(entries["phrases"]), sorted(entries["courtesies"], key=len, reverse=True)
    endings = sorted(entries["endings"], key=len, reverse=True)
    return _Words(phrases, phrases.union(entries["goodbyes"], courtesies), tuple(endings), tuple(courtesies))


def _expanded(entry: str) -> Iterator[str]:
    pieces = _CHOICE.split(entry)  # what is between two choices, then a choice, and so on
    return map("".join, product(*(piece.split("|") if number % 2 else [piece] for number, piece in enumerate(pieces))))


def _is_one_of(clause: str, phrases: Container[str], words: _Words) -> bool:
    """Whether a clause is one of these phrases, with courtesies before it and endings ("for today") after it."""
    if len(clause) > LONGEST_CLAUSE:
        return False
    while clause:
        phrase = clause
        while phrase:
            if phrase in phrases:
                return True
            ending = next((end for end in words.endings if phrase.endswith(_apart(end, before=True))), "")
            phrase = phrase[: -len(ending)].rstrip() if ending else ""
        courtesy = next((start for start in words.courtesies if clause.startswith(_apart(start))), "")
        clause = clause[len(courtesy) :].lstrip() if courtesy else ""
    return False


def _apart(word: str, *, before: bool = False) -> str:
    """Return a word with the space that separates it from the next, or the one before, if its script uses spaces."""
    if word[0] >= "\u2e80":
        return word
    return f" {word}" if before else f"{word} "


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
            f'"{session.title or session.id}" is saved and can be continued with /workspace.resume. '
            f"{ask_for_summary(session)}",
            Change(extra={"pause_after_answer": True}),
        )
    if session.extra.get("save_offered") and not session.extra.get("save_declined") and _NO.match(text):
        return Reaction(change=Change(extra={"save_declined": True}))
    unsaved = session.line_count - int(session.extra.get("saved_messages", 0) or 0)
    if unsaved >= settings.workspace.offer_after and not session.extra.get("save_offered"):
        return Reaction(
            "This conversation has grown long without being committed. After your answer, ask the user once, in a "
            "sentence, whether to save it now (/workspace.stop-conversation saves and pauses it); a no is fine.",
            Change(extra={"save_offered": True}),
        )
    return Reaction()


def ask_for_summary(session: Session) -> str:
    """Return what asks the model, which knows the reasons, to say where a conversation stands."""
    return (
        f"Before you answer, call save_session of cortext once, with id {session.id}: `summary`, one or two sentences "
        "on where things stand; `goal`; `decided`, what the user decided and why, a line each; `open`, a line each; "
        "`next`. Write only what was said here, with names, paths, numbers and quoted words as they stand: any other "
        f"line is dropped. Without that tool, run: cortext stop {session.id} --in-tool "
        '--summary "…" --goal "…" --decided "…" --open "…" --next "…" (--decided and --open once for each line).'
    )


def saved(session: Session) -> Change:
    """Return what to record with a save: the offer may be repeated once as much has been said again."""
    notes = dict.fromkeys((name for name in NOTES if name in session.extra), False)
    return Change(extra={**notes, "saved_messages": session.line_count})
