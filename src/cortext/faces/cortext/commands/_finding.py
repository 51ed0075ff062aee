"""What `search` and `similar` share: their filters, and updating the index behind a progress bar."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cortext.faces.terminal.args import Several
from cortext.faces.terminal.background import index_later
from cortext.faces.terminal.progress import Progress

if TYPE_CHECKING:
    from cortext.services.library.search import Search

FILTERS = {
    "tool": "only sessions of this AI tool (see `cortext tools`), or of one of several: claude,codex",
    "type": "only conversations of this type (brainstorm, debug, …), or of one of several",
    "status": "only sessions with this status",
    "agent": "only sessions with this agent",
    "role": "only messages of this role (user, assistant, tool, system)",
    "workspace": "only this workspace or store, by its name or folder",
    "project": "only conversations about the project in this folder, wherever it was held",
    "tag": "only conversations with this tag, or with all of several: a,b",
    "is": "only conversations that are starred or archived (or unstarred, unarchived)",
    "after": "only messages since then: 2026-11-15, yesterday, 7d, 2w, 3m",
    "before": "only messages until then",
}
SEVERAL = ("tool", "type", "tag", "is")
MANY = 1_000  # sessions or messages that justify a progress bar


def add_filters(parser: ArgumentParser, names: Sequence[str] | dict[str, str]) -> None:
    """Add an option for each of these filters."""
    for name in names:
        action = Several if name in SEVERAL else "store"
        parser.add_argument(f"--{name}", action=action, default="", metavar=name.upper(), help=FILTERS[name])


def filters_of(options: Namespace, names: Sequence[str] | dict[str, str]) -> dict[str, str]:
    """Return the filters that were given. Raises UsageError if one is invalid."""
    from cortext.model.query import check_filters

    given = {name: getattr(options, name) for name in names if getattr(options, name)}
    check_filters(given)
    return given


class Bar:
    """A progress bar for each kind of work, shown if there is much of it."""

    def __init__(self) -> None:
        self._label = ""
        self._bar: Progress | None = None

    def step(self, label: str, done: int, total: int) -> None:
        """Show that `done` of `total` of this work are done."""
        if total < MANY:
            return
        if label != self._label or self._bar is None:
            self.end()
            self._label, self._bar = label, Progress(label, total)
        self._bar.step(done - self._bar.done)

    def end(self) -> None:
        """Remove it from the screen."""
        if self._bar is not None:
            self._bar.end()
            self._bar = None


def bring_up_to_date(search: Search, *, exact: bool = False) -> None:
    """Index what has changed; slow work that no answer needs is left to a background process."""
    bar = Bar()
    try:
        updated = search.refresh(bar.step, meaning=not exact)
    finally:
        bar.end()
    if not updated.is_current:
        from cortext.services.library.listing import incomplete_line

        print(f"Note: {incomplete_line((), is_current=False)}", file=sys.stderr)
    if updated.has_more:
        index_later()
