"""`cortext note`: keep notes on conversations."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from cortext.errors import UsageError
from cortext.faces.cortext.commands._filters import is_filtered
from cortext.faces.cortext.commands._order import add_bulk_options, change
from cortext.faces.cortext.commands._which import HELP_ID, named, which
from cortext.faces.terminal.args import Help, count
from cortext.faces.terminal.output import print_json
from cortext.faces.terminal.reading import stores_for
from cortext.model import clock
from cortext.model.order import NOTE, order_of
from cortext.safety import terminal
from cortext.safety.languages import typed
from cortext.services.library import last_change
from cortext.services.library.order import add_note, checked_note, notes_json, remove_note, save
from cortext.services.library.stores import Found


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext note",
        formatter_class=Help,
        description="Keep a note on a conversation, or on many that filters choose; without words, show the notes of "
        "a conversation. No AI tool sees them; secrets in them are masked. --remove N removes a note.",
        epilog="examples:  cortext note 014 waits for the answer of legal  ·  cortext note 014 --remove 1  ·  "
        "cortext note --tag billing moved to the new ledger --dry-run",
    )
    made.add_argument("session", nargs="?", default="", help=f"{HELP_ID}; with filters, the first word of the note")
    made.add_argument("words", nargs="*", help="the note (default: show the notes)")
    made.add_argument("--remove", type=count, default=0, metavar="N", help="remove the note with this number")
    add_bulk_options(made, "print the notes as JSON; with filters, the sessions that changed")
    return made


def run(arguments: list[str]) -> int:
    """Print the notes, add one or remove one."""
    options = parser().parse_intermixed_args(arguments)
    given = [word for word in (options.session, *options.words) if word]
    if options.undo:
        return change(options, NOTE, given)
    if is_filtered(options) or (options.dry_run and options.words):
        return _note_many(options, given)
    if not options.session:
        hint = "name one by its number or id, or choose several by filters such as --tool or --before"
        raise UsageError("no conversation was given", kept="nothing was changed", hint=hint)
    if options.words and options.remove:
        raise UsageError("both a note and --remove were given", kept="nothing was changed", hint="use one of them")
    if options.dry_run:
        raise UsageError("no note was given", kept="nothing was changed", hint="use cortext note ID WORDS --dry-run")
    found = which(stores_for(only_reads=not (options.words or options.remove)), options.session, words=False)
    session, saved = found.session, ""
    if options.words:
        note = add_note(found.named_store, session, " ".join(options.words))
        saved = _kept(found, note.text, on=True)
        number = [item.id for item in order_of(session.extra).notes].index(note.id) + 1
        if not options.json:
            print(terminal.line(f"Noted on {named(found)}: {note.text}"))
            print(f"Undo: cortext note {session.id} --remove {number}")
    elif options.remove:
        note = remove_note(found.named_store, session, options.remove)
        saved = _kept(found, note.text, on=False)
        if not options.json:
            print(terminal.line(f"Removed from {named(found)}: {note.text}"))
            print(terminal.line(f"Undo: cortext note {session.id} {typed([note.text])}"))
    if saved:
        print(terminal.line(f"Note: {session.id}: {saved}"), file=sys.stderr)
    order = order_of(session.extra)
    if options.json:
        print_json(notes_json(order))
    elif not options.words and not options.remove:
        for number, note in enumerate(order.notes, 1):
            print(terminal.line(f"{number}. {note.text}  ({clock.short(note.at)})"))
        if not order.notes:
            print(terminal.line(f"{session.id} has no notes. Add one: cortext note {session.id} WORDS"))
    return 0


def _kept(found: Found, text: str, *, on: bool) -> str:
    """Remember a change for `--undo` and commit it; return what the user should know."""
    last_change.remember(NOTE, on=on, parts=[last_change.Part(found.named_store.root, found.session.id, [text])])
    return save(found.named_store, [found.session.id])


def _note_many(options: Namespace, words: Sequence[str]) -> int:
    """Note the same on many conversations, or show on which; on one if it is named."""
    if options.remove:
        hint = "use cortext note ID --remove N, or cortext note --undo"
        raise UsageError("--remove is for one conversation", kept="nothing was changed", hint=hint)
    is_many = is_filtered(options)
    text = " ".join(words if is_many else words[1:])
    return change(options, NOTE, () if is_many else words[:1], [checked_note(text)])
