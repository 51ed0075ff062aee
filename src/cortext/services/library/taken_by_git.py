"""The conversations that git took out of a work tree: which, where git still has them, and bringing one back."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import NamedTuple

from cortext.errors import CortextError
from cortext.index.sessions import Key
from cortext.model.wording import amount, listed
from cortext.services.library.resolve import by_id, raise_ambiguous
from cortext.services.library.stores import NamedStore
from cortext.services.projects.git import STASHED, Git
from cortext.services.projects.safety_copies import copied
from cortext.store.capabilities import KeepsCopies
from cortext.store.files.layout_paths import SESSION

NOWHERE = "not in any branch"
STASH = "in the stash"
MOST_NAMED = 3  # sessions that a note of the list names


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
    where = _places(named_store.root, [item.path for item in found])
    return [Gone(item.session_id, item.messages, where[item.path]) for item in found]


def places_of(outside: Iterable[tuple[str, str, str]]) -> dict[Key, str]:
    """Return where git has those of these sessions that left their work tree as a whole, by store and id.

    Given are the store, the id and the path of sessions that are read from outside their store.
    """
    by_root: dict[str, list[tuple[str, str]]] = {}
    for root, name, path in outside:
        by_root.setdefault(root, []).append((name, path))
    found: dict[Key, str] = {}
    for root, sessions in by_root.items():
        kept = copied(root)
        if kept is None:
            continue
        below = kept.folder + os.sep
        inside = {name: root + path[len(kept.folder) :] for name, path in sessions if path.startswith(below)}
        gone = {name: path for name, path in inside.items() if not os.path.exists(os.path.join(path, SESSION))}
        where = _places(root, gone.values())
        found |= {(root, name): where[path] for name, path in gone.items()}
    return found


def _places(root: str, paths: Collection[str]) -> dict[str, str]:
    """Return where git has the conversations with these paths in the work tree: a branch, the stash, or nowhere."""
    if not paths:
        return {}
    logs = {path: f"{os.path.relpath(path, root)}/{SESSION}/messages.jsonl" for path in paths}
    refs = Git(root).refs_with(logs.values())
    return {path: _place(refs.get(log, ())) for path, log in logs.items()}


def _place(refs: Collection[str]) -> str:
    for prefix, what in (("refs/heads/", "on branch"), ("refs/remotes/", "on branch"), ("refs/tags/", "at tag")):
        names = [ref.removeprefix(prefix) for ref in refs if ref.startswith(prefix)]
        if names:
            return f"{what} {listed(names, 1)}"
    others = [f"at {ref}" for ref in refs if not ref.startswith("refs/stash")]  # what filter-branch keeps, say
    return others[0] if others else STASH if refs else NOWHERE


def note(places: dict[Key, str]) -> list[str]:
    """Return what a list says about sessions that left their work tree."""
    if not places:
        return []
    names = [f"{session_id} ({place})" for (_, session_id), place in places.items()]
    todo = "`cortext restore` with the id brings one back"
    return [f"no longer in the work tree, but kept: {listed(names, MOST_NAMED)}; {todo}"]


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


def stashed(root: str, path: str) -> list[str]:
    """Return what to say of a conversation that came back into the work tree, if it is in the stash as well.

    Git does not unpack an untracked file over one that exists.
    """
    inside = os.path.relpath(path, root)
    log = f"{inside}/{SESSION}/messages.jsonl"
    try:
        if STASHED not in Git(root).refs_with([log]).get(log, ()):
            return []
    except (CortextError, OSError):
        return []  # the message matters more
    name = os.path.basename(path)
    way_out = f"first move {inside} away, then `cortext restore {name}` adds what the stash does not have"
    return [f"{name} is back in the work tree and in the stash, too, so `git stash pop` fails: {way_out}"]
