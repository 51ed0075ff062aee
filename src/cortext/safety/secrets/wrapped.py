"""Keys that a terminal, a mail or an editor broke over several lines, each perhaps behind a line number.

Only keys with a mark of their own, whose mark is whole: the words of the lines are joined from there on, and searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from cortext.safety.secrets import shapes
from cortext.safety.secrets.rules import RULES

_SHORTEST_MARK = 3
_MOST_LINES = 40
_SHORTEST_LINE = 16  # a line that is shorter was not broken because it was full
# What stands before the rest of a key on the next line: an indent, a line number, a sign of a quotation or a diff.
_NEXT = re.compile(
    r"(?:[ \t>|+]{0,12}(?:[0-9]{1,6}(?:→|\t|: ?|\|))?[ \t]{0,40})([A-Za-z0-9_+/=.~%-]{1,400}+)(?!→|\t|: )(\r?\n)?"
)
_WORD = re.compile(r"[A-Za-z]?[a-z]*|[A-Z]+|[0-9]+|.{0,3}")


class _Mark(NamedTuple):
    """What keys begin with, the rest of such a key's first line, and the ranks of the rules for it."""

    text: str
    line: re.Pattern[str]
    ranks: list[int]


@cache
def _marks() -> list[_Mark]:
    ranks: dict[str, list[int]] = {}
    for rank, rule in enumerate(RULES):
        if rule.value.startswith(rule.literals):  # a mark in the middle, as of Telegram, does not say where a key began
            for literal in rule.literals:
                if len(literal) >= _SHORTEST_MARK and " " not in literal:
                    ranks.setdefault(literal, []).append(rank)
    return [_Mark(mark, re.compile(_first_line(re.escape(mark))), found) for mark, found in ranks.items()]


def _first_line(mark: str) -> str:
    return rf"{mark}(?<![A-Za-z0-9]{mark})[A-Za-z0-9_+/=.~%-]*+\r?\n"


def spans(text: str, words: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield the start, the end, the rank and the kind of every key that goes on in the next line.

    `words` are the distinct words of the text.
    """
    for mark in _marks():
        if mark.text not in words:
            continue
        for first in mark.line.finditer(text):
            joined, places, joints = _joined(text, *first.span())
            for rank in mark.ranks:
                end = _matched(rank, joined, joints)
                if end:
                    yield first.start(), places[end - 1] + 1, rank, RULES[rank].kind


def _joined(text: str, start: int, end: int) -> tuple[str, list[int], list[int]]:
    """Return a key with the words that follow it on the next lines, the offset of each character, and the joints."""
    here = len(text[start:end].rstrip("\r\n"))
    pieces, places = [text[start : start + here]], list(range(start, start + here))
    joints: list[int] = []
    if end - text.rfind("\n", 0, start) < _SHORTEST_LINE:
        return pieces[0], places, joints
    for _ in range(_MOST_LINES):
        found = _NEXT.match(text, end)
        if found is None:
            break
        joints.append(len(places))
        pieces.append(found[1])
        places += range(*found.span(1))
        end = found.end()
        if not found[2]:
            break
    return "".join(pieces), places, joints


def _matched(rank: int, joined: str, joints: list[int]) -> int:
    """Return where in the joined text the key ends, if it goes beyond its first line; 0 if it does not.

    Where the first line is a whole key, the next line may just begin with a word: what it adds must look like a key.
    """
    rule = RULES[rank]
    match = re.compile(rule.pattern).match(joined)
    if match is None or not joints or not rule.check(match, match[0]):
        return 0
    alone = re.compile(rule.pattern).match(joined[: joints[0]])
    end = match.end()
    for index, joint in enumerate(joints):
        if match.end() <= joint:
            break
        piece = joined[joint : joints[index + 1] if index + 1 < len(joints) else match.end()]
        if alone is not None and (_WORD.fullmatch(piece) or shapes.worded(piece, 0.7)):
            end = joint
            break
    return end if end > joints[0] else 0
