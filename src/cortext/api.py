"""The Python library behind `import cortext`: open a store, and list, search, read and continue conversations.

This module is public through `cortext` only. What it needs comes from `wiring`, as for every other face.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from typing import Literal, NamedTuple, Unpack

from cortext.errors import NotFound, UsageError
from cortext.model.message import Message
from cortext.model.query import Filters, Query, SessionFilters, check_filters, of_sessions
from cortext.model.session import Session
from cortext.safety.credentials import is_address
from cortext.services.library.listing import Row
from cortext.services.library.resolve import Resolver
from cortext.services.library.sources import Match
from cortext.services.library.stores import StoredConversation
from cortext.services.projects.workspaces import check_folder, remember_workspace
from cortext.services.resume.notes import notes_on, up_to_date
from cortext.services.resume.packet import packet_for
from cortext.services.resume.receipt import Receipt
from cortext.store.base import Store
from cortext.wiring.stores import Location, Stores, server_location

__all__ = [
    "Library",
    "Match",
    "Receipt",
    "ResumePacket",
    "SearchResult",
    "Store",
    "list",
    "open",
    "read",
    "resolve",
    "resume_packet",
    "search",
]

Kind = Literal["workspace", "home", "spawn", "chat"]


class SearchResult(NamedTuple):
    """A session and its messages that match, the best match first."""

    session: Session
    matches: builtins.list[Match]
    score: float


class ResumePacket(NamedTuple):
    """What an agent needs to continue a conversation: the text to give it, without secrets, and what it contains.

    `notes` say what a person should know first, for example that the newest words could not be captured.
    """

    text: str
    receipt: Receipt
    notes: builtins.list[str]


class Library:
    """Every conversation on this machine: those of the workspace around `folder`, and of all other stores.

    Keep one Library for several questions; it notices by itself what was written in the meantime.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._stores = Stores(os.fspath(folder) if folder is not None else None)
        self._listing = self._stores.listing()
        self._search = self._stores.search()
        self._rows: dict[tuple[str, str], Row] = {}  # of sessions that were returned, by id and path

    def list(self, *, limit: int = 0, **filters: Unpack[SessionFilters]) -> builtins.list[Session]:
        """The sessions that the filters allow, the most recently used first. A limit of 0 means all of them."""
        check_filters(_texts(filters), of_sessions())
        self._listing.refresh()
        workspace = filters.get("workspace", "")
        if workspace and not self._listing.roots(workspace):
            raise NotFound(f"unknown workspace {workspace!r}", hint="give its name or its folder")
        rows = self._listing.rows(Query(filters=_texts(filters), limit=limit))
        return [self._found(row).session for row in rows]

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        per_session: int = 3,
        exact: bool = False,
        **filters: Unpack[Filters],
    ) -> builtins.list[SearchResult]:
        """The sessions in which something was said, found by its words and (unless `exact`) by its meaning."""
        given = _texts(filters)
        check_filters(given)
        answer = self._search.search(Query(query, given, limit=limit, per_session=per_session, exact=exact))
        return [SearchResult(self._found(item.session).session, item.matches, item.score) for item in answer.hits]

    def resolve(self, name: str) -> Session:
        """The session that is meant by its number ("014"), its id or the beginning of it, or words of its title."""
        return self._named(name).session

    def read(self, session: Session | str, start: int = 0) -> Iterator[Message]:
        """The messages of a session from number `start` on, streamed from the disk or the server."""
        conversation = self._named(session)
        return iter(conversation.store.read(conversation.session.id, start))

    def resume_packet(self, session: Session | str, *, tokens: int = 0) -> ResumePacket:
        """The conversation in at most about `tokens` tokens (0: as the settings say), for any agent to continue."""
        found, notes = up_to_date(self._named(session), self._stores.caught_up)
        packet = packet_for(found, self._stores.folder, tokens or self._stores.settings.resume.tokens)
        packet.receipt.price = self._stores.carrying(self._listing).sentence(found.session, packet.receipt.tokens)
        return ResumePacket(packet.text(), packet.receipt, [*notes, *notes_on(found)])

    def _found(self, row: Row) -> StoredConversation:
        conversation = self._listing.found(row)
        self._rows[row.id, conversation.session.path] = row
        return conversation

    def _named(self, wanted: Session | str) -> StoredConversation:
        if isinstance(wanted, Session):
            row = self._rows.get((wanted.id, wanted.path))
            if row is not None:
                return self._listing.found(row)
        self._listing.refresh()
        rows = self._listing.named(wanted.id if isinstance(wanted, Session) else wanted)
        if isinstance(wanted, Session):
            same = [row for row in rows if (row.id, row.path) == (wanted.id, wanted.path)]
            rows, wanted = same or rows, wanted.id
        return self._found(Resolver(rows, self._stores.workspace, shown=()).resolve(wanted))


def open(path_or_url: str | os.PathLike[str], *, kind: Kind | None = None, create: bool = False) -> Store:
    """The store in a workspace's folder, or the one at a `postgresql://` address.

    `kind` tells the stores of the faces apart: "home" (captured outside any workspace), "spawn" (`aur`) and "chat"
    (`alfred`). A folder is a workspace unless `kind` says otherwise; on a server, "home" is the default.
    With `create`, a folder that is not a workspace yet becomes one.
    """
    stores = Stores()
    name = os.fspath(path_or_url)
    if is_address(name):
        if kind == "workspace":
            raise UsageError("a workspace is a folder, not a server", hint='kind is "home", "spawn" or "chat" there')
        return stores.open(server_location(name, kind or "home", name))
    root = os.path.abspath(os.path.expanduser(name))
    kind = kind or "workspace"
    marker = os.path.join(root, ".workspace") if kind in ("workspace", "home") else root
    if create:
        os.makedirs(marker, exist_ok=True)
        if kind == "workspace":
            remember_workspace(check_folder(root))
    if not os.path.isdir(marker):
        raise NotFound(
            f"no {kind} store in {root}",
            kept="nothing was changed",
            hint="create it with create=True or `cortext init`",
        )
    return stores.open(Location(kind, check_folder(root), os.path.basename(root)))


def list(*, limit: int = 0, **filters: Unpack[SessionFilters]) -> builtins.list[Session]:
    """`Library().list`, for a single question."""
    return Library().list(limit=limit, **filters)


def search(
    query: str, *, limit: int = 10, per_session: int = 3, exact: bool = False, **filters: Unpack[Filters]
) -> builtins.list[SearchResult]:
    """`Library().search`, for a single question."""
    return Library().search(query, limit=limit, per_session=per_session, exact=exact, **filters)


def resolve(name: str) -> Session:
    """`Library().resolve`, for a single question."""
    return Library().resolve(name)


def read(session: Session | str, start: int = 0) -> Iterator[Message]:
    """`Library().read`, for a single session."""
    return Library().read(session, start)


def resume_packet(session: Session | str, *, tokens: int = 0) -> ResumePacket:
    """`Library().resume_packet`, for a single session."""
    return Library().resume_packet(session, tokens=tokens)


def _texts(filters: SessionFilters) -> dict[str, str]:
    return {name: str(value) for name, value in filters.items()}
