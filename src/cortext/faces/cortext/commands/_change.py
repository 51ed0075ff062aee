"""What `tag`, `star`, `note` and `archive` share: choosing conversations, changing them and reporting it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial

from cortext.errors import NotFound, UsageError
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.cortext.commands._which import named_as, resolver
from cortext.faces.terminal.args import add_filters, is_filtered, query_of, stores_for
from cortext.faces.terminal.output import print_json
from cortext.faces.terminal.progress import Progress
from cortext.model.order import ARCHIVE, NOTE, STAR, TAG
from cortext.model.session import Session
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.library import last_command
from cortext.services.library.last_command import PROGRAM
from cortext.services.library.listing import Listing, Row
from cortext.services.library.resolve import refuse_namesake
from cortext.services.library.stores import NamedStore
from cortext.services.workspace.order import (
    Changes,
    MarkChange,
    Setter,
    change_all,
    needs_change,
    set_archived,
    set_notes,
    set_star,
    set_tags,
)
from cortext.wiring.stores import Stores

MANY = 20  # conversations that justify a progress bar
MOST_SHOWN = 20  # conversations named by a report
MOST_NAMED = 5  # in the command that undoes it

WordsOf = dict[tuple[str, str], list[str]]  # the tags or notes to set or remove, by store and id


def add_options(parser: ArgumentParser, removing: str) -> None:
    """Add the options that these commands share; `removing` is the help of `--remove`."""
    parser.add_argument("--remove", action="store_true", help=removing)
    add_bulk_options(parser)


def add_bulk_options(parser: ArgumentParser, as_json: str = "print the sessions that changed as JSON") -> None:
    """Add the options that choose many conversations, show what would change, and take it back."""
    parser.add_argument("--undo", action="store_true", help="take back the last change of this command, exactly")
    add_filters(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="show what would change, and change nothing")
    parser.add_argument("--json", action="store_true", help=as_json)


def change(options: Namespace, what: str, names: Sequence[str], words: Sequence[str] = ()) -> int:
    """Change the conversations that are named, or else those that the filters choose, or undo; report it."""
    stores = stores_for(only_reads=options.dry_run)
    listing = fresh_listing(stores)
    if options.undo:
        rows, on, words_of = _last_change(listing, options, what, [*names, *words])
    else:
        rows, on = _chosen(stores, listing, options, names, what), not options.remove
        words_of = {(row.root, row.id): list(words) for row in rows}
    if options.dry_run:
        chosen = [(row, words_of[row.root, row.id]) for row in rows]
        changed = [MarkChange(row, given) for row, given in chosen if needs_change(listing, row, what, given, on=on)]
        done = Changes(changed, [], [])
    else:
        done = _changed(listing, rows, what, words_of, on=on)
    if done.failed and len(rows) == 1:
        raise done.failed[0][1]
    is_undoable = bool(done.changed) and not options.dry_run
    if is_undoable:
        parts = [last_command.ChangedSession(item.row.root, item.row.id, item.words) for item in done.changed]
        is_undoable = last_command.remember_change(what, on=on, parts=parts)
    if options.json:
        _print_json(rows, done, what, is_dry=options.dry_run)
    else:
        _report(rows, done, what, on=on, is_dry=options.dry_run)
        if is_undoable:
            print(terminal.line(f"Undo: {_undo(done.changed, what, on=on)}"))
    for note in done.notes:
        print(terminal.line(f"Note: {note}"), file=sys.stderr)
    for row, error in done.failed[:MOST_SHOWN]:
        print(terminal.line(f"Not changed: {row.id}: {error.message}"), file=sys.stderr)
    if len(done.failed) > MOST_SHOWN:
        print(f"Not changed: {len(done.failed) - MOST_SHOWN} more", file=sys.stderr)
    return done.failed[0][1].exit_status if done.failed else 0


def _changed(listing: Listing, rows: Sequence[Row], what: str, words_of: WordsOf, *, on: bool) -> Changes:
    """Change these conversations, behind a progress bar if there are many."""

    def tag(named_store: NamedStore, session: Session) -> list[str]:
        return set_tags(named_store, session, words_of[named_store.root, session.id], on=on)

    def note(named_store: NamedStore, session: Session) -> list[str]:
        return set_notes(named_store, session, words_of[named_store.root, session.id], on=on)

    alone = {STAR: partial(set_star, on=on), ARCHIVE: partial(set_archived, on=on)}
    setters: dict[str, Setter] = {TAG: tag, NOTE: note, **alone}
    bar = Progress("Changing conversations", len(rows)) if len(rows) >= MANY else None
    try:
        return change_all(listing, rows, setters[what], bar.step if bar else None)
    finally:
        if bar is not None:
            bar.end()


def _last_change(
    listing: Listing, options: Namespace, what: str, given: Sequence[str]
) -> tuple[list[Row], bool, WordsOf]:
    """Return what the last change of this command changed: the conversations, what to do now, and the words."""
    if given or options.remove or is_filtered(options):
        raise UsageError(
            "--undo takes back the last change and nothing else",
            kept="nothing was changed",
            hint=f"use cortext {what} --undo",
        )
    last = last_command.recall_change(what)
    if last is None:
        raise NotFound(
            f"no change by cortext {what} is known that could be taken back",
            kept="nothing was changed",
            hint="changes are known from the first one on this machine",
        )
    words_of = {(part.root, part.id): part.words for part in last.parts}
    return [row for row in listing.rows() if (row.root, row.id) in words_of], not last.on, words_of


def _undo(changed: Sequence[MarkChange], what: str, *, on: bool) -> str:
    """Return the command that takes back exactly this change, as long as it is the last one if it is long."""
    if what != NOTE and len(changed) <= (1 if what == TAG else MOST_NAMED):
        ids = [item.row.id for item in changed]
        return " ".join(["cortext", what, *ids, *changed[0].words, *(["--remove"] if on else [])])
    return f"cortext {what} --undo"


def _print_json(rows: Sequence[Row], done: Changes, what: str, *, is_dry: bool) -> None:
    key = "notes" if what == NOTE else "tags"
    items = [
        {"id": row.id, "title": row.title, "workspace": row.root, **({key: words} if words else {})}
        for row, words in done.changed
    ]
    failed = [{"id": row.id, "workspace": row.root, "error": error.as_dict()} for row, error in done.failed]
    unchanged = len(rows) - len(items) - len(failed)
    print_json({"changed": items, "unchanged": unchanged, "failed": failed, "dry_run": is_dry})


def _chosen(stores: Stores, listing: Listing, options: Namespace, names: Sequence[str], what: str) -> list[Row]:
    if names and is_filtered(options):
        raise UsageError(
            "both conversations and filters were given",
            kept="nothing was changed",
            hint="name conversations, or choose them by filters",
        )
    if names:
        shown = last_command.recall_list(PROGRAM)
        named = [resolver(listing.named(name, shown), stores.workspace).resolve(name, words=False) for name in names]
        if stores.workspace:
            for row in named:
                refuse_namesake(stores.workspace_store(), row.root, row.id)
        return list(dict.fromkeys(named))
    if not is_filtered(options):
        raise UsageError(
            "no conversation was given",
            kept="nothing was changed",
            hint="name one by its number or id, or choose several by filters such as --tool or --before",
        )
    archived = True if what == ARCHIVE and options.remove else options.archived
    return listing.rows(query_of(options, stores, archived=archived))


# What a report says: what was done, and what would be.
_DONE = {
    (TAG, True): ("Tagged", "Would tag"),
    (TAG, False): ("Removed the tags from", "Would remove the tags from"),
    (STAR, True): ("Starred", "Would star"),
    (STAR, False): ("Removed the star from", "Would remove the star from"),
    (NOTE, True): ("Noted on", "Would note on"),
    (NOTE, False): ("Removed the note from", "Would remove the note from"),
    (ARCHIVE, True): ("Archived", "Would archive"),
    (ARCHIVE, False): ("Took out of the archive:", "Would take out of the archive:"),
}


def _report(rows: Sequence[Row], done: Changes, what: str, *, on: bool, is_dry: bool) -> None:
    changed = done.changed
    if not changed:
        if not done.failed:
            print("Nothing to change." if rows else "No conversation matches.")
        return
    words = sorted({word for item in changed for word in item.words})
    suffix = f": {', '.join(words)}" if words else ""
    verb = _DONE[what, on][is_dry]
    if len(changed) == 1:
        print(terminal.line(f"{verb} {_named(changed[0].row)}{suffix}"))
    else:
        print(terminal.line(f"{verb} {amount(len(changed), 'conversation')}{suffix}"))
        for item in changed[:MOST_SHOWN]:
            print(terminal.line(f"  {_named(item.row)}"))
        if len(changed) > MOST_SHOWN:
            print(f"  … and {len(changed) - MOST_SHOWN} more")


def _named(row: Row) -> str:
    return named_as(row.id, row.title, row.root)
