"""The stores that a command works on, a session in one of them, and what is wrong with it."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from cortext.errors import CortextError, StoreUnreachable, not_fetched
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.model.wording import amount
from cortext.store.base import POINTER, TORN, UNREADABLE, Damage, Store, Trashed
from cortext.store.capabilities import CreatesAtomically, Settles

__all__ = [
    "NamedStore",
    "Problem",
    "StoredConversation",
    "Trashed",
    "ask_all",
    "create_with",
    "damage_note",
    "problem_of",
    "settle",
]

Item = TypeVar("Item")


class NamedStore(NamedTuple):
    """A store with the label that users see, its kind and its folder or address."""

    label: str
    kind: str
    root: str
    store: Store


class StoredConversation(NamedTuple):
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


class Problem(NamedTuple):
    """What is wrong with a session, as every face says it: `todo` is a command, `hint` a sentence that names it."""

    what: str
    todo: str
    hint: str
    damage: Sequence[Damage] = ()

    @property
    def text(self) -> str:
        """What is wrong and what to do, as a clause."""
        return f"{self.what}: {self.hint}"


def problem_of(conversation: StoredConversation) -> Problem | None:
    """Return what is wrong with a session; None if it is whole. Only one that counts as damaged is read."""
    session = conversation.session
    if not session.damage:
        return None
    todo = f"cortext repair {session.id}"
    hint = f"run `{todo}`"
    try:
        damage = conversation.store.check(session.id)
    except CortextError as error:  # a link, for example: nothing that repair could fix
        return Problem(error.message, error.hint or todo, error.hint or hint)
    except OSError as error:
        return Problem(str(error), todo, hint)
    if any(item.kind == POINTER for item in damage):
        what = "Git LFS has not fetched its log, so its messages are missing"
        return Problem(
            what, f"git lfs pull, in {conversation.root}", f"run `git lfs pull` in {conversation.root}", damage
        )
    if unreadable := sum(item.kind in (UNREADABLE, TORN) for item in damage):
        what = f"{amount(unreadable, 'place')} of its log cannot be read, so messages may be missing"
        return Problem(what, todo, hint, damage)
    return Problem(f"{damage[0].file}: {damage[0].reason}", todo, hint, damage) if damage else None


def damage_note(conversation: StoredConversation) -> str:
    """Return a note on what is wrong with a session that is read as far as possible; empty if it is whole.

    Raises DamagedData if nothing of it is here, because Git LFS has not fetched it.
    """
    problem = problem_of(conversation)
    if problem is None:
        return ""
    for item in problem.damage:
        if item.kind == POINTER:
            raise not_fetched(f"{item.file} of {conversation.session.id}", item.reason)
    return problem.text


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
