"""Reports of init, upgrade and uninstall, as text and as JSON."""

from __future__ import annotations

from textwrap import wrap

import msgspec

from cortext.faces.terminal.style import columns, paint
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.workspace.setup import Report


def print_report(report: Report, *, dry_run: bool = False, uninstalled: bool = False) -> None:
    """Print how many files changed, and name those that the user has edited."""
    would = "would be " if dry_run else ""
    for label, paths in (("written", report.written), ("removed", report.removed)):
        if paths:
            files = amount(len(paths), "file")
            _print(f"{files} {would}{label}: {_short(paths)}")
    if report.merged:
        done = "removed from" if uninstalled else "added to"
        _print(f"cortext's entries {would}{done}: {', '.join(dict.fromkeys(report.merged))}")
    for path in report.kept:
        print(f"  {paint('kept', 'yellow')}, because you edited it: {terminal.line(path)}")
    if not (report.written or report.removed or report.merged or report.kept):
        print("  nothing to remove" if uninstalled else "  everything is up to date")


def _print(line: str) -> None:
    """Print a line indented, folded between the names on a screen."""
    lead = "  "
    screen = columns() or 10_000
    lines = wrap(terminal.line(line), screen, initial_indent=lead, subsequent_indent=lead * 2,
                break_long_words=False, break_on_hyphens=False)  # fmt: skip
    print("\n".join(lines))


def _short(paths: list[str]) -> str:
    return ", ".join(paths[:4]) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")


def report_json(report: Report) -> str:
    """Return the report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
