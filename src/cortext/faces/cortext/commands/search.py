"""`cortext search` and `cortext similar`: find what was said, in any tool, and sessions about the same topic."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from itertools import pairwise

from cortext.faces.cortext.commands._which import HELP, which_row
from cortext.faces.terminal.args import Help, add_message_filters, count, filters_of, stores_for
from cortext.faces.terminal.output import columns, folded, paint, print_json, report_missing
from cortext.faces.terminal.progress import WorkBar
from cortext.faces.terminal.run import Command, index_later
from cortext.faces.terminal.table import width
from cortext.model import clock
from cortext.model.query import Query
from cortext.safety import terminal
from cortext.services.library import last_command
from cortext.services.library.json_views import hit_json
from cortext.services.library.last_command import PROGRAM
from cortext.services.library.search import Search, note_of, nothing_of
from cortext.services.library.sources import Answer, Match, incomplete_line

INDENT = "      "  # before the continuation lines of a folded snippet


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext search",
        formatter_class=Help,
        description="Find what was said, by words and by meaning, in every session of every tool. "
        'The query may contain "a phrase", prefix*, +required, -excluded, and filters: tool:claude tag:billing '
        "is:starred after:7d. Archived conversations are found too.",
        epilog="examples:  cortext search retry budget  ·  cortext search '\"connection refused\" -docker' --after 2w",
    )
    made.add_argument("words", nargs="+", help="the query")
    add_message_filters(made)
    made.add_argument("--limit", type=count, default=10, metavar="N", help="at most N results (default: 10)")
    how = made.add_mutually_exclusive_group()
    how.add_argument("--sessions", action="store_true", help="one result per session, with its best messages (default)")
    how.add_argument("--messages", action="store_true", help="one result per message, best first")
    made.add_argument("--exact", action="store_true", help="only by whole words, not by meaning or parts of words")
    made.add_argument("--json", action="store_true", help="print a JSON array of hits")
    return made


def run(arguments: list[str]) -> int:
    """Print the results; return 1 if there are none."""
    command_line = parser()
    options, unknown = command_line.parse_known_intermixed_args(arguments)
    for word in unknown:
        if word.startswith("--") or not word.startswith("-") or len(word) < 3:
            command_line.error(f"unrecognized argument: {word}")
    options.words += unknown  # `-docker`: messages without that word
    filters = filters_of(options)
    search = stores_for().search().reachable()
    bring_up_to_date(search, exact=options.exact)
    query = Query(" ".join(options.words), filters, limit=options.limit, exact=options.exact)
    answer = (search.messages if options.messages else search.search)(query, fresh=False)
    _say_what_may_be_missing(answer)
    if answer.meaningless:
        print(terminal.line(f"Note: {answer.meaningless}"), file=sys.stderr)
    if options.json:
        print_hits(answer)
    elif answer.hits:
        note = note_of(answer, query.text)
        if note:
            print(note)
        print_found(answer)
    else:
        print(nothing_of(answer, query.text))
    return report_missing(answer.away) or (0 if answer.hits or options.json else 1)


def _say_what_may_be_missing(answer: Answer) -> None:
    """Say what was damaged; `bring_up_to_date` says what is not indexed yet, and `report_missing` what is away."""
    if answer.damaged:
        print(f"Note: {incomplete_line((), damaged=answer.damaged)}", file=sys.stderr)


def print_hits(answer: Answer) -> None:
    """Print a JSON array with one hit per message, in the order of the results."""
    print_json([hit_json(item.session, match, answer) for item in answer.hits for match in item.matches])


def print_found(answer: Answer) -> None:
    """Print each session, then its messages with the words highlighted; the numbers refer to these from now on."""
    for number, (item, name) in enumerate(zip(answer.hits, answer.names, strict=True), 1):
        row = item.session
        before = f"{number}. "
        print(before + paint(folded(terminal.line(name), first=len(before), indent=len(INDENT)), "bold"))
        facts = [row.id, row.type or row.kind, row.tool, row.status, row.place, clock.ago(row.last_active)]
        details = terminal.line(" · ".join(fact for fact in facts if fact))
        print("   " + paint(folded(details, first=3, indent=len(INDENT)), "dim"))
        for match in item.matches:
            role = terminal.line(match.role)
            first = len(f"   {role} #{match.seq}  ")
            print(f"   {paint(role, 'cyan')} {paint(f'#{match.seq}', 'dim')}  {highlighted(match, first)}")
        print()
    last_command.remember_list(PROGRAM, ((row.root, row.id) for row in answer.rows))
    sys.stdout.flush()  # the hint comes last, even if both go to the same pipe
    print("Continue one with `cortext resume ID`, read it with `cortext show ID`.", file=sys.stderr)


def highlighted(match: Match, first: int = 0) -> str:
    """Return the snippet with its words highlighted, folded at blanks on a screen; it starts at column `first`.

    Each part is made safe separately, so that escaping does not shift the highlights.
    """
    folds = _folds(match.snippet, first, columns())
    edges = {0, len(match.snippet), *folds, *(blank + 1 for blank in folds)}
    cuts = sorted(edges.union(*match.highlights))
    parts: list[str] = []
    for start, end in pairwise(cuts):
        if start in folds:
            parts.append("\n" + INDENT)
            continue
        text = terminal.line(match.snippet[start:end])
        is_highlighted = any(begin <= start < stop for begin, stop in match.highlights)
        parts.append(paint(text, "bold", "yellow") if is_highlighted else text)
    return "".join(parts)


def _folds(text: str, first: int, screen: int) -> set[int]:
    """Return the indices of the blanks at which to break the line; empty if there is no screen."""
    folds: set[int] = set()
    begin, room = 0, screen - first
    while screen and width(text[begin:]) > room:
        blank = text.rfind(" ", begin + 1, begin + max(room, 20) + 1)
        while blank > 0 and width(text[begin:blank]) > room and (earlier := text.rfind(" ", begin + 1, blank)) > 0:
            blank = earlier  # some characters are two columns wide
        if blank < 0:
            break
        folds.add(blank)
        begin, room = blank + 1, screen - len(INDENT)
    return folds


def bring_up_to_date(search: Search, *, exact: bool = False) -> None:
    """Index what has changed; slow work that no answer needs is left to a background process."""
    bar = WorkBar()
    try:
        updated = search.refresh(bar.step, meaning=not exact)
    finally:
        bar.end()
    if not updated.is_current:
        print(f"Note: {incomplete_line((), is_current=False)}", file=sys.stderr)
    if updated.has_more:
        index_later()


def similar_parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext similar",
        formatter_class=Help,
        description="Find sessions about the same topic as another, by what was said in them.",
        epilog="example:  cortext similar 014 --limit 5",
    )
    made.add_argument("session", nargs="+", help=HELP)
    made.add_argument("--limit", type=count, default=10, metavar="N", help="at most N results (default: 10)")
    made.add_argument("--json", action="store_true", help="print a JSON array of hits")
    return made


def run_similar(arguments: list[str]) -> int:
    """Print the similar sessions."""
    options = similar_parser().parse_args(arguments)
    stores = stores_for()
    search = stores.search().reachable()
    bring_up_to_date(search)
    row = which_row(search.listing, stores.workspace, " ".join(options.session))
    answer = search.similar(row, limit=options.limit)
    _say_what_may_be_missing(answer)
    if options.json:
        print_hits(answer)
    elif answer.hits:
        print_found(answer)
    else:
        print("No similar session was found.")
    return report_missing(answer.away)


SIMILAR = Command(similar_parser, run_similar)
