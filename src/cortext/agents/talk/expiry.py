"""Moving old sessions to the trash: on request, or automatically if a setting says so.

Empty sessions of processes that were killed before the first message are always removed.
"""

from __future__ import annotations

import time

import msgspec

from cortext.errors import CortextError, SessionBusy, SessionNotFound
from cortext.model import clock
from cortext.services.library.listing import Listing
from cortext.store.base import Store

DAY = 86_400.0
GRACE_PERIOD = 60.0  # seconds after its creation in which an empty session may still be opened by its process


class Cleaned(msgspec.Struct):
    """The sessions that were deleted, and the old ones that were kept because they are in use."""

    deleted: list[str]
    in_use: list[str]


def clean(listing: Listing, store: Store, days: float, *, now: float | None = None) -> Cleaned:
    """Delete the sessions whose last activity is more than `days` ago, and the abandoned ones.

    `store` must not wait for locks.
    """
    drop_abandoned(listing, store)
    cutoff = clock.from_epoch((time.time() if now is None else now) - days * DAY)
    cleaned = Cleaned([], [])
    for row in listing.rows():
        if row.last_active >= cutoff:
            continue
        try:
            # The listing may be slightly out of date; the file decides.
            session = store.get(row.id)
            if session.last_active >= cutoff:
                continue
            if session.leased:
                raise SessionBusy("in use")
            store.delete(row.id)
            cleaned.deleted.append(row.id)
        except SessionNotFound:
            continue  # another process deleted it
        except SessionBusy:
            cleaned.in_use.append(row.id)
    return cleaned


def drop_abandoned(listing: Listing, store: Store) -> None:
    """Delete the empty sessions whose process was killed. `store` must not wait for locks."""
    cutoff = clock.from_epoch(time.time() - GRACE_PERIOD)
    for root, session_id in listing.abandoned(listing.sources):
        try:
            session = store.get(session_id)
            if session.message_count == 0 and (listing.holder_died(root, session_id) or session.created_at < cutoff):
                store.delete(session_id)
        except (CortextError, OSError):
            continue  # in use, or it cannot be deleted: no list shows it while it is empty
