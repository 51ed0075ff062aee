"""`cortext search`: find what was said, in any tool."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from cortext.faces.cortext.commands._finding import FILTERS, add_filters, filters_of, up_to_date
from cortext.faces.terminal.args import Help, count
from cortext.faces.terminal.style import columns, folded, paint
from cortext.faces.terminal.table import width
from cortext.model import clock
from cortext.safety import terminal
from cortext.wiring.stores import Stores

if TYPE_CHECKING:
    from cortext.services.library.search import Found, Match


INDENT = "      "  # of the further lines of a folded snippet


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext search",
        formatter_class=Help,
        description="Find what was said, by its words and by its meaning, in every session of every tool. "
        'Words may be "a phrase", begin*, +must, -not; filters also work inside the query: tool:claude after:7d.',
        epilog="examples:  cortext search retry budget  ·  cortext search '\"connection refused\" -docker' --after 2w",
    )
    made.add_argument("words", nargs="+", help="what to look for")
    add_filters(made, FILTERS)
    made.add_argument("--limit", type=count, default=10, metavar="N", help="at most N of them (default 10)")
    how = made.add_mutually_exclusive_group()
    how.add_argument("--sessions", action="store_true", help="one entry a session, with its best messages (default)")
    how.add_argument("--messages", action="store_true", help="one entry a message, the best message first")
    made.add_argument("--exact", action="store_true", help="by the words alone, not by meaning or parts of words")
    made.add_argument("--json", action="store_true", help="a JSON array of hits")
    return made


def run(arguments: list[str]) -> int:
    """Print what was found."""
    command_line = parser()
    options, unknown = command_line.parse_known_intermixed_args(arguments)
    for word in unknown:
        if word.startswith("--") or not word.startswith("-") or len(word) < 3:
            command_line.error(f"unrecognized argument: {word}")
    options.words += unknown  # `-docker`: messages without that word
    filters = filters_of(options, FILTERS)
    search = Stores().search()
    up_to_date(search, exact=options.exact)
    ask = search.messages if options.messages else search.search
    found = ask(" ".join(options.words), filters=filters, limit=options.limit, exact=options.exact, fresh=False)
    if search.trouble:
        print(terminal.line(f"Note: {search.trouble}"), file=sys.stderr)
    if options.json:
        print_hits(found)
    elif found:
        if search.by_meaning:
            from cortext.services.library.search import nearest_to

            print(f"{nearest_to(' '.join(options.words))}\n")
        print_found(found)
    else:
        print("Nothing was found.")
    return 0 if found or options.json else 1


def print_hits(found: Sequence[Found]) -> None:
    """A hit a message, in the order of the results."""
    from cortext.faces.terminal.output import print_json
    from cortext.services.library.search import hit_json

    print_json([hit_json(item.session, match) for item in found for match in item.matches])


def print_found(found: Sequence[Found]) -> None:
    """For people: the session, then its messages with the words lit."""
    for number, item in enumerate(found, 1):
        row = item.session
        before = f"{number}. "
        print(before + paint(folded(terminal.line(row.name), first=len(before), indent=len(INDENT)), "bold"))
        facts = [row.id, row.type or row.kind, row.tool, row.status, clock.ago(row.last_active)]
        told = terminal.line(" · ".join(fact for fact in facts if fact))
        print(
            "   " + paint(folded(told, first=3, indent=len(INDENT)), "dim")
        )  # an id is not broken: it is to be copied
        for match in item.matches:
            role = terminal.line(match.role)
            first = len(f"   {role} #{match.seq}  ")
            print(f"   {paint(role, 'cyan')} {paint(f'#{match.seq}', 'dim')}  {lit(match, first)}")
        print()
    sys.stdout.flush()  # the hint comes last, also where both go to one pipe
    print("Continue one with `cortext resume ID`, read it with `cortext show ID`.", file=sys.stderr)


def lit(match: Match, first: int = 0) -> str:
    """The snippet with its words lit, folded at blanks on a screen; `first` is where on the line it begins.

    Each piece is made safe by itself, so that no mark moves another.
    """
    folds = _folds(match.snippet, first, columns())
    edges = {0, len(match.snippet), *folds, *(place + 1 for place in folds)}
    cuts = sorted(edges.union(*match.highlights))
    pieces: list[str] = []
    for start, end in pairwise(cuts):
        if start in folds:
            pieces.append("\n" + INDENT)
            continue
        text = terminal.line(match.snippet[start:end])
        bright = any(begin <= start < stop for begin, stop in match.highlights)
        pieces.append(paint(text, "bold", "yellow") if bright else text)
    return "".join(pieces)


def _folds(text: str, first: int, screen: int) -> set[int]:
    """The blanks at which a line ends, so that none is wider than the screen; none where there is no screen."""
    folds: set[int] = set()
    begin, room = 0, screen - first
    while screen and width(text[begin:]) > room:
        place = text.rfind(" ", begin + 1, begin + max(room, 20) + 1)
        while place > 0 and width(text[begin:place]) > room and (nearer := text.rfind(" ", begin + 1, place)) > 0:
            place = nearer  # some of its characters are wide
        if place < 0:
            break
        folds.add(place)
        begin, room = place + 1, screen - len(INDENT)
    return folds
