"""`cortext cost`: what conversations cost, in tokens and money."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

import msgspec

from cortext.errors import UsageError
from cortext.faces.cortext.commands._filters import add_filters, is_filtered, wanted_of
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.faces.terminal.args import Help, Several, count
from cortext.faces.terminal.output import print_json, report_missing
from cortext.faces.terminal.progress import progress_of_many
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.style import columns, folded, paint
from cortext.faces.terminal.table import Column, fitted_table, table
from cortext.model import clock
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.cost.prices import Prices
from cortext.services.cost.report import KINDS, TIMES, Entry, Ledger, Report, money, report
from cortext.services.cost.windows import MONDAY
from cortext.services.library.listing import Listing
from cortext.services.library.search_times import timestamps

MOST_UNPRICED = 5  # models named below the table
HEADS = ("CALLS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "COST")


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext cost",
        formatter_class=Help,
        description="Show what conversations cost: the tokens that the AI tools recorded, at the list prices of the "
        "models. Each call counts once, wherever it was copied to; days and weeks are in UTC. A subscription is not "
        "billed by the token: for one, the amounts say what the same calls cost without it.",
        epilog="examples:  cortext cost --since 7d  ·  cortext cost --by session --limit 10",
    )
    about = (
        "what to sum up (default: day): window and week-window are the five hours and the week in which the limits of "
        "a subscription are counted, by tool; those of Codex as it records them, other windows begin with the full "
        "hour of the first call, other weeks at --week-from"
    )
    made.add_argument("--by", choices=KINDS, default="day", help=about)
    made.add_argument("--since", "--after", default="", help="only calls since then: 2026-11-15, yesterday, 7d, 2w, 3m")
    made.add_argument("--until", "--before", default="", help="only calls until then")
    about = "when a week-window begins: 2026-11-12 09:00, in UTC (default: the setting cost.week_from, or Monday)"
    made.add_argument("--week-from", default="", metavar="TIME", help=about)
    about = "only calls of this AI tool (see `cortext tools`), or of one of several: claude,codex"
    made.add_argument("--tool", action=Several, default="", help=about)
    made.add_argument("--model", default="", help="only calls of this model, by its full name")
    add_filters(made, without=("after", "before", "tool", "archived"))
    made.add_argument("--archived", action="store_true", help="only archived sessions, which otherwise count too")
    made.add_argument("--limit", type=count, default=0, metavar="N", help="at most N lines; of times, the newest")
    about = (
        'a file with prices that replace the built-in ones: {"models": {"NAME": {"input": 3, "output": 15}}} '
        "(default: the setting cost.prices)"
    )
    made.add_argument("--prices", default="", metavar="FILE", help=about)
    made.add_argument("--json", action="store_true", help="print the sums as JSON; an unknown cost is null")
    return made


def run(arguments: list[str]) -> int:
    """Print the costs."""
    options = parser().parse_args(arguments)
    stores = stores_for()
    prices = stores.prices(options.prices)
    times = timestamps(options.since, options.until, ("since", "until"))
    listing = fresh_listing(stores)
    listing.partial = True
    ledger = read_ledger(listing, prices)
    rows = None
    if is_filtered(options, without=("tool",)):
        wanted = wanted_of(options, stores, listing)
        wanted["tool"] = None  # --tool is about calls: a conversation of one tool may have calls of another
        wanted["archived"] = options.archived or None  # an archived conversation has cost something too
        rows = listing.rows(**wanted)
    calls = ledger.calls(rows, **times)
    week_from = _week_from(options.week_from or stores.settings.cost.week_from)
    chosen = {"tool": options.tool, "model": options.model}
    found = report(calls, options.by, **chosen, everything=ledger.calls(), week_from=week_from)
    if options.limit:
        found.entries = found.entries[-options.limit :] if options.by in TIMES else found.entries[: options.limit]
    if options.json:
        print_json({**found.as_dict(), "prices": prices_json(prices)})
    elif not found.total.calls:
        is_chosen = rows is not None or any((*times.values(), options.tool, options.model))
        print("No recorded calls match." if is_chosen else "No tokens are recorded yet.")
    else:
        print(_table(found))
        _print_notes(found, prices)
    return report_missing(listing.missing)


def _week_from(text: str) -> int:
    """Return the moment at which a week begins, in seconds since 1970; UsageError if the text is no time."""
    if not text:
        return MONDAY
    moment = clock.to_epoch(text)
    if moment is None:
        raise UsageError(f"invalid beginning of a week {text!r}", hint="use a time such as 2026-11-12 09:00, in UTC")
    return int(moment)


def read_ledger(listing: Listing, prices: Prices) -> Ledger:
    """Return the calls of all sessions, read behind a progress bar if that takes a while."""
    with progress_of_many("Reading token counts") as progress:
        return Ledger(listing, prices, progress)


def prices_json(prices: Prices) -> dict[str, object]:
    """Return where the prices come from."""
    return {"date": prices.date, "file": prices.own or None, "sources": msgspec.to_builtins(prices.sources)}


def _table(found: Report) -> str:
    """Return the sums as a table, the total last: on a screen as many columns as fit, elsewhere all, for `awk`."""
    entries = [*found.entries, found.total]
    screen = columns()
    head = found.by.upper()
    if not screen:
        return table((head, *HEADS), [(_name(entry), *_cells(entry, "")) for entry in entries])
    cells = list(zip(*(_cells(entry, ",") for entry in entries), strict=True))
    ranks = (4, 2, 1, 3, 5, 0)
    made = [Column(head, [_name(entry) for entry in entries])]
    made += [
        Column(name, values, rank=rank, right=True) for name, values, rank in zip(HEADS, cells, ranks, strict=True)
    ]
    text = fitted_table(made, 0, screen)[0]
    *lines, last = text.split("\n")
    return "\n".join([*lines, paint(last, "bold")])


def _name(entry: Entry) -> str:
    return f"{entry.row.id} {entry.name}" if entry.row is not None and entry.row.id != entry.name else entry.name


def _cells(entry: Entry, separator: str) -> tuple[str, ...]:
    tokens = entry.tokens
    written = tokens.cache_write + tokens.cache_write_1h
    counts = (entry.calls, tokens.input, tokens.output, tokens.cache_read, written)
    cost = money(entry.cost, entry.unpriced) if separator else _plain(entry.cost)
    return (*(f"{number:{separator}}" for number in counts), cost)


def _plain(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.6f}"


def _print_notes(found: Report, prices: Prices) -> None:
    """Print what the amounts do not cover, and where the prices come from."""
    sys.stdout.flush()
    notes = []
    if found.unpriced:
        names = [f"{name} ({amount(number, 'call')})" for name, number in found.unpriced.items()]
        more = f" and {len(names) - MOST_UNPRICED} more" if len(names) > MOST_UNPRICED else ""
        advice = "set it with --prices FILE or the setting cost.prices"
        notes.append(f"unknown price: {', '.join(names[:MOST_UNPRICED])}{more}; {advice}")
    days = prices.days(found.models)
    used = [*([f"list prices of {days}"] if days else []), *([f"the prices in {prices.own}"] if prices.own else [])]
    if used:
        notes.append(f"{' and '.join(used)}; --json names their sources")
    for note in notes:
        print(folded(terminal.line(f"Note: {note}"), sys.stderr, indent=2), file=sys.stderr)
