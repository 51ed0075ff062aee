"""What `tag`, `star` and `archive` share: choosing conversations by name or by filters, changing and reporting them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial

from cortext.config.trust import settings_of
from cortext.errors import UsageError
from cortext.faces.cortext.commands._filters import add_filters, is_filtered, wanted_of
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.cortext.commands._which import resolver
from cortext.faces.terminal.output import print_json
from cortext.faces.terminal.progress import Progress
from cortext.model.amounts import amount
from cortext.model.order import ARCHIVE, STAR, TAG
from cortext.model.session import Session
from cortext.safety import terminal
from cortext.services.library.listing import Listing, Row
from cortext.services.library.order import Setter, change_all, needs_change, set_archived, set_star, set_tags
from cortext.services.library.stores import NamedStore
from cortext.wiring.stores import Stores

MANY = 20  # conversations that justify a progress bar
MOST_SHOWN = 20  # conversations named by a report
MOST_NAMED = 5  # in the command that undoes it


def add_options(parser: ArgumentParser, removing: str) -> None:
    """Add the options that these commands share; `removing` is the help of `--remove`."""
    parser.add_argument("--remove", action="store_true", help=removing)
    add_filters(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="show what would change, and change nothing")
    parser.add_argument("--json", action="store_true", help="print the sessions that changed as JSON")


def change(options: Namespace, what: str, names: Sequence[str], tags: Sequence[str] = ()) -> int:
    """Change the conversations that are named, or else those that the filters choose; report it."""
    stores = Stores()
    listing = fresh_listing(stores)
    on = not options.remove
    rows = _chosen(stores, listing, options, names, what)
    if options.dry_run:
        changed = [row for row in rows if needs_change(row, what, tags, on=on)]
    else:
        setters: dict[str, Setter] = {
            TAG: partial(set_tags, tags=tags, on=on),
            STAR: partial(set_star, on=on),
            ARCHIVE: partial(set_archived, on=on),
        }
        bar = Progress("Changing conversations", len(rows)) if len(rows) >= MANY else None
        try:
            changed = change_all(listing, rows, setters[what], commit, bar.step if bar else None)
        finally:
            if bar is not None:
                bar.end()
    if options.json:
        items = [{"id": row.id, "title": row.title, "workspace": row.root} for row in changed]
        print_json({"changed": items, "unchanged": len(rows) - len(changed), "dry_run": options.dry_run})
        return 0
    _report(options, what, rows, changed, tags)
    return 0


def commit(named_store: NamedStore, session: Session) -> None:
    """Commit a conversation of a workspace, so that the change reaches other machines; problems become a note."""
    if named_store.kind != "workspace" or not settings_of(named_store.root).workspace.commit:
        return
    from cortext.services.workspace.committing import commit_session

    _, done, _ = commit_session(named_store, named_store.store.get(session.id))
    for problem in filter(None, (done.note, done.problem and f"not committed to git yet: {done.problem}; {done.hint}")):
        print(terminal.line(f"Note: {session.id}: {problem}"), file=sys.stderr)


def _chosen(stores: Stores, listing: Listing, options: Namespace, names: Sequence[str], what: str) -> list[Row]:
    if names and is_filtered(options):
        raise UsageError(
            "both conversations and filters were given",
            kept="nothing was changed",
            hint="name conversations, or choose them by filters",
        )
    if names:
        known = resolver(listing.rows(), stores.workspace)
        return list(dict.fromkeys(known.resolve(name, words=False) for name in names))
    if not is_filtered(options):
        raise UsageError(
            "no conversation was given",
            kept="nothing was changed",
            hint="name one by its number or id, or choose several by filters such as --tool or --before",
        )
    wanted = wanted_of(options, stores, listing)
    if what == ARCHIVE and options.remove:
        wanted["archived"] = True
    return listing.rows(**wanted)


# What a report says: what was done, and what would be.
_DONE = {
    (TAG, True): ("Tagged", "Would tag"),
    (TAG, False): ("Removed the tags from", "Would remove the tags from"),
    (STAR, True): ("Starred", "Would star"),
    (STAR, False): ("Removed the star from", "Would remove the star from"),
    (ARCHIVE, True): ("Archived", "Would archive"),
    (ARCHIVE, False): ("Took out of the archive:", "Would take out of the archive:"),
}


def _report(options: Namespace, what: str, rows: Sequence[Row], changed: Sequence[Row], tags: Sequence[str]) -> None:
    if not changed:
        print("Nothing to change." if rows else "No conversation matches.")
        return
    suffix = f": {', '.join(tags)}" if tags else ""
    done = _DONE[what, not options.remove][options.dry_run]
    if len(changed) == 1:
        print(terminal.line(f"{done} {changed[0].id} ({changed[0].name}){suffix}"))
    else:
        print(terminal.line(f"{done} {amount(len(changed), 'conversation')}{suffix}"))
        for row in changed[:MOST_SHOWN]:
            print(terminal.line(f"  {row.id}  {row.name}"))
        if len(changed) > MOST_SHOWN:
            print(f"  … and {len(changed) - MOST_SHOWN} more")
    if options.dry_run:
        return
    if len(changed) <= (1 if what == TAG else MOST_NAMED):
        ids = [row.id for row in changed]
        print(
            terminal.line(
                f"Undo: {' '.join(['cortext', what, *ids, *tags, *([] if options.remove else ['--remove'])])}"
            )
        )
    else:
        print(f"Undo: the same command {'without' if options.remove else 'with'} --remove")
