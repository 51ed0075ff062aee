"""The list of sessions as commands use it: up to date, quiet conversations paused, and news told once."""

from __future__ import annotations

import os
import time
from glob import iglob

from cortext.config.trust import settings_of
from cortext.faces.terminal.progress import Progress
from cortext.model import clock
from cortext.services.capture import uncaptured
from cortext.services.library.listing import Listing
from cortext.services.workspace import notices
from cortext.wiring.stores import WORKSPACE, Stores

STATUSES = ("active", "paused", "completed", "interrupted", "idle", "damaged")
MANY = 200  # so many sessions to read anew are worth a progress bar


def look_around(stores: Stores) -> tuple[Listing, list[str]]:
    """The list, and what to tell the user."""
    listing = fresh_listing(stores)
    told = [*notices.take(), *stores.settings.warnings()]
    here = stores.workspace  # what is quiet elsewhere is for a command there, or for `cortext sweep`
    border = clock.from_epoch(time.time() - stores.settings.workspace.pause_minutes * 60)
    if here and any(row.last_active < border for row in listing.rows(status="active", root=here)):
        from cortext.services.workspace.lifecycle import sweep

        swept = sweep(listing, settings_of, only=here)
        if swept:
            listing.refresh()
        told += swept
    roots = [location.root for location in stores.locations() if location.kind == WORKSPACE]
    return listing, [*told, *_without_workspace(here), *_not_committed(roots), *_not_captured()]


def _without_workspace(here: str) -> list[str]:
    """What to say in a folder that holds conversations, and is no workspace: a clone without what `init` made."""
    if here or not os.path.isdir("conversations"):
        return []

    if next(iglob("conversations/*/*/.session/session.json"), None) is None:
        return []
    missing = "it has no .workspace, which was perhaps never committed"
    return [f"the conversations in this folder are not shown: {missing}; `cortext init` makes it a workspace"]


def _not_captured() -> list[str]:
    """What to say about transcripts that could not be taken in."""
    found = uncaptured.failures()
    if len(found) > 1:
        return [
            f"{len(found)} transcripts are not captured, since {found[0].since}: `cortext doctor` says which and why"
        ]
    return [failure.text for failure in found]


def _not_committed(roots: list[str]) -> list[str]:
    """What to say about conversations whose commit could not be made."""
    if not any(os.path.isdir(os.path.join(root, ".workspace", "state", "uncommitted")) for root in roots):
        return []
    from cortext.services.workspace.committing import uncommitted

    found = [(session_id, why) for root in roots for session_id, why in uncommitted(root).items()]
    if len(found) > 1:
        return [f"{len(found)} conversations are saved, but not committed to git yet: `cortext doctor` says why"]
    return [f"{session_id} is saved, but not committed to git yet: {why}" for session_id, why in found]


def fresh_listing(stores: Stores) -> Listing:
    """The list, brought up to date behind a progress bar where that takes a while."""
    listing = stores.listing()
    bar: Progress | None = None

    def progress(done: int, total: int) -> None:
        nonlocal bar
        if total >= MANY:
            if bar is None:
                from cortext.faces.terminal.progress import Progress

                bar = Progress("Reading sessions", total)
            bar.step()

    try:
        listing.refresh(progress)
    finally:
        if bar is not None:
            bar.end()
    if listing.scan_due:
        from cortext.faces.cortext.commands import refresh

        refresh.in_background()
    return listing
