"""Capabilities that only some stores have: compaction, and records about messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cortext.errors import InvalidMessage
from cortext.model.session import Session
from cortext.store.base import Store
from tests.store.conformance.kit import ANNOTATES, COMPACTS, ID, FullStore, fields_of_each, sample_messages


@pytest.mark.req("STORE-02")
class TestCompacting:
    needs = COMPACTS

    @pytest.mark.parametrize("before", [0, 1, 4, 7, 99])
    def test_reading_is_the_same_before_and_after(
        self, store: FullStore, reopen: Callable[[], Store], before: int
    ) -> None:
        store.create(Session(id=ID))
        messages = fields_of_each(store.append(ID, *sample_messages(7)))
        session = store.get(ID)
        assert store.compact(ID, before) == min(before, 7)
        assert store.compact(ID, before) == 0
        for handle in (store, reopen()):
            assert fields_of_each(handle.read(ID)) == messages
            assert fields_of_each(handle.read(ID, 3)) == messages[3:]
            for last in range(1, 9):
                assert fields_of_each(handle.tail(ID, last)) == messages[-last:]
            assert handle.check(ID) == []
            assert handle.get(ID) == session

    @pytest.mark.req("STORE-03")
    def test_sequence_numbers_continue_after_any_compaction(
        self, store: FullStore, reopen: Callable[[], FullStore]
    ) -> None:
        other = reopen()
        store.create(Session(id=ID))
        seq = 0
        for before in (2, 5, 99, 0, 99):
            for handle in (store, other):
                assert [m.seq for m in handle.append(ID, *sample_messages(2, seq))] == [seq, seq + 1]
                seq += 2
            other.compact(ID, before)
            assert [m.seq for m in store.read(ID)] == [m.seq for m in other.read(ID)] == list(range(seq))
        assert [m.content for m in store.read(ID)] == [m.content for m in sample_messages(seq)]


@pytest.mark.req("STORE-02")
class TestAnnotating:
    needs = ANNOTATES

    def test_records_about_messages_are_kept_in_order_and_are_not_messages(
        self, store: FullStore, reopen: Callable[[], FullStore]
    ) -> None:
        store.create(Session(id=ID))
        stored = store.append(ID, *sample_messages(2))
        records: list[dict[str, object]] = [
            {"type": "embedding", "message_id": message.id, "model": "m", "vector": [0.5, -1.25e-9]}
            for message in stored
        ]
        store.annotate(ID, *records)
        store.append(ID, *sample_messages(1, 2))
        store.annotate(ID, {"type": "note", "message_id": stored[0].id, "unknown": {"nested": None}})
        expected = [*records, {"type": "note", "message_id": stored[0].id, "unknown": {"nested": None}}]
        assert list(store.annotations(ID)) == list(reopen().annotations(ID)) == expected
        assert [message.seq for message in store.read(ID)] == [0, 1, 2]
        assert (store.get(ID).message_count, store.check(ID)) == (3, [])

    @pytest.mark.parametrize(
        "record",
        [
            {},
            {"type": "embedding"},
            {"message_id": "x"},
            {"type": "", "message_id": "x"},
            {"type": "turn", "message_id": "x"},
            {"type": "note", "message_id": "x", "role": "user", "content": "smuggled"},
            {"type": ["note"], "message_id": "x"},
        ],
    )
    def test_a_record_that_could_be_mistaken_for_a_message_is_refused(
        self, store: FullStore, record: dict[str, object]
    ) -> None:
        store.create(Session(id=ID))
        with pytest.raises(InvalidMessage):
            store.annotate(ID, record)
        assert (list(store.annotations(ID)), list(store.read(ID)), store.check(ID)) == ([], [], [])

    @pytest.mark.parametrize("before", [1, 2, 3])
    def test_a_compaction_neither_loses_nor_duplicates_records(self, store: FullStore, before: int) -> None:
        store.create(Session(id=ID))
        stored = store.append(ID, *sample_messages(3))
        # Embeddings are stored late: after messages that are not compacted.
        records: list[dict[str, object]] = [
            {"type": "embedding", "message_id": message.id, "n": n} for n, message in enumerate(stored)
        ]
        store.annotate(ID, *records)
        store.compact(ID, before)
        assert sorted(store.annotations(ID), key=lambda record: str(record["n"])) == records
        assert store.check(ID) == []
