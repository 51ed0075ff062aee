"""Rows that were changed by hand are detected, reported and repaired without losing anything."""

from __future__ import annotations

import pytest

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.server.store import PostgresStore
from cortext.services.doctor import examine
from cortext.services.library.stores import NamedStore
from cortext.store.base import METADATA, UNREADABLE
from tests.server.messages import as_dicts, turns
from tests.support.postgres import shared

OF_SESSION = (
    "session_id = 'talk' AND life = (SELECT life FROM cortext.sessions WHERE session_id = 'talk' AND space = %s)"
)


def findings(store: PostgresStore) -> list[tuple[str, str]]:
    report = examine(NamedStore("home", "home", store.root, store))
    return [(finding.level, finding.session) for finding in report.findings]


@pytest.mark.req("STORE-06", "STORE-14")
def test_deleted_rows_are_detected_and_recounted_by_a_repair(store: PostgresStore) -> None:
    store.create(Session(id="talk"))
    stored = as_dicts(store.append("talk", *turns(5)))
    assert findings(store) == []
    shared().sql(f"DELETE FROM cortext.messages WHERE seq IN (1, 4) AND {OF_SESSION}", store.space)
    assert [item.kind for item in store.check("talk")] == [METADATA]
    assert findings(store) == [("damage", "talk")]
    assert store.repair("talk", dry_run=True).changed is False
    report = store.repair("talk")
    assert (report.changed, report.kept_messages) == (True, 3)
    assert store.check("talk") == [] and findings(store) == []
    assert as_dicts(store.read("talk")) == [stored[0], stored[2], stored[3]]
    assert store.append("talk", *turns(1))[0].seq == 5, "a number was assigned twice"


@pytest.mark.req("STORE-06", "STORE-14")
def test_an_unreadable_row_is_reported_and_quarantined(store: PostgresStore) -> None:
    store.create(Session(id="talk", title="important"))
    store.append("talk", *turns(1), Message(role="user", content="with a model", model="m"), *turns(1, 2))
    shared().sql(f"UPDATE cortext.messages SET more = 'no json {{' WHERE seq = 1 AND {OF_SESSION}", store.space)
    shared().sql("UPDATE cortext.sessions SET record = 'no json {' WHERE space = %s", store.space)
    reading = store.read("talk")
    assert [message.seq for message in reading] == [0, 2] and [item.kind for item in reading.damage] == [UNREADABLE]
    assert [message.seq for message in store.tail("talk", 3)] == [0, 2]
    assert store.get("talk").damage == 1 and next(iter(store.sessions())).damage == 1
    assert sorted(item.kind for item in store.check("talk")) == [METADATA, UNREADABLE]
    report = store.repair("talk")
    assert (report.changed, report.kept_messages, report.quarantine) == (True, 2, "cortext.quarantine")
    assert store.check("talk") == [] and not store.repair("talk").changed
    assert store.get("talk").title == "important"
    kept = shared().sql(f"SELECT seq, record FROM cortext.quarantine WHERE {OF_SESSION} ORDER BY seq", store.space)
    assert [seq for seq, _ in kept] == [-1, 1] and all("no json {" in record for _, record in kept)
