"""Changing the tags, star, notes and archive of conversations (see model/order)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cortext.errors import NotFound, UsageError
from cortext.index.sessions import Row
from cortext.model.order import (
    ARCHIVE,
    LONGEST_NOTE,
    NOTE,
    ORDER,
    STAR,
    TAG,
    Event,
    Note,
    Order,
    event,
    order_of,
    tag_name,
)
from cortext.model.session import Change, Session
from cortext.safety.secrets.masking import mask
from cortext.services.library.listing import Listing
from cortext.services.library.stores import NamedStore

Committed = Callable[[NamedStore, Session], None]  # called for every session that was changed


def checked_tag(text: str) -> str:
    """Return a tag in its one spelling. UsageError if it cannot be one, or is a secret: tags get into git."""
    name = tag_name(text)
    if mask(name).findings or mask(text).findings:
        raise UsageError("a tag must not be a secret", kept="nothing was changed", hint="use another word")
    return name


def set_tags(named_store: NamedStore, session: Session, tags: Iterable[str], *, on: bool = True) -> bool:
    """Add these tags, or remove them; return whether that changed anything."""
    known = order_of(session.extra).tags
    return _add(named_store, session, [event(session.extra, TAG, tag, on=on) for tag in tags if (tag in known) != on])


def set_star(named_store: NamedStore, session: Session, *, on: bool = True) -> bool:
    """Give a conversation a star, or take it away; return whether that changed anything."""
    changes = order_of(session.extra).starred != on
    return _add(named_store, session, [event(session.extra, STAR, on=on)] if changes else [])


def set_archived(named_store: NamedStore, session: Session, *, on: bool = True) -> bool:
    """Hide a conversation from lists, or show it again; return whether that changed anything."""
    changes = order_of(session.extra).archived != on
    return _add(named_store, session, [event(session.extra, ARCHIVE, on=on)] if changes else [])


def add_note(named_store: NamedStore, session: Session, text: str) -> Note:
    """Add a note, without secrets, and return it."""
    text = mask(text.strip()).text
    if not text or len(text) > LONGEST_NOTE:
        raise UsageError(
            "the note is empty" if not text else f"the note has {len(text):,} characters",
            kept="nothing was changed",
            hint=f"use 1 to {LONGEST_NOTE:,} characters",
        )
    made = event(session.extra, NOTE, text)
    _add(named_store, session, [made])
    return Note(made["id"], made["at"], text)


def remove_note(named_store: NamedStore, session: Session, number: int) -> Note:
    """Remove a note by its number, from 1; return it."""
    notes = order_of(session.extra).notes
    if not 1 <= number <= len(notes):
        raise NotFound(
            f"{session.id} has no note {number}",
            kept="nothing was changed",
            hint=f"use 1 to {len(notes)}" if notes else f"add one with cortext note {session.id} WORDS",
        )
    note = notes[number - 1]
    _add(named_store, session, [event(session.extra, NOTE, note.id, on=False)])
    return note


def _add(named_store: NamedStore, session: Session, events: Sequence[Event]) -> bool:
    if events:
        # Only the new events: the store adds them to those that exist by then.
        changed = named_store.store.update(session.id, Change(extra={ORDER: [*events]}))
        session.extra = changed.extra
    return bool(events)


Setter = Callable[[NamedStore, Session], bool]


def change_all(
    listing: Listing,
    rows: Iterable[Row],
    setter: Setter,
    committed: Committed,
    progress: Callable[[], None] | None = None,
) -> list[Row]:
    """Apply a change to many conversations; return those that it changed, as they were listed before."""
    changed = []
    for row in rows:
        named_store = listing.named_store(row.root)
        session = named_store.store.peek(row.id)
        if setter(named_store, session):
            changed.append(row)
            committed(named_store, session)
        if progress is not None:
            progress()
    return changed


def needs_change(row: Row, what: str, tags: Sequence[str], *, on: bool) -> bool:
    """Whether a change would change this conversation, for a dry run."""
    if what == TAG:
        return any((tag in row.tag_names) != on for tag in tags)
    return bool(row.starred if what == STAR else row.archived) != on


def order_json(order: Order) -> dict[str, object]:
    """Return tags, star, archive and notes as JSON."""
    notes = [{"number": number, "at": note.at, "text": note.text} for number, note in enumerate(order.notes, 1)]
    return {"tags": list(order.tags), "starred": order.starred, "archived": order.archived, "notes": notes}
