"""`cortext note`: keep notes on a conversation."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.cortext.commands._which import HELP_ID, which
from cortext.faces.terminal.args import Help, count
from cortext.faces.terminal.output import print_json
from cortext.model import clock
from cortext.model.order import order_of
from cortext.safety import terminal
from cortext.services.library.order import add_note, notes_json, remove_note, save
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext note",
        formatter_class=Help,
        description="Keep a note on a conversation; without words, show its notes. No AI tool sees them; secrets in "
        "them are masked. --remove N removes a note.",
        epilog="examples:  cortext note 014 waits for the answer of legal  ·  cortext note 014 --remove 1",
    )
    made.add_argument("session", help=HELP_ID)
    made.add_argument("words", nargs="*", help="the note (default: show the notes)")
    made.add_argument("--remove", type=count, default=0, metavar="N", help="remove the note with this number")
    made.add_argument("--json", action="store_true", help="print the notes as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Print the notes, add one or remove one."""
    options = parser().parse_intermixed_args(arguments)
    if options.words and options.remove:
        raise UsageError("both a note and --remove were given", kept="nothing was changed", hint="use one of them")
    found = which(Stores(), options.session, words=False)
    session, saved = found.session, ""
    if options.words:
        note = add_note(found.named_store, session, " ".join(options.words))
        saved = save(found.named_store, [session.id])
        number = [item.id for item in order_of(session.extra).notes].index(note.id) + 1
        if not options.json:
            print(terminal.line(f"Noted on {session.id}: {note.text}"))
            print(f"Undo: cortext note {session.id} --remove {number}")
    elif options.remove:
        note = remove_note(found.named_store, session, options.remove)
        saved = save(found.named_store, [session.id])
        if not options.json:
            print(terminal.line(f"Removed from {session.id}: {note.text}"))
            print(terminal.line(f"Undo: cortext note {session.id} {shlex.quote(note.text)}"))
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
