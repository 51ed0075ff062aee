"""The filters by which `list` and the commands for many conversations choose sessions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cortext.faces.cortext.commands._listing import STATUSES
from cortext.faces.terminal.args import Several
from cortext.model.query import Query
from cortext.wiring.stores import Stores

NAMES = (
    "type",
    "status",
    "tool",
    "agent",
    "workspace",
    "project",
    "tag",
    "starred",
    "archived",
    "after",
    "before",
    "here",
)


def add_filters(parser: ArgumentParser, *, without: tuple[str, ...] = ()) -> None:
    """Add the options for the filters, except some."""
    about = "only conversations about the project in this folder (default: the current one), wherever it was held"
    options = {
        "type": {
            "action": Several,
            "help": "only conversations of this type (brainstorm, debug, …), or of one of several: plan,debug",
        },
        "status": {"choices": STATUSES, "help": "only sessions with this status"},
        "tool": {
            "action": Several,
            "help": "only sessions of this AI tool (see `cortext tools`), or of one of several: claude,codex",
        },
        "agent": {"help": "only sessions with this agent"},
        "workspace": {"help": "only this workspace or store, by its name or folder"},
        "project": {"nargs": "?", "const": ".", "default": "", "metavar": "PATH", "help": about},
        "tag": {"action": "append", "default": [], "help": "only sessions with this tag; repeat it for several"},
        "starred": {"action": "store_true", "help": "only sessions with a star"},
        "archived": {"action": "store_true", "help": "only archived sessions, which are otherwise left out"},
        "after": {"default": "", "help": "only sessions active since then: 2026-11-15, yesterday, 7d, 2w, 3m"},
        "before": {"default": "", "help": "only sessions last active until then"},
        "here": {"action": "store_true", "help": "only the current workspace"},
    }
    for name, fields in options.items():
        if name not in without:
            parser.add_argument(f"--{name}", **fields)  # type: ignore[arg-type]


def is_filtered(options: Namespace, *, without: tuple[str, ...] = ()) -> bool:
    """Whether any filter was given, except some."""
    return any(getattr(options, name, None) for name in NAMES if name not in without)


def query_of(options: Namespace, stores: Stores, *, archived: bool | None) -> Query:
    """Return which sessions the filters choose; None: whether they are archived or not."""
    names = ("type", "status", "tool", "agent", "workspace", "project", "after", "before")
    filters = {name: getattr(options, name, None) or "" for name in names}
    flags = (("starred", options.starred), ("archived", archived), ("unarchived", archived is False))
    filters["is"] = ",".join(name for name, holds in flags if holds)
    filters["tag"] = ",".join(getattr(options, "tag", ()))
    return Query(filters=filters, roots=[stores.here()] if options.here else None)
