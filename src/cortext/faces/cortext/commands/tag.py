"""`cortext tag`: tag conversations, or list the tags."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.cortext.commands._filters import is_filtered
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.cortext.commands._order import add_options, change
from cortext.faces.cortext.commands._which import HELP_ID, which_row
from cortext.faces.terminal.args import Help
from cortext.faces.terminal.output import print_json, report_missing
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.table import table
from cortext.model.order import TAG
from cortext.safety import terminal
from cortext.services.library.order import checked_tag


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext tag",
        formatter_class=Help,
        description="Tag a conversation, or many that filters choose. Without tags, show those of a conversation; "
        "without a conversation, list all tags. Tags are kept in the conversation itself and merge between machines.",
        epilog="examples:  cortext tag 014 billing later  ·  cortext tag --tool codex --before 3m old --dry-run",
    )
    made.add_argument("session", nargs="?", default="", help=f"{HELP_ID}; with filters, the first tag")
    made.add_argument("tags", nargs="*", metavar="tag", help="a word, without blanks; #billing is the same as billing")
    add_options(made, "remove these tags")
    return made


def run(arguments: list[str]) -> int:
    """Tag conversations, or print tags."""
    options = parser().parse_intermixed_args(arguments)
    given = [word for word in (options.session, *options.tags) if word]
    if options.undo:
        return change(options, TAG, given)
    if is_filtered(options):
        if not given:
            raise UsageError("no tag was given", kept="nothing was changed", hint="use cortext tag TAG with filters")
        return change(options, TAG, (), [checked_tag(word) for word in given])
    if options.tags:
        return change(options, TAG, [options.session], [checked_tag(word) for word in options.tags])
    if options.remove or options.dry_run:
        raise UsageError("no tag was given", kept="nothing was changed", hint="use cortext tag ID TAG")
    return (
        _print_tags_of(options.session, as_json=options.json) if options.session else _print_all(as_json=options.json)
    )


def _print_tags_of(wanted: str, *, as_json: bool) -> int:
    stores = stores_for()
    row = which_row(stores.listing(), stores.workspace, wanted, words=False)
    if as_json:
        print_json(row.tag_names)
    else:
        print(terminal.line(" ".join(row.tag_names) or f"{row.id} has no tags. Add one: cortext tag {row.id} TAG"))
    return 0


def _print_all(*, as_json: bool) -> int:
    counts: dict[str, int] = {}
    listing = fresh_listing(stores_for())
    listing.partial = True
    for row in listing.rows():
        for tag in row.tag_names:
            counts[tag] = counts.get(tag, 0) + 1
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if as_json:
        print_json([{"tag": tag, "sessions": count} for tag, count in ranked])
    elif ranked:
        print(table(("TAG", "SESSIONS"), [(tag, str(count)) for tag, count in ranked]))
    elif not listing.missing:
        print("No tags yet. Add one: cortext tag ID TAG")
    return report_missing(listing.missing)
