"""Conversations as HTML files: the same look as the page, nothing to load, works from a disk.

A file has one conversation, or a folder has a page for each and a first page with every word that was said and the
conversations it occurs in: its search is complete, and needs no server. A sealed file is encrypted with AES-256-GCM,
with a key that is slow to derive (PBKDF2): its page derives the key with the browser's own WebCrypto. The wrong
passphrase decrypts nothing and shows nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from markupsafe import Markup

from cortext.model import clock
from cortext.model.message import ASSISTANT, TEXT, TOOL_CALL, TOOL_RESULT, USER, Message
from cortext.model.session import Session
from cortext.web.html.message import render
from cortext.web.html.rendering import load_template
from cortext.wiring import tools

BATCH = 200  # messages that are rendered together, and at most as many more until every call has its result
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class _Inside:
    """The links of a message in a file: only to itself."""

    def message(self, seq: int) -> str:
        return f"#m{seq}"

    def reveal(self, seq: int) -> str:
        return ""

    def full(self, seq: int) -> str:
        return ""

    def file(self, path: str) -> str:
        return ""


@cache
def style() -> Markup:
    """Return the style sheets for a file."""
    texts = (files("cortext.web.html").joinpath("static", name).read_text("utf-8") for name in _SHEETS)
    return Markup("\n".join(texts))


_SHEETS = ("reading.css", "document.css")


def document_chunks(
    session: Session, messages: Iterable[Message], *, full: bool = False, masked: bool = True
) -> Iterator[str]:
    """Yield the file, some messages at a time. Session and messages are masked by the caller, as for any export.

    Long texts, results and calls are cut, and say so, unless `full`. If it is not `masked`, the file says that, too.
    """
    head, _, tail = (
        load_template("html/document.html")
        .render(session=session, tool=tools.title(session.origin.tool), style=style(), policy=POLICY, masked=masked)
        .partition("<!-- messages -->")
    )
    yield head
    for batch in _batches(messages):
        whole = {message.seq for message in batch} if full else ()
        yield str(render(batch, _Inside(), full=whole))
    yield tail


def _batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield messages to render together: a result is shown with its call if both are in one batch."""
    batch: list[Message] = []
    waiting: set[str] = set()  # calls without a result yet
    for message in messages:
        batch.append(message)
        for part in message.parts or ():
            if part.type == TOOL_CALL and part.id:
                waiting.add(part.id)
            elif part.type == TOOL_RESULT:
                waiting.discard(part.call_id)
        if len(batch) >= BATCH and (not waiting or len(batch) >= 2 * BATCH):
            yield batch
            batch, waiting = [], set()
    if batch:
        yield batch


def document(session: Session, messages: Iterable[Message], *, full: bool = False, masked: bool = True) -> str:
    """Return the same file at once."""
    return "".join(document_chunks(session, messages, full=full, masked=masked))


ITERATIONS = 600_000  # of PBKDF2 with SHA-256: what OWASP advises
_KEY, _SALT, _NONCE = 32, 16, 12  # bytes


@cache
def _script(name: str) -> str:
    return files("cortext.web.html").joinpath("static", name).read_text("utf-8")


def policy(script: str) -> str:
    """Return the content security policy of a file with exactly this script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def sealed(page: str, passphrase: str) -> str:
    """Return a file that asks for the passphrase and then shows the page."""
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    key = hashlib.pbkdf2_hmac("sha256", passphrase.encode(), salt, ITERATIONS, _KEY)
    ciphertext = AESGCM(key).encrypt(nonce, page.encode("utf-8", "replace"), None)
    fields = {"salt": salt, "nonce": nonce, "ciphertext": ciphertext}
    encoded = {name: base64.b64encode(data).decode() for name, data in fields.items()}
    # Of what is in the file anyway: it tells a damaged file from a wrong passphrase.
    digest = hashlib.sha256(".".join([str(ITERATIONS), *encoded.values()]).encode()).hexdigest()
    script = _script("sealed.js")
    template = load_template("html/sealed.html")
    return template.render(
        style=style(),
        script=script,
        policy=policy(script),
        iterations=ITERATIONS,
        digest=digest,
        **encoded,
    )


LONGEST = 64  # characters of a word; a longer one is found by its beginning
# What `static/site.js` takes for a word too. In scripts without spaces, each sign is one: Thai to Khmer, Kana and Han.
_SIGNS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_SIGNS}]|[^\W_{_SIGNS}]+")


class SiteEntry:
    """A conversation of the site, masked by the caller: its file, and what the first page shows and searches."""

    def __init__(self, session: Session, name: str) -> None:
        self.name = name
        self.title = session.title or session.id or "A conversation"
        facts = [tools.title(session.origin.tool), session.type, clock.short(session.last_active)]
        self.facts = " · ".join(fact for fact in facts if fact)
        self.words = words_in(f"{self.title} {session.id} {self.facts} {session.summary}")

    def noting(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the messages, and note the words of what was said on the way."""
        for message in messages:
            if message.role in (USER, ASSISTANT):
                said = [part.text for part in message.parts or () if part.type == TEXT]
                self.words |= words_in(" ".join([message.content, *said]))
            yield message


def words_in(text: str) -> set[str]:
    """Return the distinct words of a text, as they are compared."""
    return {word[:LONGEST] for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower())}


def index_of(entries: Iterable[SiteEntry]) -> dict[str, list[object]]:
    """Return the words of all entries, in order, and the entries of each: distances, each from the one before."""
    found: dict[str, list[int]] = {}
    last: dict[str, int] = {}
    for number, entry in enumerate(entries):
        for word in entry.words:
            found.setdefault(word, []).append(number - last.get(word, 0))
            last[word] = number
    words = sorted(found, key=lambda word: word.encode("utf-16-be", "surrogatepass"))  # as scripts compare them
    return {"words": [*words], "found": [found[word] for word in words]}


def first_page(entries: Iterable[SiteEntry]) -> str:
    """Return the page that lists and searches them."""
    listed = list(entries)
    # In a script element only "</" and "<!--" could end it early.
    data = json.dumps(index_of(listed), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    script = _script("site.js")
    template = load_template("html/site.html")
    return template.render(entries=listed, data=data, style=style(), script=script, policy=policy(script))
