"""`cortext resume`: continue a conversation, in its own AI tool or in any other."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from cortext.faces.cortext.commands._listing import STATUSES, listing_with_notes
from cortext.faces.cortext.commands._which import HELP, PROGRAM
from cortext.faces.terminal.args import Help, count
from cortext.faces.terminal.output import report_missing
from cortext.faces.terminal.style import folded, paint
from cortext.model import clock
from cortext.safety import terminal
from cortext.services.library import last_list as shown
from cortext.services.library.listing import Row
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext resume",
        formatter_class=Help,
        description="Continue a conversation where it stopped: the AI tool opens with all of it as real turns. "
        "Without a name, pick one from the list, most recently active first.",
        epilog="examples: `cortext resume 2`, `cortext resume 014`, `cortext resume api --ai gemini`",
    )
    made.add_argument("what", nargs="*", help=HELP)
    made.add_argument(
        "--ai",
        type=tools.target_name,
        choices=tools.target_names(),
        help="the AI tool to continue in (default: the one it was held in)",
    )
    made.add_argument("--list", action="store_true", help="print the list instead of asking")
    made.add_argument("--type", help="only conversations of this type")
    made.add_argument("--status", choices=STATUSES, help="only conversations with this status")
    made.add_argument(
        "--print", action="store_true", dest="print_packet", help="print the packet that a model would receive"
    )
    made.add_argument(
        "-n", "--dry-run", action="store_true", help="print the receipt and the command line; change nothing"
    )
    made.add_argument("--force", action="store_true", help="resume a completed conversation anyway")
    made.add_argument(
        "--rewrite",
        action="store_true",
        help="write a new session with the whole history, even if the tool has one of its own",
    )
    made.add_argument(
        "--in-tool", action="store_true", help="for slash commands in AI tools: print a short answer, never an error"
    )
    made.add_argument("--model", default="", help="the model that the tool should use")
    made.add_argument("--tokens", type=count, metavar="N", help="carry at most N tokens of history")
    made.add_argument(
        "--json", action="store_true", help="print the list, the packet or (with --dry-run) the receipt as JSON"
    )
    return made


def run(arguments: list[str]) -> int:
    """List conversations, or resume one."""
    options = parser().parse_args(arguments)
    stores = Stores()
    listing, notes = listing_with_notes(stores)
    listing.partial = not options.what and not options.in_tool  # a name is not resolved among half of the sessions
    for line in notes:
        print(folded(terminal.line(f"Note: {line}"), sys.stderr, indent=2), file=sys.stderr)
    if options.list and not options.json:
        from cortext.faces.cortext.commands.list_ import SHOWN, print_table

        found = listing.cells(SHOWN, kind=options.type, status=options.status, asking=False, archived=False)
        if found:
            print_table(found, listing, stores.workspace)
        elif not listing.missing:
            print(_nothing_found(options))
        return report_missing(listing.missing)
    # A chat that only asked for a conversation is not listed, but can be named; so is one in the archive.
    archived = None if options.what else False
    rows = listing.rows(kind=options.type, status=options.status, asking=bool(options.what), archived=archived)
    on_screen = sys.stdin.isatty() and sys.stdout.isatty() and not options.json
    if options.list or (not options.what and not options.in_tool and not (on_screen and rows)):
        _list(rows, options, is_all=not listing.missing)
        return report_missing(listing.missing)
    report_missing(listing.missing)
    from cortext.faces.cortext.commands._resume_one import resume_one

    return resume_one(stores, listing, rows, options)


def _nothing_found(options: Namespace) -> str:
    if options.type or options.status:
        return "No conversation matches. `cortext resume --list` shows all."
    return (
        "There are no conversations yet. Start one in your AI tool with /workspace.brainstorm and a topic,\n"
        "import what the tools have stored with `cortext import`, or try `cortext demo`."
    )


def _list(rows: list[Row], options: Namespace, *, is_all: bool) -> None:
    if options.json:
        from cortext.faces.cortext.commands.list_ import print_rows

        print_rows(rows)
    elif not rows and is_all:
        print(_nothing_found(options))
    elif rows:
        print("Conversations that you can resume:\n")
        for number, row in enumerate(rows, 1):
            print(f"{number}. [{terminal.line(row.shown_type)}] {paint(terminal.line(row.name), 'bold')}")
            print(f"   Last active: {clock.ago(row.last_active)} | Status: {terminal.line(row.status)}")
            if row.summary:
                print(f"   Summary: {terminal.line(row.summary)}")
            print()
        shown.remember(PROGRAM, ((row.root, row.id) for row in rows))
        print("Continue one with `cortext resume NUMBER`, or by its id, or by words from its title.")
