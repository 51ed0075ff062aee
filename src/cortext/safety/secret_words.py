"""Secrets known by the word before them: `password = …`, `"api_key": …`, `Authorization: Bearer …`, in prose too.

The word is searched literally in the lowered text; the pattern then looks at one place, and the shape of the
value decides. What is judged by shape alone can be wrong both ways; the word before it keeps that rare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from cortext.safety import secret_shapes as shapes

WORDS = (
    "pass",
    "pwd",
    "pw",
    "secret",
    "token",
    "key",
    "bearer",
    "credential",
    "kennwort",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
)

_KIND = {"key": "key", "token": "token", "bearer": "token", "secret": "secret", "credential": "secret"}

# `key` is a key of this sort only behind one of these; `API_KEY`, `apiKey`, `api key`, `x-api-key` all end so.
_KEY_OF = re.compile(
    r"(?:api|access|auth|private|signing|signature|encryption|encrypt|crypto|cipher|aes|hmac|master|account|shared|service"
    r"|admin|app|application|client|subscription|deploy|webhook|integration|function|storage|role|root|write|server|secret"
    r"|session|cookie|jwt|ssh|maps|license|licence|consumer|customer|developer|host|user)[_\-. ]?$",
    re.IGNORECASE,
)
_ENVIRONMENT = re.compile(r"[A-Z0-9]+_$")
# A token or key of these sorts is handed out freely, or says where a list goes on.
_HARMLESS = re.compile(
    r"(?:public|publishable|pub|csrf|xsrf|page|next|prev|continuation|pagination|cursor|sync|resume|delta|cache|primary"
    r"|foreign|partition|sort|row|dedup|idempotency|etag|ssh[_-]host|anon|site|tracking|preview|cancel(?:lation)?|request|change|update|verification)"
    r"[_\-. ]?$",
    re.IGNORECASE,
)


# Tokens that open doors: the others may be mere ids.
_GRANTS = re.compile(
    r"(?:access|auth|api|refresh|bot|deploy|personal|private|secret|session|login|user)[_\-. ]?$", re.IGNORECASE
)


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(
        r"""
        (?P<word> passw(?:or)?[dt]e? | passphrase | passcode | pass(?![a-z]) | pwd | pw(?![a-z]) | kennwort
          | пароль | 密[码碼] | パスワード
          | secret (?:[_\-.\x20]? (?:access[_\-.\x20]?)? key)? (?:[_-]?base)?
          | token | key | bearer | credentials? )
        (?: [_\-]? (?:value|string|plain|raw|prod(?:uction)?|stag(?:e|ing)|dev|live|test|old|new|[0-9]{1,2})
           (?![a-z]) )?
        (?: \\{0,3} ["'`] | \*\* | [\]>)] ){0,3}+
        [\x20\t]{0,8}+
        (?: \( [^()\n]{0,30} \) [\x20\t]{0,4}+ | \[ [^\]\n]{0,30} \] [\x20\t]{0,4}+ )?
        (?P<link>
            : [\x20\t]{0,4}+ [A-Za-z_][\w.]{0,20} (?: [\[<][\w\x20|]{1,20}[\]>] )?
              (?:[\x20\t]?\|[\x20\t]?None)? [\x20\t]{0,4}+ = (?!=)
          | := | => | -> | ={1,3} | != | : (?:\*\*)? | ： | ＝
          | ,? \s{1,20}+ \\{0,3} ["']? value \\{0,3} ["']? \s{0,4}+ [:=]
          | , (?=[\x20\t]{0,4}\\{0,3}["'`])
          | (?:is|was|are|ist|lautet|est|es|to|used|as)
            (?: [\x20\t]{1,4}+ (?:now|still|currently|set[\x20]to|just|jetzt) )? (?: : | (?=[\x20\t]) )
          | (?<=[\x20\t]) (?=["'`A-Za-z0-9!#$%&*+/=?@^_~.-])
          | (?<=>)
        )
        \s{0,8}+
        (?: (?:bearer|token|basic|apikey|key) [\x20]{1,4}+ )?
        [rbuf]? (?P<escape> \\{0,3} ) (?P<quote> ["'`] | \*\*(?!\*) )?
        (?P<value> [^\s"'`<>\\]{4,4096}+ )
        """,
        re.IGNORECASE | re.VERBOSE,
    )


def lowered(text: str) -> str:
    """The text in small letters, each at its old place (a few letters grow when they are lowered)."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def search(text: str) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of every value that such a word announces."""
    low = lowered(text)
    for word in WORDS:
        place = low.find(word)
        while place >= 0:
            found = _look(text, place, word)
            if found:
                yield found
            place = low.find(word, found[2] if found else place + len(word))


def _look(text: str, place: int, word: str) -> tuple[str, int, int] | None:
    before = text[max(0, place - 24) : place]
    if word in ("key", "token", "secret") and _HARMLESS.search(before):
        return None
    if word == "key" and not _KEY_OF.search(before) and not _ENVIRONMENT.search(before):
        return None
    if word in ("pw", "pass") and before[-1:].isalpha() and not (before[-1].islower() and text[place].isupper()):
        return None
    match = _pattern().match(text, place)
    if match is None or (before[-1:] == ":" and match["link"] == ":"):  # a name such as arn:…:secret:…
        return None
    if match["word"].lower() == "pass" and not _is_name(text, match, before):
        return None
    kind = _KIND.get(word, "password")
    start, end = _extent(text, match)
    if start >= end or not _is_secret(text, match, kind, before, start, end):
        return None
    return kind, start, end


def _extent(text: str, match: re.Match[str]) -> tuple[int, int]:
    """Where the value begins and ends: at its quote; at the blank in an environment file; before code elsewhere."""
    start, end = match.span("value")
    value = match["value"]
    if match["quote"] == "**":
        cut = value.find("**")
        return (start, start + cut) if cut > 0 else (start, end)
    if match["quote"]:
        # The value must reach its closing quote: a blank in it makes it a sentence, not a secret.
        closed = text.startswith(match["escape"] + match["quote"], end)
        return (start, end) if closed else (start, start)
    if not _is_environment(text, match):
        stop = re.search(r"[,;&)}\](\[{|]|\.(?=$)|\*\*", value)
        if stop:
            end = start + stop.start()
    stripped = text[start:end].rstrip(".,:;!?)*" if match["link"][:1].isalpha() else ".,:;)")
    return start, start + len(stripped)


def _is_environment(text: str, match: re.Match[str]) -> bool:
    name = text[match.start() : match.start("value")]
    return match["link"] == "=" and match["word"].isupper() and not any(c.isspace() for c in name)


def _is_name(text: str, match: re.Match[str], before: str) -> bool:
    """Whether `pass` names a value: tests pass, and functions pass things on."""
    link = match["link"].strip()
    if not link:
        return before.endswith("-")
    return before[-1:] in "_-\"'." if text[match.start() : match.end("word")].isupper() and link == ":" else True


def _is_secret(text: str, match: re.Match[str], kind: str, before: str, start: int, end: int) -> bool:
    value = text[start:end]
    link, quoted = match["link"], bool(match["quote"])
    following = text[end : end + 1]
    if not quoted and following and following in "([{" and kind != "password":
        return False  # a call or an element, not a value
    flag = bool(re.search(r"(?:^|\s)--?[\w-]*$", before)) and not link.strip()
    firm = quoted or flag or "value" in link.lower() or _is_environment(text, match)
    bearer = match["word"].lower() == "bearer"
    if (
        not link.strip() and not quoted and not flag and not bearer
    ):  # "the token t8Kq…": only what could be nothing else
        return len(value) >= 20 and shapes.assigned_key(value, firm=False) and shapes.mixed_key(value)
    if kind == "password":
        alone = not following or following in "\r\n" or text.startswith(("\\n", "\\r"), end)
        return shapes.assigned_password(value, firm=firm, alone=alone)
    named = kind != "token" or bearer or bool(_GRANTS.search(before)) or _is_environment(text, match)
    return shapes.assigned_key(value, firm=firm or bearer or link in (":", "="), uuid=named)
