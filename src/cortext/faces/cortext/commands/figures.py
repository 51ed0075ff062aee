"""`cortext stats` and `cortext cost`: how much was said, and what it cost."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from datetime import date, datetime, timedelta

import msgspec
from msgspec.structs import replace

from cortext.errors import UsageError
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.terminal.args import Help, Several, add_filters, count, is_filtered, query_of, stores_for
from cortext.faces.terminal.output import columns, folded, paint, print_json, report_missing
from cortext.faces.terminal.progress import progress_of_many
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import Column, fitted_table, table
from cortext.model import clock
from cortext.model.query import Query, timestamps
from cortext.model.wording import amount, listed
from cortext.safety import terminal
from cortext.services.cost.prices import Prices, money
from cortext.services.cost.report import KINDS, MONDAY, TIMES, CostReport, CostSum, Ledger, report
from cortext.services.library.activity import Stats, Tally, last_days, ranked, work
from cortext.services.library.listing import Listing

BLOCKS = " ▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉"
BAR = 20  # characters of the longest bar
COUNTS = ("SESSIONS", "MESSAGES", "TOKENS")
HEIGHT = 5  # lines of the chart
MOST_DAYS = 3_660


def stats_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext stats",
        formatter_class=Help,
        description="Count sessions, messages and tokens by day, tool and type. A session counts on every day "
        "on which something was said in it; for that, all sessions are read once.",
        epilog="example:  cortext stats --days 90",
    )
    command.add_argument("--days", type=count, default=30, metavar="N", help="the last N days (default: 30)")
    command.add_argument("--here", action="store_true", help="only the current workspace")
    command.add_argument("--json", action="store_true", help="print the counts as JSON")
    return command


def run_stats(arguments: list[str]) -> int:
    """Print the counts."""
    options = stats_parser().parse_args(arguments)
    if not 1 <= options.days <= MOST_DAYS:
        raise UsageError(f"invalid --days value {options.days}", hint=f"use a number from 1 to {MOST_DAYS}")
    stores = stores_for()
    listing = fresh_listing(stores).reachable()
    rows = listing.rows(Query(roots=[stores.here()] if options.here else None))
    with progress_of_many("Reading messages") as progress:
        said = work(listing, progress, rows)
    stats = Stats(rows, last_days(options.days, said.days))
    if options.json:
        print(json.dumps(stats.as_dict(), ensure_ascii=False, indent=2))
    elif stats.total.sessions:
        _print_stats(stats)
    elif not listing.away:
        print("No sessions yet. `cortext import` imports what your AI tools have stored.")
    return report_missing(listing.away)


def _print_stats(stats: Stats) -> None:
    total = stats.total
    since = f", since {clock.day(stats.first)}" if stats.first else ""
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
        return table((name, *COUNTS), [_row(key, tally) for key, tally in counts])
    most = max(tally.sessions for _, tally in counts)
    bars = [bar(tally.sessions, most, min(BAR, screen // 4)) for _, tally in counts]
    table_columns = [Column(name, [key for key, _ in counts])]
    for rank, head in enumerate(COUNTS):
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


MOST_UNPRICED = 5  # models named below the table
HEADS = ("CALLS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "COST")


def cost_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext cost",
        formatter_class=Help,
        description="Show what conversations cost: the tokens that the AI tools recorded, at the list prices of the "
        "models. Each call counts once, wherever it was copied to. A subscription is not "
        "billed by the token: for one, the amounts say what the same calls cost without it.",
        epilog="examples:  cortext cost --since 7d  ·  cortext cost --by session --limit 10",
    )
    about = (
        "what to sum up (default: day): window and week-window are the five hours and the week in which the limits of "
        "a subscription are counted, by tool; those of Codex as it records them, other windows begin with the full "
        "hour of the first call, other weeks at --week-from"
    )
    command.add_argument("--by", choices=KINDS, default="day", help=about)
    command.add_argument(
        "--since", "--after", default="", help="only calls since then: 2026-11-15, yesterday, 7d, 2w, 3m"
    )
    command.add_argument("--until", "--before", default="", help="only calls until then")
    about = "when a week-window begins: 2026-11-12 09:00 (default: the setting cost.week_from, or Monday)"
    command.add_argument("--week-from", default="", metavar="TIME", help=about)
    about = "only calls of this AI tool (see `cortext tools`), or of one of several: claude,codex"
    command.add_argument("--tool", action=Several, default="", help=about)
    command.add_argument("--model", default="", help="only calls of this model, by its full name")
    add_filters(command, without=("after", "before", "tool", "archived"))
    command.add_argument("--archived", action="store_true", help="only archived sessions, which otherwise count too")
    command.add_argument("--limit", type=count, default=0, metavar="N", help="at most N lines; of times, the newest")
    about = (
        'a file with prices that replace the built-in ones: {"models": {"NAME": {"input": 3, "output": 15}}} '
        "(default: the setting cost.prices)"
    )
    command.add_argument("--prices", default="", metavar="FILE", help=about)
    command.add_argument("--json", action="store_true", help="print the sums as JSON; an unknown cost is null")
    return command


def run_cost(arguments: list[str]) -> int:
    """Print the costs."""
    options = cost_parser().parse_args(arguments)
    stores = stores_for()
    prices = stores.prices(options.prices)
    times = timestamps(options.since, options.until, ("since", "until"))
    listing = fresh_listing(stores).reachable()
    ledger = read_ledger(listing, prices)
    rows = None
    if is_filtered(options, without=("tool",)):
        # An archived conversation has cost something too. --tool is about calls: a conversation of one tool may have
        # calls of another.
        query = query_of(options, stores, archived=options.archived or None)
        rows = listing.rows(replace(query, filters={**query.filters, "tool": ""}))
    calls = ledger.calls(rows, **times)
    week_from = _week_from(options.week_from or stores.settings.cost.week_from)
    chosen = {"tool": options.tool, "model": options.model}
    costs = report(calls, options.by, **chosen, everything=ledger.calls(), week_from=week_from)
    if options.limit:
        costs.entries = costs.entries[-options.limit :] if options.by in TIMES else costs.entries[: options.limit]
    if options.json:
        print_json({**costs.as_dict(), "prices": prices_json(prices)})
    elif not costs.total.calls:
        is_chosen = rows is not None or any((*times.values(), options.tool, options.model))
        print("No recorded calls match." if is_chosen else "No tokens are recorded yet.")
    else:
        print(_table(costs))
        _print_notes(costs, prices)
    return report_missing(listing.away)


def _week_from(text: str) -> int:
    """Return the moment at which a week begins, in seconds since 1970; UsageError if the text is no time."""
    if not text:
        monday = date.today() - timedelta(days=date.today().weekday())
        return clock.midnight(monday.year, monday.month, monday.day) or MONDAY
    try:
        return int(datetime.fromisoformat(text).timestamp())  # without a zone: local
    except (ValueError, OverflowError):
        raise UsageError(f"invalid beginning of a week {text!r}", hint="use a time such as 2026-11-12 09:00") from None


def read_ledger(listing: Listing, prices: Prices) -> Ledger:
    """Return the calls of all sessions, read behind a progress bar if that takes a while."""
    with progress_of_many("Reading token counts") as progress:
        return Ledger(listing, prices, progress)


def prices_json(prices: Prices) -> dict[str, object]:
    """Return where the prices come from."""
    return {"date": prices.date, "file": prices.own or None, "sources": msgspec.to_builtins(prices.sources)}


def _table(costs: CostReport) -> str:
    """Return the sums as a table, the total last: on a screen as many columns as fit, elsewhere all, for `awk`."""
    entries = [*costs.entries, costs.total]
    screen = columns()
    head = costs.by.upper()
    if not screen:
        return table((head, *HEADS), [(_name(entry), *_cells(entry, "")) for entry in entries])
    cells = list(zip(*(_cells(entry, ",") for entry in entries), strict=True))
    ranks = (4, 2, 1, 3, 5, 0)
    command = [Column(head, [_name(entry) for entry in entries])]
    command += [
        Column(name, values, rank=rank, right=True) for name, values, rank in zip(HEADS, cells, ranks, strict=True)
    ]
    text = fitted_table(command, 0, screen)[0]
    *lines, last = text.split("\n")
    return "\n".join([*lines, paint(last, "bold")])


def _name(entry: CostSum) -> str:
    return f"{entry.row.id} {entry.name}" if entry.row is not None and entry.row.id != entry.name else entry.name


def _cells(entry: CostSum, separator: str) -> tuple[str, ...]:
    tokens = entry.tokens
    written = tokens.cache_write + tokens.cache_write_1h
    counts = (entry.calls, tokens.input, tokens.output, tokens.cache_read, written)
    cost = money(entry.cost, entry.unpriced) if separator else _plain(entry.cost)
    return (*(f"{number:{separator}}" for number in counts), cost)


def _plain(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.6f}"


def _print_notes(costs: CostReport, prices: Prices) -> None:
    """Print what the amounts do not cover, and where the prices come from."""
    sys.stdout.flush()
    notes = []
    if costs.unpriced:
        names = [f"{name} ({amount(number, 'call')})" for name, number in costs.unpriced.items()]
        advice = "set it with --prices FILE or the setting cost.prices"
        notes.append(f"unknown price: {listed(names, MOST_UNPRICED)}; {advice}")
    days = prices.days(costs.models)
    used = [*([f"list prices of {days}"] if days else []), *([f"the prices in {prices.own}"] if prices.own else [])]
    if used:
        notes.append(f"{' and '.join(used)}; --json names their sources")
    for note in notes:
        print(folded(terminal.line(f"Note: {note}"), sys.stderr, indent=2), file=sys.stderr)


STATS = Command(stats_parser, run_stats)
COST = Command(cost_parser, run_cost)
