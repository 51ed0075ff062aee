"""Old sessions go to the trash: when somebody asks, and by themselves where a setting says so.

So do those that were killed before their first word, without being asked for.
"""

from __future__ import annotations

import time

import msgspec

from cortext.errors import CortextError, SessionBusy, SessionNotFound
from cortext.model import clock
from cortext.services.library.listing import Listing
from cortext.store.base import Store

DAY = 86_400.0
JUST_MADE = 60.0  # seconds in which a session without a word may be one that its process is about to hold


class Cleaned(msgspec.Struct):
    """What a cleaning did: sessions that went, and old ones that stayed because somebody holds them."""

    deleted: list[str]
    in_use: list[str]


def clean(listing: Listing, store: Store, days: float, *, now: float | None = None) -> Cleaned:
    """Delete the sessions of one store whose last activity is strictly longer ago. `store` must not wait for locks.

    Those in which nothing was said are in no list, and go too.
    """
    drop_abandoned(listing, store)
    border = clock.from_epoch((time.time() if now is None else now) - days * DAY)
    cleaned = Cleaned([], [])
    for row in listing.rows():
        if row.last_active >= border:
            continue
        try:
            # The list may be a moment behind: what counts is what the file says now.
            session = store.get(row.id)
            if session.last_active >= border:
                continue
            if session.leased:
                raise SessionBusy("held")
            store.delete(row.id)
            cleaned.deleted.append(row.id)
        except SessionNotFound:
            continue  # another process was faster
        except SessionBusy:
            cleaned.in_use.append(row.id)
    return cleaned


def drop_abandoned(listing: Listing, store: Store) -> None:
    """Delete the sessions whose process was killed before anything was said. `store` must not wait for locks."""
    old = clock.from_epoch(time.time() - JUST_MADE)
    for root, session_id in listing.abandoned(listing.sources):
        try:
            session = store.get(session_id)
            if session.message_count == 0 and (listing.holder_died(root, session_id) or session.created_at < old):
                store.delete(session_id)
        except (CortextError, OSError):
            continue  # somebody goes on with it, or it cannot be deleted: it is shown nowhere as long as it is empty
