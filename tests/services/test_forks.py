"""The tree of conversations that were forked from each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cortext.errors import SessionNotFound
from cortext.model.session import Session
from cortext.services.library import branches
from cortext.services.library.branches import Fork, family
from cortext.services.library.listing import Listing, Row, row_of
from cortext.services.library.served_sessions import ServedSessions
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores

pytestmark = pytest.mark.req("PAGE-01")

ROOT = "postgresql://db.example/cortext#home"
# A name and what it was forked from; the digits give the order of creation.
FORKS = {
    "001-oak": "", "002-fork": "001-oak", "003-fork": "001-oak", "004-fork": "003-fork", "005-elm": "",
    "006-fork": "999-gone", "007-fork": "008-fork", "008-fork": "007-fork", "009-fork": "009-fork",
}  # fmt: skip


def _session(name: str, parent: str) -> Session:
    forked = {"forked_from": {"session": parent, "message": "m"}} if parent else {}
    return Session(id=name, title=name, created_at=f"2026-03-01T10:{name[:3]}Z", extra=forked)


class Server(ServedSessions):
    """A server: it finds sessions by a piece of their names, and one by its id."""

    def __init__(self) -> None:
        self.root, self.kind, self.asked = ROOT, "home", 0
        self.store = self  # type: ignore[assignment]

    def rows(self, where: Sequence[tuple[str, str]] = (), *, limit: int = 0, order: str = "last_active") -> list[Row]:
        self.asked += 1
        piece = dict(where).get("named", "")
        return [self.shown(_session(*pair)) for pair in FORKS.items() if piece in pair[0]][: limit or None]

    def get(self, name: str) -> Session:
        if name not in FORKS:
            raise SessionNotFound(name)
        return _session(name, FORKS[name])


@pytest.fixture(params=["files", "server"])
def listing(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Listing:
    if request.param == "server":
        return Listing(str(tmp_path), [], {}, [Server()])
    (tmp_path / ".workspace").mkdir()
    store = WorkspaceStore(str(tmp_path))
    for name, parent in FORKS.items():
        store.create(_session(name, parent))
    made = Stores(str(tmp_path)).listing()
    made.refresh()
    return made


def _row(listing: Listing, name: str) -> Row:
    return next(row for row in listing.rows() if row.id == name)


def _shape(fork: Fork | None) -> object:
    return fork and (fork.row.id[:3], [_shape(each) for each in fork.forks])


def test_a_family_is_a_tree_from_the_first_conversation(listing: Listing) -> None:
    tree: object = ("001", [("002", []), ("003", [("004", [])])])
    for name in ("001-oak", "002-fork", "003-fork", "004-fork"):
        assert _shape(family(listing, _row(listing, name))) == tree, name


def test_whoever_stands_alone_has_none(listing: Listing) -> None:
    """Also a fork of what is gone, or of itself, as a file may say; and two of each other are no endless tree."""
    for name in ("005-elm", "006-fork", "009-fork"):
        assert family(listing, _row(listing, name)) is None, name
    assert _shape(family(listing, _row(listing, "007-fork"))) == ("008", [("007", [])])


def test_a_large_family_is_cut_behind_what_is_near(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MOST", 3)
    assert _shape(family(listing, _row(listing, "003-fork"))) == ("001", [("003", [("004", [])])])


def test_a_server_is_asked_once_for_all_forks(tmp_path: Path) -> None:
    server = Server()
    family(Listing(str(tmp_path), [], {}, [server]), row_of(server.get("001-oak"), ROOT, "home"))
    assert server.asked == 1
