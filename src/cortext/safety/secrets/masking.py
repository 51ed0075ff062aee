"""Find and mask secrets in a text: keys, tokens, private keys, passwords. Pure, and heuristic.

A secret becomes a mark such as `[masked anthropic-key 3f2a9c]`: its kind and the beginning of a hash, so that equal
secrets are recognised as equal. The limits: the hash is not secret, so anyone with a guess can test it. Six digits
reveal nothing about a random key; a short secret, which could be guessed, gets only two digits, which one guess in 256
matches. And a secret that has neither a form of its own nor a word before it that announces it (a bare password in a
sentence) is not found.

A key may be broken over several lines by a terminal, a mail, an editor or a program, each perhaps behind a line
number. Only keys with a mark of their own, whose mark is whole, are found then: the words of the lines are joined from
there on, and searched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from typing import NamedTuple

from cortext.safety.secrets import shapes
from cortext.safety.secrets.checks import is_glued
from cortext.safety.secrets.rules import RULES, Rule
from cortext.safety.secrets.words import search

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

_MARK = re.compile(r"\[masked [a-z0-9-]{1,40} [0-9a-f]{2,6}\]")
Span = tuple[int, int, int, str]  # start, end, rank of the rule (the surer the lower), kind
_ROUNDS = 3
_GUESSABLE = 16  # shorter secrets may be chosen by people
_PIECE = 1 << 14
_LONG = 12  # a secret with a form of its own is never, with what surrounds it, part of a shorter word


class _KeyMark(NamedTuple):
    """What keys begin with, and the ranks of the rules for it."""

    text: str
    ranks: list[int]


@cache
def _key_marks() -> list[_KeyMark]:
    ranks: dict[str, list[int]] = {}
    for rank, rule in enumerate(RULES):
        if rule.value.startswith(rule.literals):  # a mark in the middle, as of Telegram, does not say where a key began
            for literal in rule.literals:
                if len(literal) >= _SHORTEST_MARK and " " not in literal:
                    ranks.setdefault(literal, []).append(rank)
    return [_KeyMark(mark, found) for mark, found in ranks.items()]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first needed: most texts hold no key."""
    return re.compile(pattern)


def wrapped_spans(text: str, words: str) -> list[tuple[int, int, int, str]]:
    """Return the start, the end, the rank and the kind of every key that goes on in the next line.

    `words` are the distinct words of the text.
    """
    found: list[tuple[int, int, int, str]] = []
    if not any(mark in text for mark in _BREAKS):
        return found
    for mark in _key_marks():
        if mark.text not in words:
            continue
        for first in _compiled(f"{re.escape(mark.text)}{_CHARS}*+{_MAY_BREAK}").finditer(text):
            start = first.start()
            if is_glued(text, start):
                continue
            joined, offsets, ends = _joined_lines(text, mark.text, start, first.end())
            for rank in mark.ranks if len(ends) > 1 else ():
                end = _end_of_key(rank, joined, ends, text, offsets)
                if end:
                    found.append((start, offsets[end - 1] + 1, rank, RULES[rank].kind))
    return found


def _joined_lines(text: str, mark: str, start: int, end: int) -> tuple[str, list[int], list[int]]:
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


def _end_of_key(rank: int, joined: str, ends: list[int], text: str, offsets: list[int]) -> int:
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


class Secret(NamedTuple):
    """A secret by its offsets in the text; `mark` identifies it without revealing it."""

    kind: str
    start: int
    end: int
    mark: str


class MaskedText(NamedTuple):
    """The text without its secrets, and what they were (offsets refer to the original text)."""

    text: str
    findings: list[Secret]


def fingerprint(secret: str) -> str:
    """The name of a secret in an allow-list. Do not show it for a secret that could be guessed."""
    raw = secret.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=8, key=b"cortext.safety.secrets.masking").hexdigest()


def find(text: str, allow: AbstractSet[str] = frozenset()) -> list[Secret]:
    """Return every secret in the text, in order, without overlaps."""
    spans = _merged(_spans(text))
    if not spans:
        return []
    # Text next to a secret may have hidden another one: search again with the spans blanked until nothing new appears.
    for _ in range(_ROUNDS):
        more = _spans(_blanked(text, spans))
        joined = _merged(spans + more)
        if joined == spans:
            break
        spans = joined
    old = [match.span() for match in _MARK.finditer(text)] if "[masked " in text else []
    return [
        Secret(kind, start, end, mark)
        for start, end, _, kind in _clear_of(old, spans)
        if (mark := _mark(text[start:end], allow))
    ]


def suspects(text: str) -> list[tuple[int, int]]:
    """Return where secrets may be, as a first pass for callers that then look closer. There are none elsewhere."""
    return [(start, end) for start, end, *_ in _merged(_spans(text))]


def _mark(secret: str, allow: AbstractSet[str]) -> str:
    """Return the digits that tell this secret from others; empty if it is allowed to stay."""
    name = fingerprint(secret)
    mark = name[:6] if len(secret) >= _GUESSABLE else name[:2]
    if allow and (secret in allow or name in allow or (len(mark) == 6 and mark in allow)):
        return ""
    return mark


def mask(text: str, allow: AbstractSet[str] = frozenset()) -> MaskedText:
    """Return the text with a mark for every secret; the same object if there is none.

    `allow` holds what may stay: the literal text, its `fingerprint`, or the six digits of its mark.
    """
    findings = find(text, allow)
    if not findings:
        return MaskedText(text, findings)
    pieces, offset = [], 0
    for finding in findings:
        pieces += [text[offset : finding.start], f"[masked {finding.kind} {finding.mark}]"]
        offset = finding.end
    return MaskedText("".join(pieces) + text[offset:], findings)


_Literals = list[tuple[str, str, int]]  # a literal, its longest piece without a blank, and the rank of its rule


@cache
def _literals() -> dict[str, _Literals]:
    """The literals of all rules by a character that they share: most texts hold no `_` in a long word, and then no
    literal with a `_` in it need be looked for."""
    groups: dict[str, _Literals] = {" ": [], "_": [], "-": [], "": []}
    for rank, rule in enumerate(RULES):
        for literal in () if rule.folded else rule.literals:
            piece = max(literal.split(), key=len)
            groups[next(char for char in groups if char in literal)].append((literal, piece, rank))
    return groups


@cache
def _folded() -> list[tuple[str, int]]:
    """The literals that are found in any case, and the ranks of their rules."""
    return [(literal, rank) for rank, rule in enumerate(RULES) if rule.folded for literal in rule.literals]


def within_a_word(pattern: str) -> bool:
    """Whether nothing that this pattern matches, or looks at around the match, can contain a space."""
    return not any(part in pattern for part in (" ", r"\s", r"\S", "[^"))


_in_words = cache(within_a_word)


def _spans(text: str) -> list[Span]:
    """Return everything that any rule finds, unordered.

    Words repeat, so almost all of the search is done in a list of the distinct ones.
    """
    # Literals are ASCII, and are found several times faster in a text that is; every place stays where it is.
    plain = text if text.isascii() else text.encode("ascii", "replace").decode("ascii")
    distinct = _distinct_words(plain)
    words = "\n".join(distinct)
    long = [word for word in distinct if len(word) >= _LONG]
    long_words = "\n".join(long)
    ranks: set[int] = set()
    for char, literals in _literals().items():
        if char == " ":  # a literal with a space spans words: a piece of it must be in one before the text is searched
            ranks.update([rank for literal, piece, rank in literals if piece in words and literal in plain])
        elif char in long_words:
            where = "\n".join([word for word in long if char in word]) if char else long_words
            ranks.update([rank for literal, _, rank in literals if literal in where])
    lowered = words.lower()
    ranks.update([rank for literal, rank in _folded() if literal in lowered])
    spans = []
    for rank in ranks:
        rule = RULES[rank]
        if _in_words(rule.pattern) and not _is_in(rule, long, long_words):
            continue
        for match in _compiled(rule.pattern).finditer(text):
            start, end = match.span("s") if "s" in match.re.groupindex else match.span()
            if "b" in match.re.groupindex:
                start = match.start("b")
            if (start != match.start() or not is_glued(text, start)) and rule.check(match, text[start:end]):
                spans.append((start, end, rank, rule.kind))
    announced = search(text, plain, lowered)
    spans += [(start, end, len(RULES), kind) for kind, start, end in announced]
    return spans + wrapped_spans(text, words)


def _is_in(rule: Rule, long: list[str], long_words: str) -> bool:
    """Whether a word of the text holds what the rule finds."""
    where = long_words if rule.least <= _LONG else "\n".join([word for word in long if len(word) >= rule.least])
    return _compiled(rule.pattern).search(where) is not None


def _distinct_words(text: str) -> set[str]:
    """Return each word once. In pieces: memory for all words of a long text at once costs more than the search."""
    distinct: set[str] = set()
    start = 0
    while start < len(text):
        end = text.find(" ", start + _PIECE)
        end = len(text) if end < 0 else end
        distinct.update(text[start:end].split())
        start = end
    return distinct


def _merged(spans: list[Span]) -> list[Span]:
    """Return the spans with overlaps merged, each under its most certain kind: no end of a secret may stay visible."""
    joined: list[Span] = []
    for start, end, rank, kind in sorted(spans):
        if joined and start < joined[-1][1]:
            last = joined[-1]
            joined[-1] = (last[0], max(last[1], end), *min((last[2], last[3]), (rank, kind)))
        else:
            joined.append((start, end, rank, kind))
    return joined


def _blanked(text: str, spans: list[Span]) -> str:
    """Return the text with brackets and spaces instead of the spans, every character at its old offset."""
    pieces, offset = [], 0
    for start, end, *_ in spans:
        pieces += [text[offset:start], "[", " " * (end - start - 2), "]"]
        offset = end
    return "".join(pieces) + text[offset:]


def _clear_of(taken: list[tuple[int, int]], spans: list[Span]) -> Iterator[Span]:
    """Yield the spans that overlap none of the taken ranges. Both are in order."""
    index = 0
    for span in spans:
        while index < len(taken) and taken[index][1] <= span[0]:
            index += 1
        if index == len(taken) or span[1] <= taken[index][0]:
            yield span
