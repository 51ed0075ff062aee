"""Whether a value has the shape of a secret: random rather than made of words, real rather than a placeholder.

This judges by shape alone: a password that is an ordinary word looks like one and is not detected.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

# The 160 most common pairs of letters: 82% of the pairs in words and identifiers, 24% of those in random text.
_COMMON_PAIRS = (
    "in er re te es on at ti en ed st le co nt de ar se ng al or li me et ra an it ri ta di ne ec io is tr ro nd "
    "ns pe ge ma la ve ic si ac ca pa pr un na ce lo ea ct il th fi as el rs ts ch to ll am nc ss om ex he mp od "
    "ou op im em po rt ly su pl ad ut ur ni ha no mi ol bl ab oc ck ap mo ie id os ai ir sh us ho ep ig cl ul sp "
    "ot ke da ef ia fo rm sc pt ee va ag ff iv ow tt so do ty cr pi um hi if ls tu rr ib ev ds sa fr ci rc ip pp "
    "oo qu ze rd iz nf bi ub fe be ba lt wa vi up cu bu wi tl"
)
_PAIRS = frozenset(_COMMON_PAIRS.split())

# The three long patterns are compiled when a value is first judged: most texts hold none.
_FILLERS = (
    r"(?is)example|placeholder|change[_-]?(?:me|it|this)|replace|redacted|censored|removed|masked|hidden|sample|insert"
    r"|goes[_-]?here|not[_-]?a?[_-]?real|_here\b|-here\b|abcdefgh|12345678|87654321|\.\.\.|…|\*\*\*|(?P<run>.)(?P=run){7}"
    # Four letters are met by chance in a long key, unless their case must agree.
    r"|(?-i:xxxx|XXXX|your|YOUR|Your|fake|FAKE|Fake|dummy|DUMMY|Dummy)"
)
# What stands where a value would: a variable, a template, a tag, a call, a path, a mask.
_REFERENCE = (
    r"(?i)\$\{|\$\(|\{\{|\{[A-Za-z_][\w.]*\}|%[({][A-Za-z_]|^%[sdrv]$|^[<\[({]|^@\w+@$|^%\w+%$"
    r"|\bprocess\.env|\bos\.environ|\bgetenv|\benv[.:(\[]|\bsecrets?\.[A-Za-z_]|\bvars?\.[A-Za-z_]|\bvault:|\bop://"
    r"|\bfile:|\bref\+|\barn:aws|^(?:~|\.{1,2})/|^/(?:home|usr|etc|var|tmp|opt|root|run|mnt|srv|app|data|dev|Users)/"
    r"|^[A-Za-z]:\\|^https?://|\(\)$|^[*•·.x#_?=-]+$"
)
_STEMS = (
    r"(?i)(?:my|the|some|new|old|test|db|root|admin|super|top|user|default|dev|local|bad|good|wrong|correct|plain|no)?[_.-]?"
    r"(?:passw(?:or)?[dt]|pass|pwd|pw|secret|token|api[_.-]?key|key|test|admin|root|user|username|guest|default|login"
    r"|postgres|mysql|mongo|redis|rabbitmq|minio|elastic|demo|dev|local|sa|foo|bar|foobar|baz|qux|none|null|nil|true|false|empty"
    r"|undefined|string|str|value|text|bytes|hello|abc|letmein|changeme|changeit|qwerty|welcome|invalid|required|optional"
    r"|base|sha|md|utf|oauth|argon|pbkdf|bcrypt|scrypt|saml|totp|bearer|basic|public|private|passphrase|credentials?|unset|unknown|todo|tbd|n/?a)"
    r"[_.-]?(?:value|string|key|here|word)?[_.-]?[\d!@#$*.]{0,4}"
)
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"(?:0x)?[0-9a-f]+|(?:0x)?[0-9A-F]+")
_LETTER_RUNS = re.compile(r"[a-z]{2,}")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->|\?\.)[A-Za-z_]\w*)+")
_CALL = re.compile(r"[A-Za-z_][\w.:]{2,}[(\[]")
_CAMEL = re.compile(r"[A-Za-z][a-z]*(?:[A-Z][a-z]+)*[0-9]?")
_SEPARATORS = "-_./:"


def placeholder(value: str) -> bool:
    """Whether the value stands for a secret without being one: filler, a variable, a template, a mask."""
    if re.search(_FILLERS, value) or re.search(_REFERENCE, value):
        return True
    if _VARIABLE.fullmatch(value) and not (_mixed(value) and turns(value) >= 3):
        return True
    return len(set(value)) < min(5, len(value))


def entropy(value: str) -> float:
    """Return the bits per character, by the value's own frequencies."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values()) if size else 0.0


def turns(value: str) -> int:
    """Count how often the kind of character changes. Upper to lower case does not count: words begin like that."""
    kinds = ["a" if c.islower() else "A" if c.isupper() else "0" if c.isdigit() else "." for c in value]
    pairs = pairwise(kinds)
    return sum(1 for one, two in pairs if one != two and (one, two) != ("A", "a") and "." not in (one, two))


def worded(value: str, share: float = 0.5) -> bool:
    """Whether the value is built of words, as names are: this share of its letter pairs is common."""
    pairs = [run[i : i + 2] for run in _LETTER_RUNS.findall(value.lower()) for i in range(len(run) - 1)]
    if len(pairs) < 2:
        return False
    common = sum(pair in _PAIRS for pair in pairs) / len(pairs)
    if len(pairs) >= 20:  # more pairs are better evidence
        share = max(share, 0.56)
    return common >= share and turns(value) < 0.27 * (len(value) - 1)


def random_key(value: str) -> bool:
    """For keys with a known prefix whose body could also be an identifier: varied, and not words."""
    return not placeholder(value) and not _named(value) and entropy(value) >= 3.0


def mixed_key(value: str) -> bool:
    """Lower case, upper case and digits, and not words: what base64 of random bytes looks like."""
    return _mixed(value) and random_key(value)


def _named(value: str) -> bool:
    # Random letters form words by chance; with upper case and digits among them, more evidence is needed.
    return worded(value, 0.7 if _mixed(value) else 0.5)


def _mixed(value: str) -> bool:
    return not value.islower() and not value.isupper() and any(c.isdigit() for c in value)


def digits_and_letters(value: str) -> bool:
    """At least four digits and four letters: an id in lower case that is not a word."""
    return not placeholder(value) and sum(c.isdigit() for c in value) >= 4 and sum(c.isalpha() for c in value) >= 4


def _member(value: str) -> bool:
    """`settings.database.password`, `ask()`: a reference to a value, not a value."""
    return bool(_CALL.match(value)) or (bool(_DOTTED.fullmatch(value)) and worded(value))


def is_hex(value: str, least: int) -> bool:
    """At least `least` hexadecimal digits, with both decimal digits and letters among them."""
    digits = sum(c.isdigit() for c in value)
    return len(value) >= least and bool(_HEX.fullmatch(value)) and digits >= 3 and len(value) - digits >= 2


def assigned_key(value: str, *, firm: bool, uuid: bool = False) -> bool:
    """For values assigned to a key, a token or a secret. `firm`: quoted, or a line of an environment file;
    `uuid`: even a UUID would grant access here."""
    size = len(value)
    if size < 8 or placeholder(value) or re.fullmatch(_STEMS, value) or _member(value):
        return False
    if _UUID.fullmatch(value):
        return firm and uuid
    digits = sum(c.isdigit() for c in value)
    if _HEX.fullmatch(value):
        return is_hex(value, 16)
    if not digits:
        return size >= 16 and not worded(value) and any(c.isalpha() for c in value) and entropy(value) >= 3.2
    if size - digits < 2 or _named(value):
        return False
    if size >= 16:
        return entropy(value) >= 3.0 and turns(value) >= 3
    return firm and turns(value) >= 3 and entropy(value) >= 2.8


def assigned_password(value: str, *, firm: bool, alone: bool) -> bool:
    """For what is assigned to a password. `alone`: nothing follows on the line. People's passwords are short
    and half words, so what speaks against one is the look of code or of a name."""
    if len(value) < 5 or placeholder(value) or re.fullmatch(_STEMS, value) or _member(value):
        return False
    if 2 * sum(c.isascii() for c in value) <= len(value):  # a word of a script without spaces, not a password
        return False
    letters = any(c.isalpha() for c in value)
    digits = any(c.isdigit() for c in value)
    special = any(not c.isalnum() and c not in _SEPARATORS for c in value)
    if "passw" in value.lower() and worded(value):
        return False
    if not digits and not special:
        words = [word for word in re.split(r"[-_.]", value) if word]
        if firm and len(words) >= 4 and len(value) >= 20:
            return "_" not in value and "--" not in value
        return len(value) >= 8 and not worded(value) and (firm or turns(value) >= 2)
    if not letters:
        return firm and len(value) >= 6 and special
    if firm:
        return special or not (value.islower() and worded(value) and any(c in "_./:" for c in value))
    if special:
        return (
            len(value) >= 6
            and (digits or not (value.islower() or value.isupper()))
            and not any(c in "(){}[]" for c in value)
        )
    if worded(value):
        return (alone and value.isalnum()) or (_mixed(value) and len(value) >= 8 and not _CAMEL.fullmatch(value))
    return turns(value) >= 3 or (len(value) >= 8 and turns(value) >= 2)


def url_password(user: str, value: str) -> bool:
    """For the password in a URL: everything but placeholders, templates and what every program ships with."""
    return not (
        placeholder(value) or value == user or re.fullmatch(_STEMS, value) or (value.isdigit() and len(value) < 6)
    )
