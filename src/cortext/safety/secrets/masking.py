"""Find and mask secrets in a text: keys, tokens, private keys, passwords. Pure, and heuristic.

A secret becomes a mark such as `[masked anthropic-key 3f2a9c]`: its kind and the beginning of a hash, so that equal
secrets are recognised as equal. The limits: the hash is not secret, so anyone with a guess can test it. Six digits
reveal nothing about a random key; a short secret, which could be guessed, gets only two digits, which one guess in 256
matches. And a secret that has neither a form of its own nor a word before it that announces it (a bare password in a
sentence) is not found.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from typing import NamedTuple

from cortext.safety.secrets import words as secret_words
from cortext.safety.secrets import wrapped
from cortext.safety.secrets.checks import is_glued
from cortext.safety.secrets.rules import RULES, Rule

_MARK = re.compile(r"\[masked [a-z0-9-]{1,40} [0-9a-f]{2,6}\]")
Span = tuple[int, int, int, str]  # start, end, rank of the rule (the surer the lower), kind
_ROUNDS = 3
_GUESSABLE = 16  # shorter secrets may be chosen by people
_PIECE = 1 << 14
_LONG = 12  # a secret with a form of its own is never, with what surrounds it, part of a shorter word


class Finding(NamedTuple):
    """A secret by its offsets in the text; `mark` identifies it without revealing it."""

    kind: str
    start: int
    end: int
    mark: str


class Masked(NamedTuple):
    """The text without its secrets, and what they were (offsets refer to the original text)."""

    text: str
    findings: list[Finding]


def fingerprint(secret: str) -> str:
    """The name of a secret in an allow-list. Do not show it for a secret that could be guessed."""
    raw = secret.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=8, key=b"cortext.safety.secrets.masking").hexdigest()


def find(text: str, allow: AbstractSet[str] = frozenset()) -> list[Finding]:
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
        Finding(kind, start, end, mark)
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


def mask(text: str, allow: AbstractSet[str] = frozenset()) -> Masked:
    """Return the text with a mark for every secret; the same object if there is none.

    `allow` holds what may stay: the literal text, its `fingerprint`, or the six digits of its mark.
    """
    findings = find(text, allow)
    if not findings:
        return Masked(text, findings)
    pieces, offset = [], 0
    for finding in findings:
        pieces += [text[offset : finding.start], f"[masked {finding.kind} {finding.mark}]"]
        offset = finding.end
    return Masked("".join(pieces) + text[offset:], findings)


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


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


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
    announced = secret_words.search(text, plain, lowered)
    spans += [(start, end, len(RULES), kind) for kind, start, end in announced]
    return spans + wrapped.spans(text, words)


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
