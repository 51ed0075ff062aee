"""What somebody did to the rows by hand is noticed, told, and mended without losing anything."""

from __future__ import annotations

import pytest

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.library.stores import NamedStore
from cortext.services.workspace.doctor import examine
from cortext.store.base import METADATA, UNREADABLE
from cortext.store.postgres.store import PostgresStore
from tests.postgres.said import plains, talk
from tests.support.postgres import shared

MINE = "session_id = 'talk' AND life = (SELECT life FROM cortext.sessions WHERE session_id = 'talk' AND space = %s)"


def examined(store: PostgresStore) -> list[tuple[str, str]]:
    found = examine(NamedStore("home", "home", store.root, store)).findings
    return [(finding.level, finding.session) for finding in found]


@pytest.mark.req("STORE-06", "STORE-14")
def test_rows_that_were_taken_out_are_noticed_and_counted_again(store: PostgresStore) -> None:
    store.create(Session(id="talk"))
    whole = plains(store.append("talk", *talk(5)))
    assert examined(store) == []
    shared().sql(f"DELETE FROM cortext.messages WHERE seq IN (1, 4) AND {MINE}", store.space)
    assert [item.kind for item in store.check("talk")] == [METADATA]
    assert examined(store) == [("damage", "talk")]
    assert store.repair("talk", dry_run=True).changed is False
    report = store.repair("talk")
    assert (report.changed, report.kept_messages) == (True, 3)
    assert store.check("talk") == [] and examined(store) == []
    assert plains(store.read("talk")) == [whole[0], whole[2], whole[3]]
    assert store.append("talk", *talk(1))[0].seq == 5, "a number was given a second time"


@pytest.mark.req("STORE-06", "STORE-14")
def test_a_row_that_cannot_be_read_is_told_set_aside_and_kept(store: PostgresStore) -> None:
    store.create(Session(id="talk", title="dear"))
    store.append("talk", *talk(1), Message(role="user", content="odd", model="m"), *talk(1, 2))
    shared().sql(f"UPDATE cortext.messages SET more = 'no json {{' WHERE seq = 1 AND {MINE}", store.space)
    shared().sql("UPDATE cortext.sessions SET record = 'no json {' WHERE space = %s", store.space)
    reading = store.read("talk")
    assert [message.seq for message in reading] == [0, 2] and [item.kind for item in reading.damage] == [UNREADABLE]
    assert [message.seq for message in store.tail("talk", 3)] == [0, 2]
    assert store.get("talk").damage == 1 and next(iter(store.sessions())).damage == 1
    assert sorted(item.kind for item in store.check("talk")) == [METADATA, UNREADABLE]
    report = store.repair("talk")
    assert (report.changed, report.kept_messages, report.quarantine) == (True, 2, "cortext.quarantine")
    assert store.check("talk") == [] and not store.repair("talk").changed
    assert store.get("talk").title == "dear"
    kept = shared().sql(f"SELECT seq, record FROM cortext.quarantine WHERE {MINE} ORDER BY seq", store.space)
    assert [seq for seq, _ in kept] == [-1, 1] and all("no json {" in record for _, record in kept)
