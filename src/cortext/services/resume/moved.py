"""Where a conversation continues, and the paths in it if its project is in another folder by now.

A conversation of a workspace continues in that workspace. Any other follows its repository: to the current folder if
that is the same project, else to where it was held, else to another folder of the same project. The store keeps the
paths as they were written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from cortext.model.message import Message
from cortext.model.session import DETAILS, Session
from cortext.model.turns import Difference
from cortext.services.library.stores import StoredConversation
from cortext.services.projects.projects import Projects, project_of, tops_of
from cortext.services.projects.repository import Repository, is_below, top_of
from cortext.services.resume.history import History
from cortext.services.resume.receipt import Receipt
from cortext.services.text.message_masking import change_texts
from cortext.services.text.paths import PathMap


class Place(msgspec.Struct, kw_only=True):
    """Where a conversation continues: the tool's folder, and what is mapped in what it is given."""

    folder: str
    paths: PathMap
    note: str = ""  # what the user should know about that folder

    def history(self, conversation: StoredConversation) -> History:
        """Return the conversation with the paths mapped."""
        return History(conversation.store, conversation.session, self.paths.message)

    def shown(self, session: Session) -> Session:
        """Return a session as it is described to the model, with the paths in what it says of itself mapped."""
        title, summary = self.paths.text(session.title), self.paths.text(session.summary)
        details = change_texts(session.extra.get(DETAILS) or {}, self.paths.text)
        return msgspec.structs.replace(session, title=title, summary=summary, extra={**session.extra, DETAILS: details})

    def count(self, receipt: Receipt, carried: Iterable[Message]) -> None:
        """Add to a receipt what was mapped in these messages."""
        if mapped := self.paths.counts_in(carried):
            receipt.changed[Difference.PATH] = mapped.total()
            receipt.moved = dict.fromkeys(mapped, self.paths.new)

    def count_newest(self, receipt: Receipt, history: History) -> None:
        """Add to the receipt of a packet what was mapped in the messages that it contains."""
        self.count(receipt, history.read(len(history) - receipt.messages))


def place_of(conversation: StoredConversation, folder: str = "") -> Place:
    """Return where a conversation continues; `folder` is where the caller wants it, if that is decided already."""
    session, here = conversation.session, os.getcwd()
    if conversation.named_store.kind == "workspace":
        return _place(folder or conversation.root, tops_of(session), conversation.root)
    held = project_of(session)
    if not held:
        return _place(folder or here)
    projects = Projects()
    repository = projects.of_session(session)
    if folder:
        top = top_of(folder) if repository.is_same(projects.repository(folder)) else ""
        return _place(folder, tops_of(session, repository), top)
    found_in = _best(projects, repository, held, here) if repository.is_known else None
    if found_in is not None:
        return _place(_below(found_in, repository.inside, here), tops_of(session, repository), found_in)
    if os.path.isdir(held):
        return _place(held)
    note = f"its folder {held} does not exist, and no other folder of that project is known: it continues in this one"
    return _place(here, note=note)


def _place(folder: str, old: Sequence[str] = (), top: str = "", note: str = "") -> Place:
    return Place(folder=folder, paths=PathMap(old if top else (), top, os.path.expanduser("~")), note=note)


def _best(projects: Projects, wanted: Repository, held: str, here: str) -> str | None:
    """Return the top folder of the project: rather not a fork, then the current one, then where it was held."""
    candidates = [(top_of(folder), projects.repository(folder)) for folder in (here, held) if os.path.isdir(folder)]
    same = [(top, repository) for top, repository in candidates if top and wanted.is_same(repository)]
    same = same or list(projects.places(wanted))
    held_top = held.removesuffix(f"/{wanted.inside}") if wanted.inside else held
    for top, repository in same:
        is_local_clone = held_top in repository.remotes or top in wanted.remotes
        if is_local_clone or wanted.shares_remote(repository):
            return top
    return same[0][0] if same else None


def _below(top: str, inside: str, here: str) -> str:
    """Return the folder of a work tree in which the tool was started; if it has none, the current one or its top."""
    folder = os.path.normpath(os.path.join(top, inside))
    if is_below(folder, top) and os.path.isdir(folder):
        return folder
    return here if is_below(here, top) else top
