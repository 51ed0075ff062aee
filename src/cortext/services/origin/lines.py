"""Lines as evidence: compared without white space, and worth something only if few other places would have them."""

from __future__ import annotations

import re
from collections import Counter

LEAST_CHARACTERS = 12  # letters and digits of a line that says something
LEAST_WORDS = 2
_WORD = re.compile(r"[^\W\d_]{3,}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Words that lines of any program consist of.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "and any args assert async await bool break case catch char class code console const continue data "
        "def default defer del dict double elif else end enum err error errors except exec export extends "
        "extern false finally float fmt for from func function get global goto http https if impl import in "
        "include init int interface is item items key kwargs lambda len let list log long map match mod "
        "module mut name new nil none not null number object of okay or override package pass print private "
        "protected pub public raise range require res result ret return self set short static std str string "
        "struct super switch test then this throw throws true try type typeof undefined unless until use "
        "using val value values var void when where while with yield div span",
    )
)


def normalised(line: str) -> str:
    """Return a line without white space: formatters change that."""
    return "".join(line.split())


def is_distinctive(line: str) -> bool:
    """Whether a line is evidence by itself: `}` and `return None` are in every file."""
    if sum(map(str.isalnum, line)) < LEAST_CHARACTERS:
        return False
    words = {word.lower() for word in _WORD.findall(_CAMEL.sub(" ", line))} - _COMMON
    # A script without spaces has one long word per phrase.
    return len(words) >= LEAST_WORDS or (not line.isascii() and bool(words))


def lines_of(text: str) -> Counter[str]:
    """Return how often each line occurs in a text, without white space and empty lines."""
    return Counter(filter(None, map(normalised, text.splitlines())))
