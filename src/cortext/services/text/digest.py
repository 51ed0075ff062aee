"""The facts of earlier messages, without a model: goal, decisions, files, identifiers and open requests.

Taken from the messages and the tool calls themselves, so every name in it is exact.
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
    open_requests: list[str] = []

    def text(self) -> str:
        """Return the digest as a few labelled lines, without empty sections."""
        sections = (
            ("Goal", [self.goal] if self.goal else []),
            ("Decisions and findings", self.decisions),
            ("Files changed", self.changed_files),
            ("Files read", self.read_files),
            ("Exact names", self.identifiers),
            ("Still open, verbatim", self.open_requests),
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
    """Return the facts of these messages; the newest are kept if there are too many. The goal is in the `first`."""
    changed, read = _files(messages)
    words = Counter(" ".join([message.content[:LONGEST] for message in messages[-NAMES_IN:]]).split())
    return Digest(
        goal=_goal(first or messages),
        decisions=_decisions(messages[-DECISIONS_IN:], words, decisions),
        changed_files=changed[:files],
        read_files=[path for path in read if path not in set(changed)][:files],
        identifiers=_identifiers(messages[-NAMES_IN:], words, names),
        open_requests=_open_requests(messages),
    )


def clip(text: str, longest: int = 240) -> str:
    """Return the text on one line, cut to at most so many characters with an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _goal(messages: Iterable[Message]) -> str:
    return next((clip(m.content) for m in messages if m.role == USER and len(m.content.split()) > 2), "")


# The number of newest messages that are searched for decisions and names; the session's summary covers older ones.
DECISIONS_IN = 150
NAMES_IN = 100
LONGEST = 20_000  # characters of a message that are searched for names


def _decisions(messages: Sequence[Message], words: Iterable[str], most: int) -> list[str]:
    """Return the decisions, the newest last. `words` are those of the newest NAMES_IN messages, up to LONGEST each."""
    older = [message.content for message in messages[:-NAMES_IN]]
    # Starts a little before the cut, where the last known word may have been cut in two.
    longer = [message.content[LONGEST - 20 :] for message in messages[-NAMES_IN:] if len(message.content) > LONGEST]
    all_words = "\n".join({*words, *" ".join(older + longer).split()}).lower()
    # Most stems occur nowhere, so no message has to be searched for them.
    stems = [stem for stem in STEMS if max(stem.split(), key=len) in all_words]
    characters = [phrase for phrase in CHARACTERS if phrase in all_words]
    found: list[str] = []
    for message in reversed(messages):
        if message.role not in (USER, ASSISTANT) or not sounds_decided(message.content, stems, characters):
            continue
        prose = "\n".join(message.content.split("```")[::2])  # without code blocks
        for sentence in reversed(_SENTENCE.split(prose)):
            if sentence.endswith("?") or sentence.startswith("|"):  # a question, or a row of a table
                continue
            if 20 <= len(sentence) <= 400 and sounds_decided(sentence, stems, characters):
                found.append(clip(sentence.lstrip("-*# >0123456789.")))
        if len(found) >= most:
            break
    return list(dict.fromkeys(found))[:most][::-1]


def _files(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    """Return the files that tools changed and read, the newest first."""
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
    """Return the most used names of these messages, which a successor must spell exactly."""
    texts = [message.content[:LONGEST] for message in messages if "`" in message.content]
    counts = Counter([name for text in texts for name in _CODE.findall(text)])
    # Each distinct word is matched once; words of lower-case letters only are not names.
    for word, times in words.items():
        if not (word.isalpha() and (word.islower() or word.istitle())):
            for name in _IDENTIFIER.findall(word):
                counts[name] += times
    return [name for name, _ in sorted(counts.items(), key=itemgetter(1), reverse=True)[:most]]


def _open_requests(messages: Sequence[Message]) -> list[str]:
    """Return the user's messages after the last answer."""
    requests: list[str] = []
    for message in reversed(messages):
        if message.role == ASSISTANT and message.content:
            break
        if message.role == USER and message.content:
            requests.append(clip(message.content, 600))
    return requests[::-1]
