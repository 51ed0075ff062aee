"""`cortext resume`: continue a conversation, in its own AI tool or in any other."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from cortext.errors import NotFound, UsageError
from cortext.faces.cortext.commands._listing import SERVED, listing_with_notes
from cortext.faces.cortext.commands._which import HELP
from cortext.faces.terminal.args import Help, count, count_or_none, stores_for
from cortext.faces.terminal.output import folded, paint, print_json, report_missing
from cortext.model import clock
from cortext.model.query import FILTERS, Query
from cortext.safety import terminal
from cortext.services.library import last_command
from cortext.services.library.json_views import session_json
from cortext.services.library.last_command import PROGRAM
from cortext.services.library.listing import Listing, Row, placed
from cortext.services.library.resolve import raise_ambiguous
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext resume",
        formatter_class=Help,
        description="Continue a conversation where it stopped: the AI tool opens with all of it as real turns. "
        "Without a name, pick one from the list, most recently active first.",
        epilog="examples: `cortext resume 2`, `cortext resume 014`, `cortext resume api --ai gemini`, "
        "`cortext resume --commit=#139`",
    )
    made.add_argument("what", nargs="*", help=HELP)
    made.add_argument(
        "--ai",
        type=tools.target_name,
        choices=tools.target_names(),
        help="the AI tool to continue in (default: the one it was held in)",
    )
    about = "the conversation behind a commit or a pull request (#139, or its address): which wrote most of its lines"
    made.add_argument("--commit", metavar="SHA", help=about)
    made.add_argument("--list", action="store_true", help="print the list instead of asking")
    about = f"at most N in a list (default: all; {SERVED} if some are on a server; 0: all)"
    made.add_argument("--limit", type=count_or_none, metavar="N", help=about)
    made.add_argument("--type", help="only conversations of this type")
    made.add_argument("--status", choices=FILTERS["status"].choices, help="only conversations with this status")
    made.add_argument(
        "--print", action="store_true", dest="print_packet", help="print the packet that a model would receive"
    )
    made.add_argument(
        "-n", "--dry-run", action="store_true", help="print the receipt and the command line; change nothing"
    )
    about = "write the tool's session and print the receipt and the command line, but do not start the tool"
    made.add_argument("--no-start", action="store_true", help=about)
    made.add_argument(
        "--branch", type=count, metavar="N", help="of a conversation that went on in several places, only branch N"
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
    if options.commit is not None and (options.what or options.in_tool):
        raise UsageError("name either a conversation or a commit", hint="cortext resume --commit HEAD")
    stores = stores_for(only_reads=options.list or options.print_packet or options.dry_run)
    listing, notes = listing_with_notes(stores)
    if not options.what and not options.in_tool:  # a name is not resolved among half of the sessions
        listing = listing.reachable()
    limit = options.limit if options.limit is not None else listing.limit(SERVED)
    for line in notes:
        print(folded(terminal.line(f"Note: {line}"), sys.stderr, indent=2), file=sys.stderr)
    if options.list and not options.json and options.commit is None:
        from cortext.faces.cortext.commands.list_ import SHOWN, print_table

        found = listing.cells(SHOWN, _newest(options, limit))
        if found:
            print_table(found, listing, stores.workspace)
        elif not listing.away:
            print(_nothing_found(options))
        _report_cut(options, limit, len(found))
        return report_missing(listing.away)
    from cortext.faces.cortext.commands._resume_one import resume_one

    if options.in_tool:
        return resume_one(stores, listing, [], options)
    on_screen = sys.stdin.isatty() and sys.stdout.isatty() and not options.json
    if options.commit is not None:
        rows = _behind(stores, options.commit, is_one=not (on_screen or options.list))
    else:
        rows = _named(listing, options) if options.what else listing.rows(_newest(options, limit))
    is_named = bool(options.what) or options.commit is not None
    if options.list or (not is_named and not (on_screen and rows)):
        _list(rows, listing, options)
        _report_cut(options, limit, len(rows))
        return report_missing(listing.away)
    report_missing(listing.away)
    return resume_one(stores, listing, rows, options)


def _behind(stores: Stores, commit: str, *, is_one: bool) -> list[Row]:
    """Return the conversation behind a commit or a pull request, or several to choose from, the likeliest first.

    If it must be one, raise AmbiguousId for several.
    """
    from cortext.faces.cortext.commands.origin import asking

    _, why = asking(stores, os.curdir)
    rows = why.behind(commit).likeliest()
    if not rows:
        raise NotFound(
            f"no stored conversation is known to be behind {commit}",
            hint="`cortext why --commit SHA` says what is known; `cortext import` stores what your AI tools have",
        )
    if is_one and len(rows) > 1:
        hint = "resume one of them by its id; `cortext why --commit SHA` says which wrote what"
        raise_ambiguous(commit, [row.id for row in rows], hint=hint)
    return rows


def _newest(options: Namespace, limit: int) -> Query:
    """Return the query for the conversations to choose from."""
    filters = {"type": options.type or "", "status": options.status or "", "is": "unarchived"}
    return Query(filters=filters, limit=limit, own_commands=False)


def _named(listing: Listing, options: Namespace) -> list[Row]:
    """Return the conversations among which a name is looked up, also chats that only asked for one and the archive."""
    if options.type or options.status:
        return listing.rows(Query(filters={"type": options.type or "", "status": options.status or ""}))
    return listing.named(" ".join(options.what), last_command.recall_list(PROGRAM))


def _report_cut(options: Namespace, limit: int, count: int) -> None:
    """Say how to see more, if a limit that nobody asked for has cut the list."""
    if options.limit is None and 0 < limit == count:
        text = f"Note: only the first {limit} sessions are shown: use --limit 0 for all"
        print(folded(text, sys.stderr, indent=2), file=sys.stderr)


def _nothing_found(options: Namespace) -> str:
    if options.type or options.status:
        return "No conversation matches. `cortext resume --list` shows all."
    return (
        "There are no conversations yet. Start one in your AI tool with /workspace.brainstorm and a topic,\n"
        "import what the tools have stored with `cortext import`, or try `cortext demo`."
    )


def _list(rows: list[Row], listing: Listing, options: Namespace) -> None:
    if options.json:
        print_json([session_json(row) for row in placed(rows, listing.places())])
    elif not rows and not listing.away:
        print(_nothing_found(options))
    elif rows:
        print("Conversations that you can resume:\n")
        for number, row in enumerate(placed(rows, listing.places()), 1):
            print(f"{number}. [{terminal.line(row.shown_type)}] {paint(terminal.line(row.name), 'bold')}")
            status = terminal.line(" | ".join(filter(None, (row.status, row.place))))
            print(f"   Last active: {clock.ago(row.last_active)} | Status: {status}")
            if row.summary:
                print(f"   Summary: {terminal.line(row.summary)}")
            print()
        last_command.remember_list(PROGRAM, ((row.root, row.id) for row in rows))
        print("Continue one with `cortext resume NUMBER`, or by its id, or by words from its title.")
