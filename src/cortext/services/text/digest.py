"""What came before, in few words and without a model: goal, decisions, files, identifiers, open asks.

Built by code from the messages and the tool calls, so every name in it is exact. The model writes the
reasons; code keeps the facts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter

import msgspec

from cortext.model.message import ASSISTANT, TOOL_CALL, USER, Message
from cortext.services.text.decision_words import CHARACTERS, STEMS, sounds_decided

_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_CODE = re.compile(r"`([^`\n]{2,80})`")
_IDENTIFIER = re.compile(
    r"\b(?:[A-Za-z_]\w*(?:_\w+)+|[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+|[0-9a-f]{7,40}|[A-Z]{2,}-\d+|[\w.-]+/[\w./-]+\.\w+)\b"
)
_PATH_KEYS = ("file_path", "path", "filePath", "absolute_path", "notebook_path", "filename")
_WRITES = re.compile(r"write|edit|replace|patch|create|update", re.IGNORECASE)


class Digest(msgspec.Struct, kw_only=True):
    """The facts of a stretch of conversation."""

    goal: str = ""
    decisions: list[str] = []
    changed_files: list[str] = []
    read_files: list[str] = []
    identifiers: list[str] = []
    open_asks: list[str] = []

    def text(self) -> str:
        """The digest as a few labelled lines; empty sections are left out."""
        sections = (
            ("Goal", [self.goal] if self.goal else []),
            ("Decisions and findings", self.decisions),
            ("Files changed", self.changed_files),
            ("Files read", self.read_files),
            ("Exact names", self.identifiers),
            ("Asked, word for word, and still open", self.open_asks),
        )
        lines = []
        for label, entries in sections:
            if label.startswith(("Files", "Exact")) and entries:
                lines.append(f"{label}: {', '.join(entries)}")
            elif len(entries) == 1:
                lines.append(f"{label}: {entries[0]}")
            elif entries:
                lines.append(f"{label}:")
                lines += [f"- {entry}" for entry in entries]
        return "\n".join(lines)


def digest(
    messages: Sequence[Message],
    *,
    first: Sequence[Message] = (),
    decisions: int = 12,
    names: int = 40,
    files: int = 40,
) -> Digest:
    """The facts of these messages, the newest favoured where there are too many; the goal stands in the `first`."""
    changed, read = _files(messages)
    words = Counter(" ".join([message.content[:LONGEST] for message in messages[-NAMES_IN:]]).split())
    return Digest(
        goal=_goal(first or messages),
        decisions=_decisions(messages[-DECISIONS_IN:], words, decisions),
        changed_files=changed[:files],
        read_files=[path for path in read if path not in set(changed)][:files],
        identifiers=_identifiers(messages[-NAMES_IN:], words, names),
        open_asks=_open_asks(messages),
    )


def clip(text: str, longest: int = 240) -> str:
    """One line of at most so many characters, cut with an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _goal(messages: Iterable[Message]) -> str:
    return next((clip(m.content) for m in messages if m.role == USER and len(m.content.split()) > 2), "")


# Decisions and names are looked for in so many of the newest messages: older ones are in the session's summary.
DECISIONS_IN = 150
NAMES_IN = 100
LONGEST = 20_000  # characters of a message in which names are looked for


def _decisions(messages: Sequence[Message], words: Iterable[str], most: int) -> list[str]:
    """What was settled, the newest last; `words` are those of the newest NAMES_IN messages, up to LONGEST of each."""
    older = [message.content for message in messages[:-NAMES_IN]]
    # From a little before where the known words end: the last of them may have been cut.
    longer = [message.content[LONGEST - 20 :] for message in messages[-NAMES_IN:] if len(message.content) > LONGEST]
    there = "\n".join({*words, *" ".join(older + longer).split()}).lower()
    # Most stems are nowhere: then no message need be looked through for them.
    stems = [stem for stem in STEMS if max(stem.split(), key=len) in there]
    signs = [sign for sign in CHARACTERS if sign in there]
    found: list[str] = []
    for message in reversed(messages):
        if message.role not in (USER, ASSISTANT) or not sounds_decided(message.content, stems, signs):
            continue
        prose = "\n".join(message.content.split("```")[::2])  # what a piece of code says was not said by anybody
        for sentence in reversed(_SENTENCE.split(prose)):
            if sentence.endswith("?") or sentence.startswith("|"):  # or a row of a table
                continue
            if 20 <= len(sentence) <= 400 and sounds_decided(sentence, stems, signs):
                found.append(clip(sentence.lstrip("-*# >0123456789.")))
        if len(found) >= most:
            break
    return list(dict.fromkeys(found))[:most][::-1]


def _files(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    """Files that tools changed and read, the newest first."""
    changed: dict[str, None] = {}
    read: dict[str, None] = {}
    for message in reversed(messages):
        for part in message.parts or ():
            if part.type != TOOL_CALL or not isinstance(part.input, dict):
                continue
            for key in _PATH_KEYS:
                path = part.input.get(key)
                if isinstance(path, str) and path:
                    (changed if _WRITES.search(part.name) else read).setdefault(path)
    return list(changed), list(read)


def _identifiers(messages: Sequence[Message], words: Counter[str], most: int) -> list[str]:
    """The names used most, of the newest messages: what a successor must spell exactly."""
    texts = [message.content[:LONGEST] for message in messages if "`" in message.content]
    counts = Counter([name for text in texts for name in _CODE.findall(text)])
    # Each distinct word is looked at once; those of small letters alone are no names of this sort.
    for word, times in words.items():
        if not (word.isalpha() and (word.islower() or word.istitle())):
            for name in _IDENTIFIER.findall(word):
                counts[name] += times
    return [name for name, _ in sorted(counts.items(), key=itemgetter(1), reverse=True)[:most]]


def _open_asks(messages: Sequence[Message]) -> list[str]:
    """What the user asked last and nobody answered; else the last question that the agent asked back."""
    asks: list[str] = []
    for message in reversed(messages):
        if message.role == ASSISTANT and message.content:
            break
        if message.role == USER and message.content:
            asks.append(clip(message.content, 600))
    return asks[::-1]
