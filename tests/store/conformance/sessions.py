"""Sessions: creating, listing, changing, deleting, one writer at a time."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable

import pytest

from cortext.errors import (
    CortextError,
    NotFound,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    TransitionRefused,
    UsageError,
)
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.session import STATUSES, Change, Origin, Session
from cortext.store.base import Store
from cortext.testing.table import table
from tests.store.conformance.kit import ANNOTATES, COMPACTS, ID, Backend, fields_of_each, sample_messages


@pytest.mark.req("STORE-01", "STORE-02")
class TestCreating:
    def test_a_new_session_is_empty_and_active_in_a_reopened_store(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        session = store.create(Session(id=ID))
        assert (session.id, session.status, session.message_count, session.damage) == (ID, "active", 0, 0)
        assert session.token_count == 0
        assert clock.normalise(session.created_at) == session.created_at == session.last_active
        assert reopen().get(ID) == session
        assert store.check(ID) == [] and list(store.read(ID)) == []

    def test_the_time_of_creation_is_kept_in_utc(self, store: Store) -> None:
        assert store.create(Session(id=ID, created_at="2025-11-22T12:30:00.250+02:00")).created_at == (
            "2025-11-22T10:30:00.250Z"
        )

    def test_an_existing_id_is_refused_and_its_session_is_unchanged(self, store: Store) -> None:
        store.create(Session(id=ID, title="the first"))
        store.append(ID, *sample_messages(2))
        with pytest.raises(SessionExists):
            store.create(Session(id=ID, title="the second"))
        assert (store.get(ID).title, store.get(ID).message_count) == ("the first", 2)

    def test_creating_with_an_unknown_status_creates_nothing(self, store: Store) -> None:
        with pytest.raises(UsageError):
            store.create(Session(id=ID, status="asleep"))
        assert list(store.sessions()) == []

    def test_every_method_raises_session_not_found_for_an_unknown_id(self, store: Store) -> None:
        def opened() -> None:
            with store.open("unknown"):
                raise AssertionError

        calls: list[Callable[[], object]] = [
            lambda: store.get("unknown"),
            lambda: list(store.read("unknown")),
            lambda: store.tail("unknown", 1),
            lambda: store.append("unknown", *sample_messages(1)),
            lambda: store.update("unknown", Change(title="x")),
            lambda: store.delete("unknown"),
            lambda: store.check("unknown"),
            lambda: store.repair("unknown"),
            opened,
        ]
        for call in calls:
            with pytest.raises(SessionNotFound):
                call()
        assert list(store.sessions()) == []


@pytest.mark.req("STORE-02")
class TestUpdating:
    def test_only_allowed_status_transitions_are_made(self, store: Store) -> None:
        allowed = {
            ("active", "paused"), ("active", "completed"), ("active", "interrupted"), ("active", "idle"),
            ("paused", "active"), ("paused", "completed"),
            ("interrupted", "active"), ("interrupted", "paused"), ("interrupted", "completed"),
            ("idle", "active"), ("idle", "paused"), ("idle", "completed"), ("idle", "interrupted"),
        }  # fmt: skip
        with table() as row:
            for number, (old, new, force) in enumerate(itertools.product(STATUSES, STATUSES, (False, True))):
                with row(f"{old} → {new}{' by force' if force else ''}"):
                    key = f"sess_{number}"
                    store.create(Session(id=key, status=old))
                    store.append(key, *sample_messages(2))
                    if old == new or (old, new) in allowed or (force and (old, new) == ("completed", "active")):
                        expected = new
                        assert store.update(key, Change(status=new, force=force)).status == new
                    else:
                        expected = old
                        with pytest.raises(TransitionRefused):
                            store.update(key, Change(status=new, title="not this either", force=force))
                    assert (store.get(key).status, store.get(key).title) == (expected, "")
                    assert [message.seq for message in store.read(key)] == [0, 1]

    def test_an_unknown_status_changes_nothing(self, store: Store) -> None:
        before = store.create(Session(id=ID))
        with pytest.raises(UsageError):
            store.update(ID, Change(status="asleep"))
        assert store.get(ID) == before

    def test_a_change_updates_only_the_fields_it_contains(self, store: Store, reopen: Callable[[], Store]) -> None:
        store.create(Session(id=ID, title="old", agent="qa-test", extra={"kept": 1, "changed": 2}))
        store.update(ID, Change(title="new", extra={"changed": 3, "added": [4]}))
        session = reopen().get(ID)
        assert (session.title, session.agent, session.status) == ("new", "qa-test", "active")
        assert session.extra == {"kept": 1, "changed": 3, "added": [4]}

    def test_fields_that_are_emptied_stay_empty(self, store: Store, reopen: Callable[[], Store]) -> None:
        origin = Origin(tool="codex")
        store.create(Session(id=ID))
        store.update(ID, Change(title="t", summary="s", summary_covers=3, summary_by="m", agent="a", origin=origin))
        store.update(ID, Change(title="", summary="", summary_covers=0, summary_by="", agent="", origin=Origin()))
        session = reopen().get(ID)
        assert (session.title, session.summary, session.summary_covers) == ("", "", 0)
        assert (session.summary_by, session.agent, session.origin) == ("", "", Origin())

    def test_extra_fields_cannot_override_those_of_the_store(self, store: Store) -> None:
        forged = dict.fromkeys(("status", "session_id", "conversation_id", "created_at", "type"), "forged")
        before = store.create(Session(id=ID, title="true"))
        after = store.update(ID, Change(extra={**forged, "mine": 1}))
        assert (after.id, after.status, after.created_at, after.title) == (ID, "active", before.created_at, "true")

    def test_a_writer_appends_and_updates_under_one_lock(self, store: Store, reopen: Callable[[], Store]) -> None:
        store.create(Session(id=ID))
        with store.open(ID) as writer:
            writer.append(*sample_messages(1))
            assert writer.update(Change(status="paused")).message_count == 1
            assert writer.session().status == "paused"
            writer.append(*sample_messages(1, 1))
            writer.update(Change(status="completed"))
            writer.append(*sample_messages(1, 2))
        assert [message.seq for message in reopen().read(ID)] == [0, 1, 2]
        assert (reopen().get(ID).status, reopen().check(ID)) == ("completed", [])


@pytest.mark.req("STORE-02")
class TestTrash:
    def test_a_deleted_session_is_restored_completely(self, store: Store, reopen: Callable[[], Store]) -> None:
        store.create(Session(id=ID, title="dear"))
        messages = fields_of_each(store.append(ID, *sample_messages(3)))
        before = store.get(ID)
        trashed = store.delete(ID)
        with pytest.raises(SessionNotFound):
            reopen().get(ID)
        assert list(store.sessions()) == []
        assert [(item.key, item.session_id) for item in reopen().trash()] == [(trashed.key, ID)]
        assert reopen().restore(trashed.key) == before
        assert fields_of_each(store.read(ID)) == messages
        assert list(store.trash()) == []
        assert store.append(ID, *sample_messages(1, 3))[0].seq == 3

    def test_restoring_does_not_overwrite_a_new_session_with_that_id(self, store: Store) -> None:
        store.create(Session(id=ID, title="first"))
        key = store.delete(ID).key
        store.create(Session(id=ID, title="second"))
        with pytest.raises(SessionExists):
            store.restore(key)
        assert store.get(ID).title == "second"
        other = store.delete(ID).key
        assert [item.key for item in store.trash()] == [other, key]
        assert store.restore(key).title == "first"

    def test_a_key_that_is_not_in_the_trash_is_not_found(self, store: Store) -> None:
        store.create(Session(id=ID))
        key = store.delete(ID).key
        store.restore(key)
        for missing in (key, "unknown.1a2b"):
            with pytest.raises(NotFound):
                store.restore(missing)
        assert store.get(ID).id == ID


@pytest.mark.req("STORE-05")
class TestLocking:
    def test_a_second_writer_is_refused_with_the_process_of_the_first(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        store.create(Session(id=ID))
        store.create(Session(id="sess_two"))
        with store.open(ID) as writer:
            for timeout in (0.02, 0):
                with pytest.raises(SessionBusy) as caught, reopen().open(ID, timeout=timeout):
                    raise AssertionError("two writers")
                assert f"process {os.getpid()} on {os.uname().nodename} since 20" in caught.value.message
            reopen().append("sess_two", *sample_messages(1))
            writer.append(*sample_messages(1))
        assert reopen().append(ID, *sample_messages(1, 1))[0].seq == 1

    def test_the_lock_is_released_after_an_error(self, store: Store, reopen: Callable[[], Store]) -> None:
        store.create(Session(id=ID))
        with pytest.raises(KeyboardInterrupt), store.open(ID):
            raise KeyboardInterrupt
        with reopen().open(ID, timeout=0) as writer:
            assert writer.append(*sample_messages(1))[0].seq == 0

    def test_a_waiting_writer_continues_when_the_first_is_done(self, store: Store, reopen: Callable[[], Store]) -> None:
        store.create(Session(id=ID))
        other = reopen()
        waiter = threading.Thread(target=lambda: other.append(ID, Message(role="user", content="second")))
        with store.open(ID) as writer:
            waiter.start()
            writer.append(Message(role="user", content="first"))
        waiter.join(10)
        assert [message.content for message in store.read(ID)] == ["first", "second"]


@pytest.mark.req("STORE-02", "STORE-06")
class TestRepair:
    @pytest.mark.parametrize("dry_run", [True, False])
    def test_an_undamaged_session_has_nothing_to_repair(self, store: Store, dry_run: bool) -> None:
        store.create(Session(id=ID))
        messages = fields_of_each(store.append(ID, *sample_messages(3)))
        report = store.repair(ID, dry_run=dry_run)
        assert (report.session, report.damage, report.kept_messages, report.quarantined_bytes) == (ID, [], 3, 0)
        assert (report.changed, report.dry_run, report.quarantine) == (False, dry_run, "")
        assert fields_of_each(store.read(ID)) == messages


@pytest.mark.req("STORE-02")
class TestMissingCapabilities:
    def test_a_missing_capability_is_refused_and_nothing_changes(self, backend: Backend, store: Store) -> None:
        store.create(Session(id=ID))
        messages = fields_of_each(store.append(ID, *sample_messages(3)))
        before = store.get(ID)
        for capability, method in ((COMPACTS, "compact"), (ANNOTATES, "annotate")):
            call = getattr(store, method, None)
            if capability not in backend.lacks:
                assert callable(call)
            elif call is not None:
                with pytest.raises(CortextError):
                    call(ID, 2)
        assert (store.get(ID), fields_of_each(store.read(ID)), store.check(ID)) == (before, messages, [])
