"""`cortext export --format html`: one file, an encrypted one, or a folder with all conversations."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator

from cortext.errors import UsageError
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.html import extra
from cortext.faces.terminal.progress import Progress
from cortext.io import files as fsio
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.safety import terminal
from cortext.services.library.export import mask_lazily
from cortext.services.library.stores import Found
from cortext.services.text.masking import mask_session
from cortext.services.text.redaction import Redaction
from cortext.services.text.threads import StoredThread
from cortext.wiring.stores import Stores

PASSPHRASE = "CORTEXT_EXPORT_PASSPHRASE"
LEAST = 8  # characters of a passphrase


class Exported:
    """A conversation as it may be given away, and what was masked or redacted in it."""

    def __init__(self, found: Found, options: Namespace, kinds: Counter[str], redaction: Redaction) -> None:
        self._found, self._options, self._kinds, self._redaction = found, options, kinds, redaction

    @property
    def session(self) -> Session:
        """The metadata."""
        session = self._found.session if self._options.unmasked else mask_session(self._found.session)
        return self._redaction.session(session)

    def messages(self) -> Iterator[Message]:
        """The messages."""
        thread = StoredThread(self._found.store, self._found.session.id, whole=True)
        messages = iter(thread) if self._options.unmasked else mask_lazily(thread, self._kinds)
        return self._redaction.messages(messages)


def export_one(found: Found, options: Namespace, kinds: Counter[str]) -> None:
    """Write one conversation to standard output."""
    extra.require()
    from cortext.faces.html.document import document, document_chunks

    redaction = Redaction(options.redact, found.root)
    exported = Exported(found, options, kinds, redaction)
    if options.encrypt:
        from cortext.faces.html.sealed import sealed

        passphrase = _passphrase()
        sys.stdout.write(sealed(document(exported.session, exported.messages(), full=options.full), passphrase))
    else:
        for chunk in document_chunks(exported.session, exported.messages(), full=options.full):
            sys.stdout.write(terminal.block(chunk) if sys.stdout.isatty() else chunk)
    _report(redaction)


def export_all(stores: Stores, options: Namespace, kinds: Counter[str]) -> None:
    """Write every conversation as a file of a folder, and a first page that lists and searches them."""
    extra.require()
    from cortext.faces.html.document import document
    from cortext.faces.html.site import entry, first_page

    if options.encrypt:
        raise UsageError("--encrypt works for one conversation", kept="nothing was written", hint="leave --all out")
    folder = os.path.abspath(options.all)
    if os.path.isdir(folder) and os.listdir(folder):
        raise UsageError(f"{folder} is not empty", kept="it is unchanged", hint="name a new folder")
    listing = fresh_listing(stores)
    rows = listing.rows(asking=False)
    redaction = Redaction(options.redact)
    fsio.ensure_folder(folder)
    bar = Progress("Writing pages", len(rows))
    entries, names = [], Counter[str]()
    try:
        for row in rows:
            exported = Exported(listing.found(row), options, kinds, redaction)
            messages = list(exported.messages())
            names[row.id] += 1  # clones of a workspace have the same ids
            name = f"{row.id}.html" if names[row.id] == 1 else f"{row.id}-{names[row.id]}.html"
            page = document(exported.session, messages, full=options.full)
            fsio.replace_file(os.path.join(folder, name), [page.encode("utf-8", "replace")])
            entries.append(entry(exported.session, messages, name))
            bar.step()
    finally:
        bar.end()
    first = os.path.join(folder, "index.html")
    fsio.replace_file(first, [first_page(entries).encode("utf-8", "replace")])
    print(terminal.line(first))
    _report(redaction)


def _report(redaction: Redaction) -> None:
    for rule, count in redaction.counts.items():
        print(terminal.line(f"redacted {count} × {rule}"), file=sys.stderr)


def _passphrase() -> str:
    """Return the passphrase, typed twice. Raises UsageError if it is too short or was mistyped."""
    given = os.environ.get(PASSPHRASE, "")
    if not given and sys.stdin.isatty():
        given = getpass.getpass("Passphrase: ")
        if given != getpass.getpass("The same again: "):
            raise UsageError("the two passphrases differ", kept="nothing was written", hint="try again")
    if len(given) < LEAST:
        raise UsageError(
            f"--encrypt needs a passphrase of at least {LEAST} characters",
            kept="nothing was written",
            hint=f"type it at a terminal, or set {PASSPHRASE}",
        )
    return given
