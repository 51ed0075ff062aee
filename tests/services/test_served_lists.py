"""Lists and costs with a store on a server: what it cannot filter, how many are listed, and when it does not answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import StoreUnreachable
from cortext.index.sessions import Row
from cortext.model.message import ASSISTANT, Message
from cortext.model.query import Query
from cortext.model.session import Origin, Session
from cortext.services.cost.prices import Prices
from cortext.services.cost.report import Ledger
from cortext.services.library.listing import Listing
from cortext.services.library.served_sessions import ServedSessions

ROOT = "postgresql://db.example/cortext#home"


def _row(name: str, **fields: Any) -> Row:
    values = dict.fromkeys(Row._fields, "") | {"message_count": 1, "token_count": 1} | Row._field_defaults
    return Row(**{**values, "id": name, "root": ROOT, "kind": "home", "status": "interrupted", **fields})


class Server(ServedSessions):
    """A server that knows nothing of tags, stars, the archive and projects; it may be down."""

    def __init__(self, *rows: Row) -> None:
        self.root, self.kind, self.kept, self.is_down = ROOT, "home", rows, False
        self.store = self  # type: ignore[assignment]

    def rows(self, where: Sequence[tuple[str, str]] = (), *, limit: int = 0, order: str = "last_active") -> list[Row]:
        self._answer()
        wanted = dict(where)
        return [row for row in self.kept if wanted.get("status") in (None, row.status)][: limit or None]

    def read(self, session_id: str, start: int = 0) -> list[Message]:
        self._answer()
        usage = {"input_tokens": 3, "output_tokens": 5}
        return [Message(role=ASSISTANT, id=f"{session_id}-1", timestamp="2026-11-02T10:00:00Z", usage=usage)]

    def _answer(self) -> None:
        if self.is_down:
            raise StoreUnreachable("db.example does not answer", hint="try again")


def _listing(folder: Path, server: Server) -> Listing:
    return Listing(str(folder), [], {}, [server])


@pytest.mark.req("ORDER-01")
def test_interrupted_sessions_of_a_server_are_filtered_like_all_others(tmp_path: Path) -> None:
    rows = (
        _row("plain"), _row("tagged", tags="billing"), _row("starred", starred=1), _row("archived", archived=1),
        _row("elsewhere", project="/pond", tags="billing"),
    )  # fmt: skip
    listing = _listing(tmp_path, Server(*rows))
    for wanted, expected in (
        ({"tag": "billing"}, {"tagged", "elsewhere"}),
        ({"is": "starred"}, {"starred"}),
        ({"is": "archived"}, {"archived"}),
        ({"is": "unarchived", "project": "/pond"}, {"elsewhere"}),
    ):
        found = listing.rows(Query(filters={"status": "interrupted", **wanted}))
        assert {row.id for row in found} == expected, wanted


@pytest.mark.req("COST-01")
def test_costs_without_a_server_that_is_down_keep_what_is_known_of_it(tmp_path: Path) -> None:
    server = Server(_row("one"), _row("two", last_active="2026-11-02"))
    assert len(list(Ledger(_listing(tmp_path, server), Prices()).calls())) == 2
    server.is_down = True
    listing = _listing(tmp_path, server)
    with pytest.raises(StoreUnreachable):
        Ledger(listing, Prices())
    listing = listing.reachable()
    assert list(Ledger(listing, Prices()).calls()) == [] and listing.is_away(ROOT)
    server.is_down = False
    server.read = None  # type: ignore[assignment, method-assign]
    assert len(list(Ledger(_listing(tmp_path, server), Prices()).calls())) == 2, "not read again"


@pytest.mark.req("COST-01")
@pytest.mark.parametrize("few", [0, 200])
def test_a_call_in_two_sessions_of_a_server_belongs_to_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("cortext.index.activity.FEW", few)
    server = Server(_row("a", created_at="2026-11-03T00:00:00Z"), _row("b", created_at="2026-11-02T00:00:00Z"))
    server.read = lambda session_id, start=0: Server.read(server, "same")  # type: ignore[method-assign]
    ledger = Ledger(_listing(tmp_path, server), Prices())
    assert [priced.row.id for priced in ledger.calls()] == ["b"]
    younger, older = server.kept
    assert ledger.by_session([younger]) == {} and ledger.by_session([older])[ROOT, "b"].calls == 1


class Equal:
    """A store that compares each filter with one value, as a server does."""

    def __init__(self, *sessions: Session) -> None:
        self.sessions = sessions

    def listed(self, where: Sequence[tuple[str, str]], *, limit: int = 0, order: str = "last_active") -> list[Session]:
        found = [each for each in self.sessions if all(_has(each, *pair) for pair in where)]
        found.sort(key=lambda session: session.last_active, reverse=True)
        return found[: limit or None]


def _has(session: Session, name: str, value: str) -> bool:
    return (session.origin.tool if name == "tool" else getattr(session, name)) == value


@pytest.mark.req("ORDER-01")
def test_a_server_is_asked_for_each_of_several_values(tmp_path: Path) -> None:
    made = [
        Session(id=f"{tool}-{kind}", type=kind, last_active=f"2026-11-0{day}", origin=Origin(tool=tool))
        for day, (tool, kind) in enumerate(
            (("claude", "plan"), ("codex", "debug"), ("gemini", "plan"), ("codex", "plan"), ("claude", "learn")), 1
        )
    ]
    listing = Listing(str(tmp_path), [], {}, [ServedSessions(ROOT, "home", Equal(*made))])  # type: ignore[arg-type]
    found = [row.id for row in listing.rows(Query(filters={"tool": "claude,codex", "type": "plan,debug"}))]
    assert found == ["codex-plan", "codex-debug", "claude-plan"]
    assert [row.id for row in listing.rows(Query(filters={"tool": "claude, codex"}, limit=2))] == [
        "claude-learn",
        "codex-plan",
    ]
