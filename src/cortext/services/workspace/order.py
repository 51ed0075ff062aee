"""Changing the tags, star, notes and archive of conversations (see model/order)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from cortext.config.load import settings_of
from cortext.errors import CortextError, NotFound, UsageError
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
from cortext.services.workspace.committing import commit_sessions

AT_ONCE = 500  # conversations in one commit


def checked_tag(text: str) -> str:
    """Return a tag in its one spelling. UsageError if it cannot be one, or is a secret: tags get into git."""
    name = tag_name(text)
    if mask(name).findings or mask(text).findings:
        raise UsageError("a tag must not be a secret", kept="nothing was changed", hint="use another word")
    return name


def set_tags(named_store: NamedStore, session: Session, tags: Iterable[str], *, on: bool = True) -> list[str]:
    """Add these tags, or remove them; return those that this changed."""
    known = order_of(session.extra).tags
    changed = [tag for tag in dict.fromkeys(tags) if (tag in known) != on]
    _add(named_store, session, [event(session.extra, TAG, tag, on=on) for tag in changed])
    return changed


def set_star(named_store: NamedStore, session: Session, *, on: bool = True) -> bool:
    """Give a conversation a star, or take it away; return whether that changed anything."""
    changes = order_of(session.extra).starred != on
    _add(named_store, session, [event(session.extra, STAR, on=on)] if changes else [])
    return changes


def set_archived(named_store: NamedStore, session: Session, *, on: bool = True) -> bool:
    """Hide a conversation from lists, or show it again; return whether that changed anything."""
    changes = order_of(session.extra).archived != on
    _add(named_store, session, [event(session.extra, ARCHIVE, on=on)] if changes else [])
    return changes


def checked_note(text: str) -> str:
    """Return the text of a note without secrets. UsageError if it is empty or too long."""
    text = mask(text.strip()).text
    if not text or len(text) > LONGEST_NOTE:
        raise UsageError(
            "the note is empty" if not text else f"the note has {len(text):,} characters",
            kept="nothing was changed",
            hint=f"use 1 to {LONGEST_NOTE:,} characters",
        )
    return text


def add_note(named_store: NamedStore, session: Session, text: str) -> Note:
    """Add a note, without secrets, and return it."""
    made = event(session.extra, NOTE, checked_note(text))
    _add(named_store, session, [made])
    return Note(made["id"], made["at"], made["value"])


def set_notes(named_store: NamedStore, session: Session, texts: Iterable[str], *, on: bool = True) -> list[str]:
    """Add notes that are not there yet, or remove those with these texts; return the texts that this changed."""
    known = {note.text: note.id for note in order_of(session.extra).notes}
    changed = [text for text in dict.fromkeys(texts) if (text in known) != on]
    _add(named_store, session, [event(session.extra, NOTE, text if on else known[text], on=on) for text in changed])
    return changed


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


def _add(named_store: NamedStore, session: Session, events: Sequence[Event]) -> None:
    if events:
        # Only the new events: the store adds them to those that exist by then.
        changed = named_store.store.update(session.id, Change(extra={ORDER: [*events]}))
        session.extra = changed.extra


def save(named_store: NamedStore, ids: Sequence[str]) -> str:
    """Commit conversations of a workspace, so that the change reaches other machines; return what the user should know.

    The change itself is made: a commit that fails is made with the next save.
    """
    if named_store.kind != "workspace" or not settings_of(named_store.root).workspace.commit:
        return ""
    notes = []
    for start in range(0, len(ids), AT_ONCE):
        sessions = [named_store.store.get(name) for name in ids[start : start + AT_ONCE]]
        _, done = commit_sessions(named_store, sessions)
        notes += [done.note] if done.note else []
        notes += [f"not committed to git yet: {done.problem}; {done.hint}"] if done.problem else []
    return "; ".join(dict.fromkeys(notes))


# Changes one conversation, and returns what that changed: tags or notes, or whether it did anything.
Setter = Callable[[NamedStore, Session], list[str] | bool]


class MarkChange(NamedTuple):
    """A conversation that was changed, as it was listed before, and the tags or notes that were added or removed."""

    row: Row
    words: list[str]


class Changes(NamedTuple):
    """What came of changing many conversations: those that were changed, those that could not be, and notes on git."""

    changed: list[MarkChange]
    failed: list[tuple[Row, CortextError]]
    notes: list[str]


def change_all(
    listing: Listing, rows: Iterable[Row], setter: Setter, progress: Callable[[], None] | None = None
) -> Changes:
    """Apply a change to many conversations. One that cannot be changed does not prevent the others.

    The conversations of a workspace get one commit together.
    """
    done = Changes([], [], [])
    try:
        for row in rows:
            named_store = listing.named_store(row.root)
            try:
                result = setter(named_store, named_store.store.peek(row.id))
            except CortextError as error:
                done.failed.append((row, error))
                continue
            finally:
                if progress is not None:
                    progress()
            if result:
                done.changed.append(MarkChange(row, result if isinstance(result, list) else []))
    finally:  # after Ctrl-C, too
        for root in dict.fromkeys(item.row.root for item in done.changed):
            try:
                note = save(listing.named_store(root), [item.row.id for item in done.changed if item.row.root == root])
            except CortextError as error:
                note = f"not committed to git yet: {error.message}"
            done.notes.extend([note] if note else [])
    return done


def needs_change(listing: Listing, row: Row, what: str, words: Sequence[str], *, on: bool) -> bool:
    """Whether a change would change this conversation, for a dry run. `words` are the tags or notes."""
    if what in (TAG, NOTE):
        known = row.tag_names if what == TAG else _notes(listing, row)
        return any((word in known) != on for word in words)
    return bool(row.starred if what == STAR else row.archived) != on


def _notes(listing: Listing, row: Row) -> list[str]:
    """Return the notes on a conversation, which no list has; none if it cannot be read."""
    try:
        session = listing.named_store(row.root).store.peek(row.id)
    except CortextError:
        return []
    return [note.text for note in order_of(session.extra).notes]


def notes_json(order: Order) -> list[dict[str, object]]:
    """Return the notes as JSON, with their numbers."""
    return [{"number": number, "at": note.at, "text": note.text} for number, note in enumerate(order.notes, 1)]
