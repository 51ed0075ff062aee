"""What init, upgrade and uninstall did, for people and for programs."""

from __future__ import annotations

from textwrap import wrap

import msgspec

from cortext.faces.terminal.style import columns, paint
from cortext.safety import terminal
from cortext.services.workspace.setup import Report


def print_report(report: Report, *, dry_run: bool = False, taken_out: bool = False) -> None:
    """Counts, and by name what the user wants to know by name."""
    would = "would be " if dry_run else ""
    for label, paths in (("written", report.written), ("removed", report.removed)):
        if paths:
            files = f"{len(paths)} file{'s' if len(paths) != 1 else ''}"
            _print(f"{files} {would}{label}: {_short(paths)}")
    if report.merged:
        done = "taken out of" if taken_out else "set in"
        _print(f"our entries {would}{done}: {', '.join(dict.fromkeys(report.merged))}")
    for path in report.kept:
        print(f"  {paint('kept', 'yellow')}, because you edited it: {terminal.line(path)}")
    if not (report.written or report.removed or report.merged or report.kept):
        print("  nothing to take out" if taken_out else "  everything is up to date")


def _print(line: str) -> None:
    """Indented, and on a screen folded between the names."""
    lead = "  "
    screen = columns() or 10_000
    made = wrap(terminal.line(line), screen, initial_indent=lead, subsequent_indent=lead * 2,
                break_long_words=False, break_on_hyphens=False)  # fmt: skip
    print("\n".join(made))


def _short(paths: list[str]) -> str:
    return ", ".join(paths[:4]) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")


def report_json(report: Report) -> str:
    """The same as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
