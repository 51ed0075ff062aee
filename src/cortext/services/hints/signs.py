"""What a prompt or a command may share with an earlier one: an error, a file, a question. Quick if there is nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from cortext.model.message import TOOL_RESULT, Message
from cortext.services.digest.calls import status_in
from cortext.services.text.sentences import COMMAND, terms

LONGEST = 20_000  # characters that are looked at
MOST_ERRORS = 3
LEAST_WORDS = 3  # of an error, besides names that change from run to run
LONGEST_PHRASE = 12  # words of a command that are searched for
LEAST_TERMS = 5  # of a question
LEAST_VERBATIM = 4  # of a question that was asked before word for word
# As programs print it: a sentence that speaks of errors is none, nor is what a tool tells its model about a call.
_ERROR = re.compile(
    r"\b[\w.]*(?:Error|Exception|Failure|Fault)\b(?:\[\w+\])?:|(?:^|:\s*|\[)(?:error|fatal|panic|fail|failed|failure|E)\b(?=[\]:\s])"
    r"|: (?:undefined|cannot|could not|no such|command not found|not found|permission denied|connection refused)\b",
    re.IGNORECASE,
)
# What differs between two occurrences of one error: paths, numbers, addresses, times.
_VARIES = re.compile(r"(?:[A-Za-z]:)?[\w.@~+-]*(?:/[\w.@+-]+)+(?::\d+)*|0x[0-9a-fA-F]+|\b[0-9a-f]{7,}\b|\d+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SAID = re.compile(r"\w+")
_FOLDER = re.compile(r"^\s*cd\s+[^&;|]+(?:&&|;)")  # before a command
_FILE = re.compile(r"(?<![\w/])(?:[\w@.-]+/)*[\w@-][\w.@-]*\.[A-Za-z]\w{0,5}(?![\w/])")


def errors_in(text: str) -> list[str]:
    """Return the lines that report an error, those with the most words first, at most three."""
    found = []
    for line in text[:LONGEST].splitlines():
        line = line.strip()
        if (
            12 <= len(line) <= 300
            and line[0] != "<"
            and _ERROR.search(line)
            and len(kernel(line).split()) >= LEAST_WORDS
        ):
            found.append(line)
    return sorted(dict.fromkeys(found), key=lambda line: -len(kernel(line)))[:MOST_ERRORS]


def failures_in(messages: Sequence[Message]) -> list[str]:
    """Return the errors in the results of the calls that failed in these messages."""
    return [
        line
        for message in messages
        for part in message.parts or ()
        if part.type == TOOL_RESULT and status_in(part) != "ok"
        for line in errors_in(part.output)
    ]


def kernel(line: str) -> str:
    """Return the words of an error that are the same each time it occurs."""
    return " ".join(word.lower() for word in _WORD.findall(_VARIES.sub(" ", line)))


def phrase_of(line: str) -> str:
    """Return the longest run of words of an error with nothing that varies in between, to search for."""
    runs = [" ".join(_WORD.findall(run)) for run in re.split(r"[\d_]+", _VARIES.sub("0", line))]
    return max(runs, key=len, default="")


def command_key(command: str) -> str:
    """Return what two runs of one command have in common: everything but white space and the folder it is run in."""
    return " ".join(_FOLDER.sub("", command).split())


def phrase_of_command(command: str) -> str:
    """Return the words of a command to search for; empty if there are too few to recognise it."""
    words = re.findall(r"\w+", command_key(command[:LONGEST]))
    return " ".join(words[:LONGEST_PHRASE]) if len(words) > 1 else ""


def files_in(text: str, folder: str) -> list[str]:
    """Return the files below a folder that a text names, by their path in it, at most three."""
    found = []
    for name in dict.fromkeys(_FILE.findall(text[:LONGEST])):
        if os.path.isfile(os.path.join(folder, name)) and not name.startswith(".."):
            found.append(name)
    return found[:3]


def question_terms(text: str) -> frozenset[str]:
    """Return the significant words of a question; empty if it is too short to be recognised again, or pasted text."""
    text = COMMAND.sub("", text).strip()
    if len(text) > 600:
        return frozenset()
    found = terms(text)
    return found if len(found) >= (LEAST_VERBATIM if text.endswith("?") else LEAST_TERMS) else frozenset()


def common_share(one: str, other: str) -> float:
    """Return how much of their significant words two questions have in common, from 0 to 1.

    With few of such words, only the very same question counts.
    """
    wanted, asked = question_terms(one), question_terms(other)
    if min(len(wanted), len(asked)) < LEAST_TERMS and _SAID.findall(one.lower()) != _SAID.findall(other.lower()):
        return 0.0
    return len(wanted & asked) / len(wanted | asked) if asked else 0.0
