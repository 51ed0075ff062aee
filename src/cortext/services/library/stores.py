"""The stores that a command works on, and a session in one of them."""

from collections.abc import Sequence
from typing import NamedTuple

from cortext.errors import CortextError
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.store.base import Store, Trashed
from cortext.store.capabilities import CreatesAtomically, Settles

__all__ = ["Found", "NamedStore", "Trashed", "create_with", "settle"]


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


def create_with(store: Store, session: Session, messages: Sequence[Message], change: Change) -> Session:
    """A new session that begins with these messages: also where we are stopped meanwhile there is never half of it.

    On a server, which has no such step, a stop that we hear of (Ctrl-C, an error) takes it back.
    """
    if isinstance(store, CreatesAtomically):
        return store.create_atomically(session, messages, change)
    made = store.create(session)
    try:
        if messages:
            store.append(made.id, *messages)
        return store.update(made.id, change)
    except BaseException:
        store.delete(made.id)
        raise


def settle(store: Store, session_id: str) -> None:
    """The end of a turn: the counts in the metadata become what the log says (see capabilities.Settles).

    Where that fails, or somebody else has the session, nothing is lost: the next turn does it.
    """
    if isinstance(store, Settles):
        try:
            store.settle(session_id)
        except CortextError:
            pass
