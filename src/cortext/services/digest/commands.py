"""The commands that were run, with how each ended the last time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cortext.services.digest.calls import Call, status_of
from cortext.services.digest.shell import simple_commands
from cortext.services.digest.words import stands_in

LONGEST = 120  # characters of a command
HALF_LIFE = 100  # messages after which a run counts half
_PREPARES = re.compile(r"(?:cd|source|export|set|echo|sleep|true|pwd)\b|\w+=\S*$|#|\W*$")
# What only shortens the output: the command before it is the same.
_FILTERED = re.compile(r"\s*(?:2>&1|2>/dev/null)?\s*(?:\|\s*(?:tail|head|grep|rg|wc|sort|uniq|less|cat)\b[^|]*)*$")


class Run(NamedTuple):
    """A command line, how it ended last, how often it was run, and the index of the message that ran it last."""

    line: str
    status: str
    times: int
    at: int


def runs(calls: Sequence[Call], count: int) -> list[Run]:
    """Return the commands among these calls, the likeliest to be needed first: run often, and lately.

    `count` is the number of messages.
    """
    found: dict[str, Run] = {}
    weights: dict[str, float] = {}
    for call in calls:
        lines = _worth_showing(call.command)
        status = status_of(call) if lines else ""
        for position, line in enumerate(lines, 1):
            times = found[line].times + 1 if line in found else 1
            # Which command of a chain failed is unknown: most likely the last one that was run.
            known = status if status == "ok" or position == len(lines) else ""
            found[line] = Run(line, known, times, call.at)
            weights[line] = weights.get(line, 0.0) + 0.5 ** ((count - call.at) / HALF_LIFE)
    return sorted(found.values(), key=lambda run: (-weights[run.line], -run.at))


def _worth_showing(line: str) -> list[str]:
    """Return the commands of a line, without those that only prepare others and without what shortens the output."""
    shown = (_FILTERED.sub("", part) for part in simple_commands(line) if not _PREPARES.match(part))
    said = " ".join(line.replace("\\\n", " ").split())
    short = (_short(part) for part in shown)
    return list(dict.fromkeys(part for part in short if part and _was_run(part, said)))


def _short(command: str) -> str:
    """Return a command cut after a whole word, with an ellipsis; empty if not even its first word is short."""
    if len(command) <= LONGEST:
        return command
    kept = command[: LONGEST - 1].rpartition(" ")[0]
    return f"{kept} …" if kept else ""


def _was_run(command: str, said: str) -> bool:
    """Whether every piece of a command, between what was left out of it, stands in the line as it was run."""
    pieces = [piece for piece in (piece.strip() for piece in command.split("…")) if piece]
    return all(stands_in(said, piece) for piece in pieces)
