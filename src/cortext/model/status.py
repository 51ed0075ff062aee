"""The life cycle of a session: the stored statuses, the transitions between them, and how people see them.

    active ──► paused ──► completed          completed ──► active only when forced
      │  ▲        │  ▲
      │  └────────┘  └── (a pause of a resumed session)
      └──► interrupted | idle ──► active | paused | completed

A session of the assistant is idle when it has been quiet long enough and its summary is up to date: its worker writes
that. The next message makes it active again.
"""

from __future__ import annotations

from cortext.errors import TransitionRefused, UsageError

ACTIVE = "active"
PAUSED = "paused"
COMPLETED = "completed"
INTERRUPTED = "interrupted"
IDLE = "idle"

STORED = (ACTIVE, PAUSED, COMPLETED, INTERRUPTED, IDLE)

_ALLOWED = {
    ACTIVE: {PAUSED, COMPLETED, INTERRUPTED, IDLE},
    PAUSED: {ACTIVE, COMPLETED},
    INTERRUPTED: {ACTIVE, PAUSED, COMPLETED},
    IDLE: {ACTIVE, PAUSED, COMPLETED, INTERRUPTED},
    COMPLETED: set[str](),
}


def check_transition(old: str, new: str, *, force: bool = False) -> None:
    """Raise if a transition is not allowed. Keeping the status always is."""
    if new not in STORED:
        raise UsageError(f"unknown status {ascii(new)[:40]}", hint=f"use one of {', '.join(STORED)}")
    if old == new or old not in STORED:  # a status that another program wrote may always be left
        return
    if new in _ALLOWED[old] or (force and old == COMPLETED and new == ACTIVE):
        return
    if old == COMPLETED and new == ACTIVE:
        raise TransitionRefused(
            "the session was completed",
            kept="it is unchanged",
            hint="use --force to reopen it",
        )
    raise TransitionRefused(
        f"a session cannot go from {old} to {new}",
        kept="it is unchanged",
        hint=f"from {old} it can go to {', '.join(sorted(_ALLOWED[old])) or 'active, with --force'}",
    )


def shown(stored: str, *, leased: bool | None = None) -> str:
    """Return the status as people see it. `leased` is False if it lives only in a process, and that is gone."""
    return INTERRUPTED if stored == ACTIVE and leased is False else stored
