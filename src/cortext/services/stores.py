"""The stores that a command works on, and finding a session in them by id, prefix or number."""

from collections.abc import Iterable
from typing import NamedTuple

from cortext.errors import AmbiguousId, SessionNotFound
from cortext.model.ids import is_id
from cortext.model.session import Session
from cortext.store.base import Store, Trashed

__all__ = ["Found", "NamedStore", "Trashed", "all_sessions", "exact", "find"]


class NamedStore(NamedTuple):
    """A store with the name that people see for it."""

    label: str
    kind: str
    root: str
    store: Store


class Found(NamedTuple):
    """A session and the store that it is in."""

    place: NamedStore
    session: Session


def all_sessions(places: Iterable[NamedStore]) -> list[Found]:
    """Every session of these stores, the last active first."""
    found = [Found(place, session) for place in places for session in place.store.sessions()]
    found.sort(key=lambda item: (item.session.last_active, item.session.id), reverse=True)
    return found


def exact(places: Iterable[NamedStore], wanted: str) -> list[Found]:
    """The sessions with this very id: there may be clones."""
    found = []
    for place in places if is_id(wanted) else ():
        try:
            found.append(Found(place, place.store.get(wanted)))
        except SessionNotFound:
            continue
    return found


def find(places: Iterable[NamedStore], wanted: str) -> Found:
    """The session with this id, or the only one whose id begins so."""
    places = list(places)
    matches = exact(places, wanted) or [
        item for item in all_sessions(places) if item.session.id.startswith(wanted.lower())
    ]
    # Of several the one in the workspace that we stand in: it is the first of the stores.
    here = [item for item in matches if item.place.kind == "workspace" and item.place is places[0]]
    if len(matches) == 1 or len(here) == 1:
        return (here or matches)[0]
    if matches:
        names = ", ".join(f"{item.session.id} ({item.place.label})" for item in matches[:8])
        raise AmbiguousId(f"{wanted!r} could be: {names}", hint="give more of the id")
    raise SessionNotFound(f"no session {wanted!r}", hint="see what there is with `cortext list`")
