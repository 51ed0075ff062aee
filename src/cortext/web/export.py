"""`cortext export --format html`: one file, an encrypted one, or a folder with all conversations.

The entry point of `cortext.exports`.
"""

from __future__ import annotations

import getpass
import itertools
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from cortext.errors import CortextError, DamagedData, NotFound, StoreUnreachable, UnsafePath, UsageError
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.terminal.output import note, report_missing
from cortext.faces.terminal.progress import Progress
from cortext.io import durable, new_files
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.safety import terminal
from cortext.services.library.export import mask_lazily
from cortext.services.library.listing import Row
from cortext.services.library.stores import StoredConversation, damage_note
from cortext.services.projects.projects import project_of
from cortext.services.text.message_masking import mask_session
from cortext.services.text.redaction import Redaction
from cortext.services.text.threads import StoredThread
from cortext.web.command import require_libraries
from cortext.web.html.document import SiteEntry, document, document_chunks, first_page, sealed
from cortext.wiring.stores import Stores

PASSPHRASE = "CORTEXT_EXPORT_PASSPHRASE"
LEAST = 8  # characters of a passphrase
FIRST = "index.html"


class ExportedText:
    """A conversation as it may be given away, and what was masked or redacted in it."""

    def __init__(
        self, conversation: StoredConversation, options: Namespace, kinds: Counter[str], redaction: Redaction
    ) -> None:
        self._found, self._options, self._kinds, self._redaction = conversation, options, kinds, redaction

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


def export_one(conversation: StoredConversation, options: Namespace, kinds: Counter[str]) -> None:
    """Write one conversation to standard output."""
    require_libraries()
    redaction = Redaction(options.redact, [conversation.root, project_of(conversation.session)])
    exported = ExportedText(conversation, options, kinds, redaction)
    how = {"full": options.full, "masked": not options.unmasked}
    if options.encrypt:
        passphrase = _passphrase()
        sys.stdout.write(sealed(document(exported.session, exported.messages(), **how), passphrase))
    else:
        for chunk in document_chunks(exported.session, exported.messages(), **how):
            sys.stdout.write(terminal.block(chunk) if sys.stdout.isatty() else chunk)
    _report(redaction)


class Unreadable(Exception):
    """A conversation that cannot be read; the others can."""


def export_all(stores: Stores, options: Namespace, kinds: Counter[str]) -> int:
    """Write every conversation as a file of a folder, and a first page that lists and searches them.

    Returns 3 if some could not be read; they are left out and reported. The folder appears when it is complete: if
    anything else fails, or the process is killed, it is left as it was.
    """
    require_libraries()
    if options.encrypt:
        raise UsageError("--encrypt works for one conversation", kept="nothing was written", hint="leave --all out")
    folder = os.path.realpath(options.all)
    if os.path.isdir(folder) and os.listdir(folder):
        raise UsageError(f"{folder} is not empty", kept="it is unchanged", hint="name a new folder")
    if folder == os.getcwd():
        raise UsageError(
            f"{folder} is the folder you are in, which is replaced when all pages are complete",
            kept="it is unchanged",
            hint="name a new folder",
        )
    listing = fresh_listing(stores)
    listing = listing.reachable()
    rows = listing.rows(Query(own_commands=False))
    redaction = Redaction(options.redact, {*listing.files, *(row.project for row in rows)})

    damaged: dict[str, str] = {}

    def exported(row: Row) -> ExportedText:
        conversation = listing.found(row)
        if problem := damage_note(conversation):
            damaged[row.id] = problem
        return ExportedText(conversation, options, kinds, redaction)

    with new_files.whole_folder(folder) as building:
        left_out = _write_site(building, rows, exported, options)
    print(terminal.line(os.path.join(folder, FIRST)))
    _report(redaction)
    for name, problem in damaged.items():
        note(f"Note: {name}: {problem}.")
    for name, why in left_out.items():
        print(terminal.line(f"left out {name}: {why}"), file=sys.stderr)
    return report_missing(listing.away) or (3 if left_out else 0)


def _write_site(
    folder: str, rows: Sequence[Row], exported: Callable[[Row], ExportedText], options: Namespace
) -> dict[str, str]:
    """Write the pages, the first one last. Returns what cannot be read, with the reasons."""
    entries: list[SiteEntry] = []
    names = {FIRST}
    left_out: dict[str, str] = {}
    with Progress("Writing pages", len(rows)) as bar:
        for row in rows:
            bar.step()
            # An id is made of the title, so it may contain what is redacted.
            name = _free(f"{len(entries) + 1:04}" if options.redact else row.id, names)
            try:
                conversation = exported(row)
                entry = SiteEntry(conversation.session, name)
                messages = entry.noting(_reading(conversation.messages()))
                masked = not options.unmasked
                chunks = document_chunks(conversation.session, messages, full=options.full, masked=masked)
                pieces = (chunk.encode("utf-8", "replace") for chunk in chunks)
                durable.replace_file(os.path.join(folder, name), pieces)
            except (Unreadable, NotFound, DamagedData, UnsafePath, StoreUnreachable) as error:
                left_out[row.id] = str(error)
                continue
            names.add(name)
            entries.append(entry)
    durable.replace_file(os.path.join(folder, FIRST), [first_page(entries).encode("utf-8", "replace")])
    return left_out


def _free(name: str, taken: set[str]) -> str:
    """Return a name for a file: clones of a workspace have the same ids."""
    numbers = itertools.count(2)
    file = f"{name}.html"
    while file in taken:
        file = f"{name}-{next(numbers)}.html"
    return file


def _reading(messages: Iterator[Message]) -> Iterator[Message]:
    """Yield the messages. Raises Unreadable, so that an error of reading is not taken for one of writing."""
    try:
        yield from messages
    except (CortextError, OSError) as error:
        raise Unreadable(str(error)) from error


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
