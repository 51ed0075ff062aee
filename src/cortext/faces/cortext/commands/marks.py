"""`cortext tag`, `star`, `note`, `archive` and `title`: what a person says about a conversation.

Which conversations are changed, and how that is reported, is in `_change`.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from cortext.errors import UsageError
from cortext.faces.cortext.commands._change import add_bulk_options, add_options, change
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.cortext.commands._which import HELP_ID, named, which, which_row
from cortext.faces.terminal.args import Help, count, is_filtered, stores_for
from cortext.faces.terminal.output import print_json, report_missing
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import table
from cortext.model import clock, order
from cortext.model.session import TITLED_BY_USER, Change
from cortext.safety import terminal
from cortext.safety.languages import typed
from cortext.services.library import last_command
from cortext.services.library.stores import StoredConversation
from cortext.services.workspace.order import add_note, checked_note, checked_tag, notes_json, remove_note, save


def tag_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext tag",
        formatter_class=Help,
        description="Tag a conversation, or many that filters choose. Without tags, show those of a conversation; "
        "without a conversation, list all tags. Tags are kept in the conversation itself and merge between machines.",
        epilog="examples:  cortext tag 014 billing later  ·  cortext tag --tool codex --before 3m old --dry-run",
    )
    command.add_argument("session", nargs="?", default="", help=f"{HELP_ID}; with filters, the first tag")
    command.add_argument(
        "tags", nargs="*", metavar="tag", help="a word, without blanks; #billing is the same as billing"
    )
    add_options(command, "remove these tags")
    return command


def run_tag(arguments: list[str]) -> int:
    """Tag conversations, or print tags."""
    options = tag_parser().parse_intermixed_args(arguments)
    words = [word for word in (options.session, *options.tags) if word]
    if options.undo:
        return change(options, order.TAG, words)
    if is_filtered(options):
        if not words:
            raise UsageError("no tag was given", kept="nothing was changed", hint="use cortext tag TAG with filters")
        return change(options, order.TAG, (), [checked_tag(word) for word in words])
    if options.tags:
        return change(options, order.TAG, [options.session], [checked_tag(word) for word in options.tags])
    if options.remove or options.dry_run:
        raise UsageError("no tag was given", kept="nothing was changed", hint="use cortext tag ID TAG")
    if options.session:
        return _print_tags_of(options.session, as_json=options.json)
    return _print_all(as_json=options.json)


def _print_tags_of(name: str, *, as_json: bool) -> int:
    stores = stores_for()
    row = which_row(stores.listing(), stores.workspace, name, words=False)
    if as_json:
        print_json(row.tag_names)
    else:
        print(terminal.line(" ".join(row.tag_names) or f"{row.id} has no tags. Add one: cortext tag {row.id} TAG"))
    return 0


def _print_all(*, as_json: bool) -> int:
    counts: dict[str, int] = {}
    answer = fresh_listing(stores_for()).answer()
    for row in answer.rows:
        for tag in row.tag_names:
            counts[tag] = counts.get(tag, 0) + 1
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if as_json:
        print_json([{"tag": tag, "sessions": count} for tag, count in ranked])
    elif ranked:
        print(table(("TAG", "SESSIONS"), [(tag, str(count)) for tag, count in ranked]))
    elif not answer.away:
        print("No tags yet. Add one: cortext tag ID TAG")
    return report_missing(answer.away)


def star_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext star",
        formatter_class=Help,
        description="Mark conversations with a star: `cortext list --starred` shows them. --remove takes it away.",
        epilog="examples:  cortext star 014  ·  cortext star --tag billing --dry-run",
    )
    command.add_argument("session", nargs="*", help=HELP_ID)
    add_options(command, "take the star away")
    return command


def run_star(arguments: list[str]) -> int:
    """Star conversations."""
    options = star_parser().parse_args(arguments)
    return change(options, order.STAR, options.session)


def archive_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext archive",
        formatter_class=Help,
        description="Hide conversations from lists. They are kept, search still finds them, and they can be resumed; "
        "`cortext list --archived` shows them. --remove takes them out of the archive.",
        epilog="examples:  cortext archive 014  ·  cortext archive --status completed --before 6m --dry-run",
    )
    command.add_argument("session", nargs="*", help=HELP_ID)
    add_options(command, "take them out of the archive")
    return command


def run_archive(arguments: list[str]) -> int:
    """Archive conversations."""
    options = archive_parser().parse_args(arguments)
    return change(options, order.ARCHIVE, options.session)


def note_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext note",
        formatter_class=Help,
        description="Keep a note on a conversation, or on many that filters choose; without words, show the notes of "
        "a conversation. No AI tool sees them; secrets in them are masked. --remove N removes a note.",
        epilog="examples:  cortext note 014 waits for the answer of legal  ·  cortext note 014 --remove 1  ·  "
        "cortext note --tag billing moved to the new ledger --dry-run",
    )
    command.add_argument("session", nargs="?", default="", help=f"{HELP_ID}; with filters, the first word of the note")
    command.add_argument("words", nargs="*", help="the note (default: show the notes)")
    command.add_argument("--remove", type=count, default=0, metavar="N", help="remove the note with this number")
    add_bulk_options(command, "print the notes as JSON; with filters, the sessions that changed")
    return command


def run_note(arguments: list[str]) -> int:
    """Print the notes, add one or remove one."""
    options = note_parser().parse_intermixed_args(arguments)
    words = [word for word in (options.session, *options.words) if word]
    if options.undo:
        return change(options, order.NOTE, words)
    if is_filtered(options) or (options.dry_run and options.words):
        return _note_many(options, words)
    if not options.session:
        hint = "name one by its number or id, or choose several by filters such as --tool or --before"
        raise UsageError("no conversation was given", kept="nothing was changed", hint=hint)
    if options.words and options.remove:
        raise UsageError("both a note and --remove were given", kept="nothing was changed", hint="use one of them")
    if options.dry_run:
        raise UsageError("no note was given", kept="nothing was changed", hint="use cortext note ID WORDS --dry-run")
    conversation = which(stores_for(only_reads=not (options.words or options.remove)), options.session, words=False)
    session, saved = conversation.session, ""
    if options.words:
        note = add_note(conversation.named_store, session, " ".join(options.words))
        saved = _remember(conversation, note.text, on=True)
        number = [item.id for item in order.order_of(session.extra).notes].index(note.id) + 1
        if not options.json:
            print(terminal.line(f"Noted on {named(conversation)}: {note.text}"))
            print(f"Undo: cortext note {session.id} --remove {number}")
    elif options.remove:
        note = remove_note(conversation.named_store, session, options.remove)
        saved = _remember(conversation, note.text, on=False)
        if not options.json:
            print(terminal.line(f"Removed from {named(conversation)}: {note.text}"))
            print(terminal.line(f"Undo: cortext note {session.id} {typed([note.text])}"))
    if saved:
        print(terminal.line(f"Note: {session.id}: {saved}"), file=sys.stderr)
    marks = order.order_of(session.extra)
    if options.json:
        print_json(notes_json(marks))
    elif not options.words and not options.remove:
        for number, note in enumerate(marks.notes, 1):
            print(terminal.line(f"{number}. {note.text}  ({clock.short(note.at)})"))
        if not marks.notes:
            print(terminal.line(f"{session.id} has no notes. Add one: cortext note {session.id} WORDS"))
    return 0


def _remember(conversation: StoredConversation, text: str, *, on: bool) -> str:
    """Remember a change for `--undo` and commit it; return what the user should know."""
    last_command.remember_change(
        order.NOTE,
        on=on,
        parts=[last_command.ChangedSession(conversation.named_store.root, conversation.session.id, [text])],
    )
    return save(conversation.named_store, [conversation.session.id])


def _note_many(options: Namespace, words: Sequence[str]) -> int:
    """Note the same on many conversations, or show on which; on one if it is named."""
    if options.remove:
        hint = "use cortext note ID --remove N, or cortext note --undo"
        raise UsageError("--remove is for one conversation", kept="nothing was changed", hint=hint)
    is_many = is_filtered(options)
    text = " ".join(words if is_many else words[1:])
    return change(options, order.NOTE, () if is_many else words[:1], [checked_note(text)])


def title_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext title",
        description="Show the title of a conversation, or change it.",
        epilog="example:  cortext title 014 API design",
    )
    command.add_argument("session", help=HELP_ID)
    command.add_argument("title", nargs="*", help="the new title (default: show the current one)")
    return command


def run_title(arguments: list[str]) -> int:
    """Print the title, or set it."""
    options = title_parser().parse_args(arguments)
    conversation = which(stores_for(only_reads=not options.title), options.session, words=False)
    if options.title:
        new_title = " ".join(" ".join(options.title).split())
        if not new_title:
            raise UsageError("the new title is empty", kept="the old one stays", hint="use cortext title ID WORDS")
        session = conversation.store.update(
            conversation.session.id, Change(title=new_title, extra=dict(TITLED_BY_USER))
        )
        print(terminal.line(f"{named(conversation)}: {session.title}"))
    else:
        print(terminal.line(conversation.session.title))
    return 0


TAG = Command(tag_parser, run_tag)
STAR = Command(star_parser, run_star)
ARCHIVE = Command(archive_parser, run_archive)
NOTE = Command(note_parser, run_note)
TITLE = Command(title_parser, run_title)
