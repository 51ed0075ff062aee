"""Keys that a terminal, a mail, an editor or a program broke over several lines, each perhaps behind a line number.

Only keys with a mark of their own, whose mark is whole: the words of the lines are joined from there on, and searched.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from cortext.safety.secrets import shapes
from cortext.safety.secrets.checks import is_glued
from cortext.safety.secrets.rules import RULES

_SHORTEST_MARK = 3
_MOST_LINES = 40
_SHORTEST_LINE = 16  # a line that is shorter was not broken because it was full
_BREAKS = ("\n", "\\n", "<br", "<BR")
_CHARS = "[A-Za-z0-9_+/=.~%-]"
_COLOUR = r"(?:\x1b|\\{1,4}(?:u001[bB]|x1[bB]|033|e))\[[0-9;]{0,12}[mK]"
_SIDE = r"(?:[│┃║|]|\\{1,4}u25(?:02|03|51))"  # of a box
# What the next pattern can begin with: almost every word ends at something else.
_MAY_BREAK = r"(?=[\n\r\\\"'`│┃║|<\x1b]|[ \t]{1,200}[│┃║|\\+.&\n\r])"
# What stands between the two parts: the rest of the first line, the break, and the beginning of the next line.
_NEXT = rf"""(?x)
    (?:{_COLOUR}){{0,3}} (?: \\{{0,7}} ["'`] )? [ \t]{{0,200}}
    (?: [+.&] [ \t]{{0,4}} | {_SIDE} [ \t]{{0,4}} | \\(?=\r?\n) )? (?:{_COLOUR}){{0,3}}
    (?: \r?\n | (?: \\{{1,7}} r )? \\{{1,7}} n | <[bB][rR][ ]?/?> (?:\r?\n|\\{{1,4}}n)? )
    (?:{_COLOUR}){{0,3}} (?: [ \t>+] | {_SIDE} | \\{{1,4}}t ){{0,12}}
    (?: [0-9]{{1,6}} (?: → | \\{{1,4}}u2192 | \t | \\{{1,4}}t | :[ ]? | \| ) )?
    (?: [ \t] | \\{{1,4}}t ){{0,40}}
    (?: (?: \#{{1,3}} | // | \*{{1,2}} | --[ \t] | ; ) [ \t]{{0,40}} | [+.&] [ \t]{{1,4}} )?
    (?:{_COLOUR}){{0,3}} (?: \\{{0,7}} ["'`] )?
    ({_CHARS}{{1,400}}+) (?! → | \t | :[ ] )
    """
_WORD = re.compile(r"[A-Za-z]?[a-z]*|[A-Z]+|[0-9]+|.{0,3}")
_NAME_JOINT = re.compile(r"[_.-]")
_ASSIGNED = re.compile(r"\\{0,3}[\"']?[ \t]{0,4}[=:(]")


class _Mark(NamedTuple):
    """What keys begin with, and the ranks of the rules for it."""

    text: str
    ranks: list[int]


@cache
def _marks() -> list[_Mark]:
    ranks: dict[str, list[int]] = {}
    for rank, rule in enumerate(RULES):
        if rule.value.startswith(rule.literals):  # a mark in the middle, as of Telegram, does not say where a key began
            for literal in rule.literals:
                if len(literal) >= _SHORTEST_MARK and " " not in literal:
                    ranks.setdefault(literal, []).append(rank)
    return [_Mark(mark, found) for mark, found in ranks.items()]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first needed: most texts hold no key."""
    return re.compile(pattern)


def spans(text: str, words: str) -> list[tuple[int, int, int, str]]:
    """Return the start, the end, the rank and the kind of every key that goes on in the next line.

    `words` are the distinct words of the text.
    """
    found: list[tuple[int, int, int, str]] = []
    if not any(mark in text for mark in _BREAKS):
        return found
    for mark in _marks():
        if mark.text not in words:
            continue
        for first in _compiled(f"{re.escape(mark.text)}{_CHARS}*+{_MAY_BREAK}").finditer(text):
            start = first.start()
            if is_glued(text, start):
                continue
            joined, offsets, ends = _joined(text, mark.text, start, first.end())
            for rank in mark.ranks if len(ends) > 1 else ():
                end = _matched(rank, joined, ends, text, offsets)
                if end:
                    found.append((start, offsets[end - 1] + 1, rank, RULES[rank].kind))
    return found


def _joined(text: str, mark: str, start: int, end: int) -> tuple[str, list[int], list[int]]:
    """Return a key with the words that follow it on the next lines, the offset of each character, and where in that
    text each line ends."""
    pieces, offsets, ends = [text[start:end]], list(range(start, end)), [end - start]
    line = text.rfind("\n", max(0, start - _SHORTEST_LINE), start)
    if end - max(line, start - _SHORTEST_LINE) < _SHORTEST_LINE:
        return pieces[0], offsets, ends
    for _ in range(_MOST_LINES):
        found = _compiled(_NEXT).match(text, end)
        if found is None or found[1].startswith(mark):  # the next line may be another key
            break
        pieces.append(found[1])
        offsets += range(*found.span(1))
        ends.append(len(offsets))
        end = found.end()
    return "".join(pieces), offsets, ends


def _matched(rank: int, joined: str, ends: list[int], text: str, offsets: list[int]) -> int:
    """Return where in the joined text the key ends, if it goes beyond its first line; 0 if it does not.

    Where the lines so far are a whole key, the next may just begin with a word: what it adds must look like a key.
    """
    rule, end = RULES[rank], 0
    whole: re.Match[str] | None = None
    for number, stop in enumerate(ends):
        match = _compiled(rule.pattern).match(joined[:stop])
        if match is None:
            if end:
                break
            continue
        least = ends[number - 1] if number else 0
        if match.end() <= least:
            break
        after = offsets[match.end() - 1] + 1
        if end and (_is_named(joined[end : match.end()]) or _ASSIGNED.match(text, after)):
            break
        end, whole = match.end(), match
        if end < stop:
            break
    return end if whole is not None and end > ends[0] and rule.check(whole, whole[0]) else 0


def _is_named(piece: str) -> bool:
    """Whether this is a word or a name made of words, and not a part of a key."""
    return shapes.worded(piece, 0.7) or all(_WORD.fullmatch(part) for part in _NAME_JOINT.split(piece))
