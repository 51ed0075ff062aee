"""`cortext stats`: count sessions, messages and tokens by day, tool, type and status."""

from __future__ import annotations

import json
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.terminal.args import Help, count
from cortext.faces.terminal.output import report_missing
from cortext.faces.terminal.progress import progress_of_many
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.style import columns, paint
from cortext.faces.terminal.table import Column, fitted_table, table
from cortext.model.amounts import amount
from cortext.services.library.activity import work
from cortext.services.library.stats import Stats, Tally, last_days, ranked

BLOCKS = " ▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉"
BAR = 20  # characters of the longest bar
HEADS = ("SESSIONS", "MESSAGES", "TOKENS")
HEIGHT = 5  # lines of the chart
MOST_DAYS = 3_660


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext stats",
        formatter_class=Help,
        description="Count sessions, messages and tokens by day, tool and type. A session counts on every day (in UTC) "
        "on which something was said in it; for that, all sessions are read once.",
        epilog="example:  cortext stats --days 90",
    )
    made.add_argument("--days", type=count, default=30, metavar="N", help="the last N days (default: 30)")
    made.add_argument("--here", action="store_true", help="only the current workspace")
    made.add_argument("--json", action="store_true", help="print the counts as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Print the counts."""
    options = parser().parse_args(arguments)
    if not 1 <= options.days <= MOST_DAYS:
        raise UsageError(f"invalid --days value {options.days}", hint=f"use a number from 1 to {MOST_DAYS}")
    stores = stores_for()
    listing = fresh_listing(stores)
    listing.partial = True
    rows = listing.rows(root=stores.here() if options.here else "")
    with progress_of_many("Reading messages") as progress:
        said = work(listing, progress, rows)
    stats = Stats(rows, last_days(options.days, said.days))
    if options.json:
        print(json.dumps(stats.as_dict(), ensure_ascii=False, indent=2))
    elif stats.total.sessions:
        _print(stats)
    elif not listing.missing:
        print("No sessions yet. `cortext import` imports what your AI tools have stored.")
    return report_missing(listing.missing)


def _print(stats: Stats) -> None:
    total = stats.total
    since = f", since {stats.first[:10]}" if stats.first else ""
    counts = f"{amount(total.sessions, 'session')}, {amount(total.messages, 'message')}, about {total.tokens:,} tokens"
    print(f"{paint(counts, 'bold')}{since}\n")
    _print_days(stats)
    for name, counted in (("TOOL", stats.tools), ("TYPE", stats.types), ("STATUS", stats.statuses)):
        print()
        print(_counted(name, ranked(counted)))


def _counted(name: str, counts: list[tuple[str, Tally]]) -> str:
    """Return a table of counts: on a screen with aligned numbers and bars, elsewhere plain columns for `awk`."""
    screen = columns()
    if not screen:
        return table((name, *HEADS), [_row(key, tally) for key, tally in counts])
    most = max(tally.sessions for _, tally in counts)
    bars = [bar(tally.sessions, most, min(BAR, screen // 4)) for _, tally in counts]
    table_columns = [Column(name, [key for key, _ in counts])]
    for rank, head in enumerate(HEADS):
        table_columns.append(
            Column(
                head, [f"{getattr(tally, head.lower()):,}" for _, tally in counts], rank=rank and rank + 1, right=True
            )
        )
    table_columns.append(Column("", bars, rank=1, style="green"))
    return fitted_table(table_columns, 0, screen)[0]


def bar(value: int, most: int, longest: int) -> str:
    """Return a bar in proportion to the highest value, to an eighth of a character; any value above 0 is visible."""
    eighths = max(1, round(value * longest * 8 / most)) if value else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _row(name: str, tally: Tally) -> tuple[str, str, str, str]:
    return name, str(tally.sessions), str(tally.messages), str(tally.tokens)


def _print_days(stats: Stats) -> None:
    """Print a chart on a screen that is wide enough; elsewhere a table of the days with activity."""
    days = stats.days
    screen = columns()
    if not screen or screen < 30:
        some = [(day, tally) for day, tally in days.items() if tally.sessions]
        print(_counted("DAY", some) if some else f"No activity in {amount(len(days), 'day')}.")
        return
    most = max(tally.sessions for tally in days.values())
    print(f"Sessions by day of activity, {amount(len(days), 'day')} (highest: {most}):")
    names, tallies = list(days), list(days.values())
    room = screen - 2
    for start in range(0, len(names), room):
        for line in chart([tally.sessions for tally in tallies[start : start + room]], max(most, HEIGHT)):
            if line:
                print(f"  {paint(line, 'green')}")
        shown = names[start : start + room]
        gap = len(shown) - 10 - len(shown[-1])
        print(paint(f"  {shown[0]}{' ' * gap}{shown[-1]}" if gap > 0 else f"  {shown[0]}", "dim"))


def chart(values: list[int], most: int, height: int = HEIGHT) -> list[str]:
    """Return the lines of a chart, one column per value; any value above 0 is visible."""
    levels = [max(1, round(value * height * 8 / most)) if value else 0 for value in values]
    lines = []
    for row in range(height - 1, -1, -1):
        lines.append("".join(BLOCKS[max(0, min(8, level - row * 8))] for level in levels).rstrip())
    return lines
