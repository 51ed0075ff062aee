"""Secrets announced by the word before them: `password = …`, `"api_key": …`, `Authorization: Bearer …`, also in prose.

The word is searched literally in the lowered text; the pattern is then matched at that offset only, and the shape of
the value decides. Judging by shape can be wrong both ways; the word before the value keeps that rare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cortext.safety.secrets import shapes

_WORDS = ("pass", "pwd", "pw", "secret", "token", "key", "bearer", "credential", "kennwort")
_OTHER_WORDS = ("пароль", "Пароль", "密码", "密碼", "口令", "パスワード", "비밀번호")

_KIND = {"key": "key", "token": "token", "bearer": "token", "secret": "secret", "credential": "secret"}
_NOTHING = ("", 0, 0)
_LONG = 200
_JOINTS = "_-. "


def _endings(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# A `key` is a secret only after one of these: `API_KEY`, `apiKey`, `api key` and `x-api-key` all end like that.
_KEY_OF = _endings(
    "api access auth private signing signature encryption encrypt crypto cipher aes hmac master account shared service "
    "admin app application client subscription deploy webhook integration function storage role root write server "
    "secret session cookie jwt ssh maps license licence consumer customer developer host user"
)
# Tokens and keys of these kinds are public, mere ids, or cursors of a list.
_HARMLESS = _endings(
    "public publishable pub csrf xsrf page next prev continuation pagination cursor sync resume delta cache primary "
    "foreign partition sort row dedup idempotency etag ssh_host anon site tracking preview cancel cancellation request "
    "change update verification publickey"
)
# Where a value without quotes ends: before code, before the next value, before what closes the sentence. A
# password may hold any of these signs, so there only what comes after them tells.
_FULL_WIDTH = str.maketrans("：＝", ":=")
_LETTER = re.compile("[A-Za-z]")
_KEY_ENDS = re.compile(r"[,;&)}\](\[{|]|\.$|\*\*")
_PASSWORD_ENDS = re.compile(r"[&;,](?=[\w.\x20-]{1,40}[=:])|[,;)}\]|]+$|\.$|\*\*$")
_FLAG = re.compile(r"[\s\"'(]--?[\w-]*$")
_DOCKER_ENV = re.compile(r"(?:^|[\n\d→|+]|\\[nt])[ \t]*(?:ENV|ARG)[ \t]+[A-Za-z0-9_]*$")
# These three are compiled when they are first needed: an element, its end, and what a name that announces a secret
# ends with, perhaps before a number or a word for where it is used.
_ELEMENT = r"<[\w:.-]{0,60}(?:\s{1,4}(?:name|key|id)=\\{0,3}[\"'][\w:.-]{0,60})?$"
_CLOSED = r"(?:\]\]>)?(?:\s|\\[nrt]){0,20}</"
_NAME = (
    r"(?i)(passw(?:or)?[dt]e?|passphrase|passcode|pass|pwd|pw|kennwort|secret|token|key|credentials?)"
    r"(?:[_.-]?(?:value|string|plain|raw|prod(?:uction)?|stag(?:e|ing)|dev|live|test|old|new|default|[0-9]{1,2}))?$"
)
# What no key and hardly a password holds, and what therefore ends one: other scripts, their signs, printed quotes.
# Compiled at the first such value: it takes 13 ms, and every command imports this module.
_FOREIGN = "[«»\u0370-\u1cff\u2010-\u2bff\u2e80-\U0010ffff]"
_LEAST = 4  # characters of a value before that
# Tokens that open doors even where they look like ids.
_GRANTS = _endings("access auth api refresh bot deploy personal private secret session login user")


# Compiled at the first such word: most texts hold none.
_ANNOUNCED = r"""(?ix)
    (?P<word> passw(?:or)?[dt]e? | passphrase | passcode | pass(?![a-z]) | pwd | pw(?![a-z]) | kennwort
      | пароль | 密[码碼] | 口令 | パスワード | 비밀번호
      | secret (?:[_\-.\x20]? (?:access[_\-.\x20]?)? key)? (?:[_-]?base)?
      | token | key | bearer | credentials? )
    (?: [_\-]? (?:value|string|plain|raw|prod(?:uction)?|stag(?:e|ing)|dev|live|test|old|new|[0-9]{1,2})
       (?![a-z]) )?
    (?: \\{0,3} ["'`] \]? | \*\* ){0,2}+
    [\x20\t]{0,8}+
    (?: \( [^()\n]{0,30} \) [\x20\t]{0,4}+ | \[ [^\]\n]{0,30} \] [\x20\t]{0,4}+ )?
    (?P<link>
        : [\x20\t]{0,4}+ [A-Za-z_][\w.]{0,20} (?: [\[<][\w\x20|]{1,20}[\]>] )?
          (?:[\x20\t]?\|[\x20\t]?None)? [\x20\t]{0,4}+ = (?!=)
      | := | => | -> | ={1,3} | != | : (?:\*\*)?
      | (?:就?是|为|為|は|은|는|это)? [：＝:] | 就?是 | 为 | 為 | は | 은 | 는
      | (?:—[\x20]?)? это (?=[\x20])
      | ,? (?: \s{0,20} [\w:.-]{1,40} = \\{0,3} ["'] [^"'<>]{0,100} ["'] ){0,4}?
        \s{0,20}+ \\{0,3} ["']? value \\{0,3} ["']? \s{0,4}+ [:=]
      | (?: \s{0,4} [\w:.-]{1,40} = \\{0,3} ["'] [^"'<>]{0,100} ["'] ){0,4}?
        > (?: <!\[CDATA\[ | (?: \\{1,2} [nrt] | \s ){1,40} )?
      | (?<=["'`]) , (?=[\x20\t]{0,4}\\{0,3}["'`])
      | (?:is|was|are|ist|lautet|est|es|to|used|as)
        (?: [\x20\t]{1,4}+ (?:now|still|currently|set[\x20]to|just|jetzt) )? (?: : | (?=[\x20\t]) )
      | (?<=[\x20\t]) (?=["'`A-Za-z0-9!#$%&*+/=?@^_~.-])
      | \( (?=\\{0,3}["'`])
    )
    \s{0,8}+
    (?: (?:bearer|token|basic|apikey|key) [\x20]{1,4}+ )?
    [「『“„«‘‚‹]?+ (?: [rbuf] (?=\\{0,3}["'`]) )? (?P<escape> \\{0,3} ) (?P<quote> ["'`] | \*\*(?!\*) )?
    (?P<value> [^\s"'`<>\\]{4,2048}+ )
    """


def announces(name: str) -> bool:
    """Whether a value under this name could be a secret because of the name."""
    low = name.lower()
    return any(word in low for word in _WORDS + _OTHER_WORDS)


def is_secret_under(name: str, value: str) -> bool:
    """Whether a quoted value is a secret, judged by its shape, because a setting of this name holds it."""
    found = re.search(_NAME, name)
    if found is None:
        return False
    word, before, owner = found[1], name[: found.start()], name[: found.start()].lower().rstrip(_JOINTS)
    low = word.lower()
    if low in ("pass", "pwd", "pw") or low.startswith(("passw", "passp", "passc", "kennwort")):
        glued = low in ("pass", "pw") and before[-1:].isalpha() and not (before[-1].islower() and word[0].isupper())
        return not glued and shapes.assigned_password(value, firm=True, alone=True)
    if owner.endswith(_HARMLESS) or (low == "key" and not owner.endswith(_KEY_OF)):
        return False
    return shapes.assigned_key(value, firm=True, uuid=low != "token" or owner.endswith(_GRANTS))


def search(text: str, plain: str, words: str) -> Iterator[tuple[str, int, int]]:
    """Yield the kind, start and end of every value that such a word announces.

    `plain` is the text reduced to ASCII with all offsets unchanged; `words` are its distinct words in lower case.
    """
    found = tuple([word for word in _WORDS if word in words])
    if found:
        yield from _search(text, plain.lower(), found)
    if not text.isascii():
        yield from _search(text, text, tuple([word for word in _OTHER_WORDS if word[0] in text]))


def _search(text: str, low: str, words: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    for word in words:
        offset = low.find(word)
        while offset >= 0:
            kind, start, end = _look(text, low, offset, word)
            if kind:
                yield kind, start, end
            # A long value that was judged is not judged again from its middle: the work stays linear.
            offset = low.find(word, end if kind or end - start > _LONG else offset + len(word))


def _look(text: str, low: str, offset: int, word: str) -> tuple[str, int, int]:
    """Return the value after the word at this offset; the kind is empty if it is not a secret."""
    before = text[offset - 24 : offset] if offset > 24 else "\n" + text[:offset]
    owner = low[max(0, offset - 24) : offset].rstrip(_JOINTS)
    if word in ("key", "token", "secret") and owner.endswith(_HARMLESS):
        return _NOTHING
    if word == "key" and not owner.endswith(_KEY_OF) and not (before[-1:] == "_" and before[-2:-1].isupper()):
        return _NOTHING
    match = re.compile(_ANNOUNCED).match(text, offset)
    if match is None or (before[-1:] == ":" and match["link"] == ":"):  # a name such as arn:…:secret:…
        return _NOTHING
    if match["word"].lower() in ("pass", "pw") and not _is_name(text, match, before):
        return _NOTHING
    if match["link"] == "(" and before[-1:].islower() and text[offset].islower():  # getpass("…")
        return _NOTHING
    kind = _KIND.get(word, "password")
    start, end = _extent(text, match, kind)
    if start >= end or not _is_secret(text, match, kind, before, start, end):
        return "", start, end
    return kind, start, end


def _extent(text: str, match: re.Match[str], kind: str) -> tuple[int, int]:
    """Return the bounds of the value: up to its quote; up to a space in an environment file; elsewhere before code."""
    start, end = match.span("value")
    value = match["value"]
    if match["quote"] == "**":
        cut = value.find("**")
        return (start, start + cut) if cut > 0 else (start, end)
    if match["quote"]:
        # The value must reach its closing quote: with a space in it, it is a sentence and not a secret.
        closed = text.startswith(match["escape"] + match["quote"], end)
        return (start, end) if closed else (start, start)
    is_mixed = not value.isascii() and value[:_LEAST].isascii()
    foreign = re.compile(_FOREIGN).search(value, _LEAST) if is_mixed else None
    if foreign:
        end = start + foreign.start()
        value = text[start:end]
    if not _is_environment(text, match):
        stop = (_PASSWORD_ENDS if kind == "password" else _KEY_ENDS).search(value)
        if stop:
            end = start + stop.start()
    prose = match["link"][:1].isalpha()
    return start, start + len(text[start:end].rstrip(".,:;!?)*" if prose else ".,:;)"))


def _plain(link: str) -> str:
    """Return what links a word to its value, with ASCII for full-width signs."""
    return link.translate(_FULL_WIDTH)


def _is_environment(text: str, match: re.Match[str]) -> bool:
    """Whether this is `DB_PASSWORD=…` or, as in compose files, `DB_PASSWORD: …`."""
    name = text[match.start() : match.start("value")]
    return match["word"].isupper() and (
        (match["link"] == "=" and not any(c.isspace() for c in name)) or (match["link"] == ":" and name.endswith(": "))
    )


def _is_docker_env(text: str, offset: int) -> bool:
    """Whether this is the older form of a Dockerfile, `ENV DB_PASSWORD …`, without an equals sign."""
    return _DOCKER_ENV.search(text[max(0, offset - 80) : offset]) is not None


def _is_element(text: str, match: re.Match[str], end: int) -> bool:
    """Whether this is the whole text of an element, `<ApiKey>…</ApiKey>` or `<string name="api_key">…</string>`."""
    return bool(
        ">" in match["link"]
        and re.compile(_CLOSED).match(text, end)
        and re.search(_ELEMENT, text[max(0, match.start() - 140) : match.start()])
    )


def _is_name(text: str, match: re.Match[str], before: str) -> bool:
    """Whether `pass` names a value: tests pass too, and functions pass arguments."""
    link = _plain(match["link"]).strip()
    if before[-1:] == ":" or (_LETTER.match(before[-1:]) and not (before[-1].islower() and match["word"][0].isupper())):
        return False
    if link[:1] not in ("=", ":", ","):
        return not link and (before.endswith("-") or _is_docker_env(text, match.start()))
    return before[-1:] in "_-\"'." if text[match.start() : match.end("word")].isupper() and link == ":" else True


def _is_secret(text: str, match: re.Match[str], kind: str, before: str, start: int, end: int) -> bool:
    link, quoted = _plain(match["link"]), bool(match["quote"])
    bearer = match["word"].lower() == "bearer"
    flag = not link.strip() and bool(_FLAG.search(before) or _is_docker_env(text, match.start()))
    bare = not link.strip() and not quoted and not flag and not bearer
    if bare and end - start < 20:
        return False
    value = text[start : min(end, start + 4 * _LONG)]
    if bare:  # "the token t8Kq…": only if it can be nothing else
        return shapes.assigned_key(value, firm=False) and (shapes.mixed_key(value) or shapes.is_hex(value, 32))
    following = text[end : end + 1]
    if not quoted and following and following in "([{" and kind != "password":
        return False  # a call or an element, not a value
    environment = _is_environment(text, match)
    firm = quoted or flag or environment or "value" in link.lower() or _is_element(text, match, end)
    if kind == "password":
        alone = (
            not following
            or following in "\r\n;&<"
            or not following.isascii()
            or text.startswith(("\\n", "\\r"), end)
            or link[:1].isalpha()
        )
        return shapes.assigned_password(value, firm=firm, alone=alone)
    named = kind != "token" or bearer or environment or before.lower().rstrip(_JOINTS).endswith(_GRANTS)
    return shapes.assigned_key(value, firm=firm or bearer or link in (":", "="), uuid=named)
