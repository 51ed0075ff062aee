"""`cortext why` and `cortext touched`: the conversations behind a line, a commit or a file."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from cortext.errors import UsageError
from cortext.faces.cortext.commands.search import bring_up_to_date
from cortext.faces.terminal.args import Help, count, stores_for
from cortext.faces.terminal.output import folded, note, paint, print_json, report_missing
from cortext.faces.terminal.run import Command
from cortext.model import clock
from cortext.safety import terminal
from cortext.services.origin.history import line_of, locate
from cortext.services.origin.session_edits import EditSource, touch_json, touched
from cortext.services.origin.why import NOT_KNOWN, Why, commit_origins_json, file_json, line_json

if TYPE_CHECKING:
    from cortext.services.origin.history import Commit
    from cortext.services.origin.why import Attribution
    from cortext.wiring.stores import Stores


def why_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext why",
        formatter_class=Help,
        description="Find the conversation behind a line: what you asked for, what was decided, and how to continue. "
        "Edits in stored conversations are compared with the file's history in git by their content; a commit that was "
        "merely made at the same time never counts. Exits with 1 if no agent is known to have written it.",
        epilog="examples:  cortext why src/pond.py:42    cortext why src/pond.py    cortext why --commit HEAD",
    )
    command.add_argument(
        "file", nargs="?", metavar="FILE[:LINE]", help="a file in a git repository, or one of its lines"
    )
    command.add_argument("--commit", metavar="SHA", help="ask about the lines that a commit added")
    command.add_argument("--json", action="store_true", help="print JSON")
    return command


def run_why(arguments: list[str]) -> int:
    """Print the origin."""
    options = why_parser().parse_args(arguments)
    if bool(options.file) == bool(options.commit):
        raise UsageError("name either a file or a commit", hint="cortext why src/pond.py:42, or --commit HEAD")
    path, line = line_of(options.file or os.curdir)
    stores = stores_for()
    inside, why = asking(stores, path)
    if options.commit:
        code = _commit(why, options.commit, as_json=options.json)
    elif line:
        code = _line(why, inside, line, as_json=options.json)
    else:
        code = _file(why, inside, as_json=options.json)
    return report_missing(why.listing.away) or code


def asking(stores: Stores, path: str) -> tuple[str, Why]:
    """Return a file's path in its repository, and what answers questions about it, with all that is stored indexed.

    Raises NotFound if the file is in no repository.
    """
    history, inside = locate(path)
    search = stores.search().reachable()
    bring_up_to_date(search, exact=True)
    return inside, Why(EditSource(search.listing, lambda: search), history)


def _line(why: Why, path: str, number: int, *, as_json: bool) -> int:
    answer = why.line(path, number)
    is_known = answer.origin.row is not None
    if as_json:
        print_json(line_json(path, answer))
        return 0 if is_known else 1
    print(terminal.line(f"{path}:{number}  {answer.line.text.strip()}"))
    print(paint(terminal.line(_commit_line(answer.line.commit)), "dim"))
    print()
    if is_known:
        _print_origin(answer.origin)
    else:
        print(f"{NOT_KNOWN}: {answer.origin.why_not}.")
    return 0 if is_known else 1


def _file(why: Why, path: str, *, as_json: bool) -> int:
    answer = why.file(path)
    if as_json:
        print_json(file_json(answer))
        return 0 if answer.origins else 1
    if not answer.origins:
        print(f"{NOT_KNOWN}: no stored conversation wrote a line of {terminal.line(path)}.")
        return 1
    print(
        terminal.line(f"{path}: {answer.lines - answer.unknown} of {answer.lines} lines come from these conversations:")
    )
    for origin in answer.origins:
        print()
        _print_origin(origin, "lines")
    return 0


def _commit(why: Why, revision: str, *, as_json: bool) -> int:
    answer = why.commit(revision)
    if as_json:
        print_json(commit_origins_json(answer))
        return 0 if answer.origins else 1
    print(paint(terminal.line(_commit_line(answer.commit)), "dim"))
    for origin in answer.origins:
        print()
        _print_origin(origin)
    if not answer.origins:
        print(f"{NOT_KNOWN}: no stored conversation wrote the lines that it added.")
    return 0 if answer.origins else 1


def _commit_line(commit: Commit | None) -> str:
    if commit is None:
        return "not committed yet"
    return f"commit {commit.sha[:10]}  {clock.day(commit.time)}  {commit.subject} ({commit.author})"


def _print_origin(origin: Attribution, unit: str = "distinctive lines") -> None:
    row, reason = origin.row, origin.reason
    assert row is not None
    print(paint(folded(terminal.line(row.name), indent=3), "bold"))
    facts = [row.id, row.tool, row.status, clock.ago(row.last_active)]
    facts.append(origin.evidence(unit))
    print("   " + paint(folded(terminal.line(" · ".join(filter(None, facts))), first=3, indent=3), "dim"))
    if reason is not None:
        quotations = (
            ("asked", reason.ask_seq, reason.ask),
            ("in answer to", -1, reason.answers),
            ("decided", reason.decision_seq, reason.decision),
            ("said", -1, reason.said if reason.said != reason.decision else ""),
            ("edit", reason.seq, f"{reason.call} {reason.path}, {clock.short(reason.timestamp)}".strip()),
        )
        for label, seq, text in quotations:
            if text:
                head = f"   {label}{f' #{seq}' if seq >= 0 else ''}: "
                colour = paint(head, "cyan")
                print(colour + folded(terminal.line(text), first=len(head), indent=6))
    note(f"   Continue it with `cortext resume {row.id}`, read it with `cortext show {row.id}`.")


def touched_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext touched",
        formatter_class=Help,
        description="List the conversations that read or changed a file, under any name that it had in git, the latest "
        "first. The file need not exist any more. Exits with 1 if there is none.",
        epilog="example:  cortext touched src/pond.py --changed",
    )
    command.add_argument("file", metavar="FILE", help="the file")
    command.add_argument("--changed", action="store_true", help="only conversations that changed it")
    command.add_argument("--limit", type=count, default=20, metavar="N", help="at most N conversations (default: 20)")
    command.add_argument("--json", action="store_true", help="print a JSON array")
    return command


def run_touched(arguments: list[str]) -> int:
    """Print the conversations."""
    options = touched_parser().parse_args(arguments)
    stores = stores_for()
    search = stores.search().reachable()
    bring_up_to_date(search, exact=True)
    touches = touched(EditSource(stores.listing(), lambda: search), options.file)
    touches = [touch for touch in touches if touch.changed or not options.changed][: options.limit]
    if options.json:
        print_json([touch_json(touch) for touch in touches])
        return report_missing(search.listing.away) or (0 if touches else 1)
    for number, touch in enumerate(touches, 1):
        row = touch.row
        head = f"{number}. "
        print(head + paint(folded(terminal.line(row.name), first=len(head), indent=3), "bold"))
        facts = [row.id, row.tool, " and ".join(touch.did), f"last in #{touch.seq}", clock.ago(touch.timestamp)]
        facts += [] if touch.is_sure else ["perhaps another project's"]
        print("   " + paint(folded(terminal.line(" · ".join(filter(None, facts))), first=3, indent=3), "dim"))
    if not touches:
        print("No stored conversation touched it.")
        return report_missing(search.listing.away) or 1
    sys.stdout.flush()
    print("Read one with `cortext show ID`; `cortext why FILE:LINE` asks about a line.", file=sys.stderr)
    return report_missing(search.listing.away)


WHY = Command(why_parser, run_why)
TOUCHED = Command(touched_parser, run_touched)
