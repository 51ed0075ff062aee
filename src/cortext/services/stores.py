"""The stores that a command works on, and a session in one of them."""

from collections.abc import Iterable
from typing import NamedTuple

from cortext.errors import CortextError, SessionNotFound
from cortext.model.ids import is_id
from cortext.model.session import Session
from cortext.store.base import Settles, Store, Trashed

__all__ = ["Found", "NamedStore", "Trashed", "exact", "settle"]


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


def exact(places: Iterable[NamedStore], wanted: str) -> list[Found]:
    """The sessions with this very id: there may be clones."""
    found = []
    for place in places if is_id(wanted) else ():
        try:
            found.append(Found(place, place.store.get(wanted)))
        except SessionNotFound:
            continue
    return found


def settle(store: Store, session_id: str) -> None:
    """The end of a turn: the counts in the metadata become what the log says (see base.Settles).

    Where that fails, or somebody else has the session, nothing is lost: the next turn does it.
    """
    if isinstance(store, Settles):
        try:
            store.settle(session_id)
        except CortextError:
            pass
