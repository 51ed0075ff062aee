"""The life cycle of a session: four stored statuses, the transitions between them, and the derived ones.

    active ──► paused ──► completed          completed ──► active only when forced
      │  ▲        │  ▲
      │  └────────┘  └── (a pause of a resumed session)
      └──► interrupted ──► active | paused | completed

`idle` is never stored: a session is idle when it has been quiet long enough and its summary is up to date.
"""

from __future__ import annotations

from cortext.errors import TransitionRefused, UsageError

ACTIVE = "active"
PAUSED = "paused"
COMPLETED = "completed"
INTERRUPTED = "interrupted"
IDLE = "idle"

STORED = (ACTIVE, PAUSED, COMPLETED, INTERRUPTED)

_ALLOWED = {
    ACTIVE: {PAUSED, COMPLETED, INTERRUPTED},
    PAUSED: {ACTIVE, COMPLETED},
    INTERRUPTED: {ACTIVE, PAUSED, COMPLETED},
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


def shown(
    stored: str,
    *,
    leased: bool | None = None,
    idle_seconds: float = 0.0,
    idle_after: float | None = None,
    summary_fresh: bool = False,
) -> str:
    """Return the status as people see it.

    `leased` is False if the session is alive only while a process holds it, and none does; `idle_after` is given if
    quiet sessions are called idle.
    """
    if stored == ACTIVE and leased is False:
        return INTERRUPTED
    if stored == ACTIVE and idle_after is not None and idle_seconds >= idle_after and summary_fresh:
        return IDLE
    return stored
