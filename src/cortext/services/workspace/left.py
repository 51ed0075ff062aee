"""The conversations that git took out of a workspace's work tree: which they are, and bringing one back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from cortext.errors import CortextError
from cortext.model.wording import amount
from cortext.services.library.resolve import by_id, raise_ambiguous
from cortext.services.library.stores import NamedStore
from cortext.services.projects.safety_copies import places
from cortext.services.workspace import notices
from cortext.store.capabilities import KeepsCopies
from cortext.store.files.layout_paths import SESSION


class Gone(NamedTuple):
    """A session that left the work tree, or the end of one: where git still has it."""

    session_id: str
    messages: int  # at its end; 0: all of it
    place: str

    @property
    def text(self) -> str:
        """What the user is told."""
        what = f"{amount(self.messages, 'message')} of it left" if self.messages else "it left"
        return f"{what} the work tree ({self.place}) and {'are' if self.messages > 1 else 'is'} kept outside it"


def left(named_store: NamedStore) -> list[Gone]:
    """Return what left the work tree of a workspace."""
    if not isinstance(named_store.store, KeepsCopies):
        return []
    found = list(named_store.store.left())
    where = places(named_store.root, [item.path for item in found])
    return [Gone(item.session_id, item.messages, where[item.path]) for item in found]


def bring_back(stores: Iterable[NamedStore], wanted: str, here: str) -> tuple[NamedStore, str, int] | None:
    """Write what git took out of a work tree into it again; None if no such session has this name.

    Returned are the workspace, the session's id, and how many messages that were. Of several workspaces, the one
    `here` is meant.
    """
    gone = [(store, item) for store in stores for item in left(store)]
    named = by_id(((item.session_id, (store, item)) for store, item in gone), wanted)
    found = [pair for pair in named if pair[0].root == here] or named
    if len(found) > 1:
        raise_ambiguous(wanted, [f"{item.session_id} in {store.root}" for store, item in found], hint="use its id")
    for store, item in found:
        if isinstance(store.store, KeepsCopies):
            return store, item.session_id, store.store.bring_back(item.session_id)
    return None


def note_stashed(root: str, path: str) -> None:
    """Leave a notice if a conversation that came back into the work tree is in the stash as well.

    Git does not unpack an untracked file over one that exists.
    """
    from cortext.services.projects.git import STASHED, Git  # it imports what starts processes, and every list this

    inside = os.path.relpath(path, root)
    log = f"{inside}/{SESSION}/messages.jsonl"
    try:
        if STASHED in Git(root).refs_with([log]).get(log, ()):
            name = os.path.basename(path)
            way_out = f"first move {inside} away, then `cortext restore {name}` adds what the stash does not have"
            notices.add([f"{name} is back in the work tree and in the stash, too, so `git stash pop` fails: {way_out}"])
    except (CortextError, OSError):
        return  # the message matters more
