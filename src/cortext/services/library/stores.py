"""The stores that a command works on, and a session in one of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from cortext.errors import CortextError, StoreUnreachable
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.store.base import Store, Trashed
from cortext.store.capabilities import CreatesAtomically, Settles

__all__ = ["Found", "NamedStore", "Trashed", "ask_all", "create_with", "settle"]

Item = TypeVar("Item")


class NamedStore(NamedTuple):
    """A store with the label that users see, its kind and its folder or address."""

    label: str
    kind: str
    root: str
    store: Store


class Found(NamedTuple):
    """A session and the store it is in."""

    named_store: NamedStore
    session: Session

    @property
    def store(self) -> Store:
        """The store itself."""
        return self.named_store.store

    @property
    def root(self) -> str:
        """The folder or address of the store."""
        return self.named_store.root


def ask_all(
    stores: Iterable[NamedStore], question: Callable[[NamedStore], Iterable[Item]]
) -> tuple[list[Item], dict[str, StoreUnreachable]]:
    """Return what the stores answer, and the servers that do not: each of them is asked once."""
    found: list[Item] = []
    missing: dict[str, StoreUnreachable] = {}
    for named_store in stores:
        address = named_store.root.partition("#")[0]
        if address not in missing:
            try:
                found += question(named_store)
            except StoreUnreachable as error:
                missing[address] = error
    return found, missing


def create_with(store: Store, session: Session, messages: Sequence[Message], change: Change) -> Session:
    """Create a session with these messages, atomically: a process that is killed leaves no partial session.

    Stores that do not support that delete the session again after an error or Ctrl-C.
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
    """At the end of a turn, update the counts in the metadata from the log (see capabilities.Settles).

    If that fails, or another process holds the session, nothing is lost: the next turn does it.
    """
    if isinstance(store, Settles):
        try:
            store.settle(session_id)
        except CortextError:
            pass
