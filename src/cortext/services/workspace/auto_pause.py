"""Pausing conversations that were quiet for too long: by the next command, `watch`, an open page or the timer."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from cortext.config.schema import Settings
from cortext.errors import CortextError
from cortext.model import clock
from cortext.model.query import Query
from cortext.model.session import ACTIVE, PAUSED
from cortext.services.library.listing import Listing
from cortext.services.workspace import notices, running_chats

LOOK_S = 60.0  # at most, between two looks for quiet conversations
ELSEWHERE = 24 * 60.0  # more quiet minutes, of a conversation that another machine will pause


def is_quiet(last_active: str, minutes: float) -> bool:
    """Whether nothing was said in a conversation for more than these minutes; False if it is unknown when it was."""
    seen = clock.to_epoch(last_active)
    return seen is not None and seen < time.time() - minutes * 60


def sweep(
    listing: Listing, settings_of: Callable[[str], Settings], *, minutes: float | None = None, only: str = ""
) -> list[str]:
    """Save and pause the conversations of workspaces that were quiet for too long; return notes for the user.

    Each workspace uses its own settings; with `only`, just this one is swept. What was said last on another machine is
    left to that one for a day: both would commit the same pause. A conversation that cannot be paused now (it is being
    written, or the disk is full) does not affect the others.
    """
    notes = []
    roots = [one.root for one in listing.files.values() if one.kind == "workspace" and only in ("", one.root)]
    for row in listing.rows(Query(filters={"status": ACTIVE}, roots=roots)):
        try:
            copies = listing.files[row.root].copies
            if copies is not None and copies.is_copy(row.path):
                continue  # git took it out of the work tree: nothing is written there behind the user's back
            settings = settings_of(row.root)
            idle = settings.workspace.pause_minutes if minutes is None else minutes
            if not is_quiet(row.last_active, idle):
                continue
            if minutes is None and not (listing.was_said_here(row) or is_quiet(row.last_active, idle + ELSEWHERE)):
                continue
            from cortext.services.workspace.lifecycle import save  # most looks find nothing to save

            named_store = listing.named_store(row.root)
            running_chats.note_pause(named_store.store.peek(row.id).origin, row.root, idle)
            saved = save(named_store, row.id, PAUSED, commit=settings.workspace.commit)
        except (CortextError, OSError) as error:
            if os.access(row.root, os.W_OK):  # in a read-only checkout nothing else is to be expected
                notes.append(f'"{row.name}" could not be paused: {error}')
            continue
        notes.append(f'"{row.name}" was saved and paused after {idle:g} quiet minutes')
        notes += [saved.commit.note] if saved.commit.note else []
    return notes


def start_pausing(
    listing_of: Callable[[], Listing], settings_of: Callable[[str], Settings], minutes: float, stop: threading.Event
) -> None:
    """Pause quiet conversations once a minute, in a thread, until `stop`; the next command, and the tool, say so."""
    given = (listing_of, settings_of, minutes, stop)
    threading.Thread(target=_keep_pausing, args=given, daemon=True, name="pausing").start()


def _keep_pausing(
    listing_of: Callable[[], Listing], settings_of: Callable[[str], Settings], minutes: float, stop: threading.Event
) -> None:
    while True:
        with suppress(CortextError, OSError, sqlite3.Error):  # the next round tries again
            listing = listing_of()
            listing.refresh()
            notices.add(sweep(listing, settings_of))
        if stop.wait(min(LOOK_S, max(1.0, minutes * LOOK_S / 5))):
            return
