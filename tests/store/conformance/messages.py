"""Messages: appending, every way of reading, and a complete round trip."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from cortext.errors import InvalidMessage
from cortext.model import clock
from cortext.model.message import Message, Part
from cortext.model.session import AgentConfig, Change, Origin, Session
from cortext.store.base import Store
from tests.store.conformance.kit import ID, fields_of, fields_of_each, sample_messages


@pytest.mark.req("STORE-02", "STORE-08")
class TestAppending:
    def test_missing_fields_are_filled_in_and_read_back_the_same(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        store.create(Session(id=ID))
        stored = store.append(ID, *sample_messages(3))
        assert [message.seq for message in stored] == [0, 1, 2]
        assert len({message.id for message in stored} - {""}) == 3
        assert all(clock.normalise(message.timestamp) == message.timestamp for message in stored)
        assert all(message.tokens and message.tokens > 0 for message in stored)
        assert fields_of_each(store.read(ID)) == fields_of_each(reopen().read(ID)) == fields_of_each(stored)

    def test_sequence_numbers_continue_across_calls_writers_and_stores(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        store.create(Session(id=ID))
        store.append(ID, *sample_messages(2))
        with reopen().open(ID) as writer:
            writer.append(*sample_messages(1, 2))
            writer.append(*sample_messages(2, 3))
        assert store.append(ID, *sample_messages(1, 5))[0].seq == 5
        read = list(reopen().read(ID))
        assert [message.seq for message in read] == list(range(6))
        assert [message.content for message in read] == [message.content for message in sample_messages(6)]

    def test_order_is_by_sequence_number_not_by_timestamp(self, store: Store) -> None:
        store.create(Session(id=ID))
        times = ["2030-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2025-01-01T00:00:00Z"]
        for number, time in enumerate(times):
            store.append(ID, Message(role="user", content=str(number), timestamp=time))
        assert [message.timestamp for message in store.read(ID)] == times
        assert store.get(ID).last_active == "2030-01-01T00:00:00Z"

    def test_times_are_stored_in_utc_with_a_z(self, store: Store) -> None:
        store.create(Session(id=ID))
        [stored] = store.append(ID, Message(role="user", content="x", timestamp="2026-03-01T01:30:00+02:00"))
        assert stored.timestamp == "2026-02-28T23:30:00.000Z"

    @pytest.mark.parametrize(
        "bad",
        [
            Message(role="robot", content="x"),
            Message(role="", content="x"),
            Message(role="user"),
            Message(role="user", content="x", timestamp="yesterday"),
            Message(role="user", content="x", extra={"never": object()}),
        ],
        ids=["role", "no role", "empty", "time", "not JSON"],
    )
    def test_a_batch_with_one_bad_message_stores_none_of_it(self, store: Store, bad: Message) -> None:
        store.create(Session(id=ID))
        store.append(ID, *sample_messages(1))
        with pytest.raises(InvalidMessage):
            store.append(ID, *sample_messages(2, 1), bad)
        assert [message.seq for message in store.read(ID)] == [0]
        assert store.append(ID, *sample_messages(1, 1))[0].seq == 1

    @pytest.mark.req("STORE-03")
    def test_a_retry_of_the_last_message_is_stored_once(self, store: Store, reopen: Callable[[], Store]) -> None:
        store.create(Session(id=ID))
        message = Message(role="user", content="did it arrive?", id="mine")
        first = store.append(ID, *sample_messages(1), message)
        assert fields_of_each(reopen().append(ID, message)) == fields_of_each(first[1:])
        assert fields_of_each(store.append(ID, message, *sample_messages(1, 2)))[1]["seq"] == 2
        assert [message.seq for message in store.read(ID)] == [0, 1, 2]

    @pytest.mark.req("STORE-03")
    def test_an_id_that_is_reused_for_another_text_is_refused(self, store: Store) -> None:
        store.create(Session(id=ID))
        store.append(ID, Message(role="user", content="one", id="mine"))
        with pytest.raises(InvalidMessage, match="mine"):
            store.append(ID, Message(role="user", content="another", id="mine"))
        assert [message.content for message in store.read(ID)] == ["one"]

    def test_appending_nothing_changes_nothing(self, store: Store) -> None:
        before = store.create(Session(id=ID))
        assert store.append(ID) == []
        assert store.get(ID) == before

    def test_stored_messages_do_not_change_with_the_objects_of_the_caller(self, store: Store) -> None:
        store.create(Session(id=ID))
        message = Message(role="user", content="original", extra={"list": [1]})
        stored = store.append(ID, message)
        message.content = stored[0].content = "changed"
        stored[0].extra = {}
        assert [(message.content, message.extra) for message in store.read(ID)] == [("original", {"list": [1]})]

    def test_counts_and_last_activity_come_from_the_log(self, store: Store) -> None:
        store.create(Session(id=ID, created_at="2020-01-01T00:00:00Z", message_count=99, token_count=99))
        store.append(ID, Message(role="user", content="x", tokens=40, timestamp="2021-01-01T00:00:00Z"))
        store.append(ID, Message(role="assistant", content="x", tokens=2, timestamp="2022-01-01T00:00:00Z"))
        session = store.get(ID)
        assert (session.message_count, session.token_count, session.last_active) == (2, 42, "2022-01-01T00:00:00Z")


@pytest.mark.req("STORE-02", "STORE-05")
class TestReading:
    @pytest.mark.parametrize("count", [0, 1, 7])
    def test_reading_from_a_number_and_from_the_end_agree_with_reading_all(self, store: Store, count: int) -> None:
        store.create(Session(id=ID))
        messages = fields_of_each(store.append(ID, *sample_messages(count)))
        for start in range(count + 3):
            assert fields_of_each(store.read(ID, start)) == messages[start:]
        for last in range(1, count + 3):
            assert fields_of_each(store.tail(ID, last)) == messages[-last:]
        assert store.tail(ID, 0) == store.tail(ID, -1) == []

    def test_a_reading_can_be_read_twice(self, store: Store) -> None:
        store.create(Session(id=ID))
        store.append(ID, *sample_messages(3))
        reading = store.read(ID)
        assert fields_of_each(reading) == fields_of_each(reading) != []
        assert reading.damage == []

    def test_readers_neither_block_nor_miss_acknowledged_messages(
        self, store: Store, reopen: Callable[[], Store]
    ) -> None:
        store.create(Session(id=ID))
        store.append(ID, *sample_messages(2))
        earlier_reader = iter(store.read(ID))
        assert next(earlier_reader).seq == 0
        with store.open(ID) as writer:
            for number in range(2, 6):
                writer.append(*sample_messages(1, number))
                other = reopen()
                assert [message.seq for message in other.read(ID)] == list(range(number + 1))
                assert other.tail(ID, 1)[0].seq == number
                assert other.get(ID).message_count == number + 1
                assert [session.damage for session in other.sessions()] == [0]
        assert [message.seq for message in islice(earlier_reader, 1)] == [1]

    def test_every_session_is_listed_with_its_own_counts(self, store: Store, reopen: Callable[[], Store]) -> None:
        assert list(store.sessions()) == []
        for number in range(4):
            store.create(Session(id=f"sess_{number}"))
            store.append(f"sess_{number}", *sample_messages(number))
        for handle in (store, reopen()):
            assert {session.id: session.message_count for session in handle.sessions()} == {
                f"sess_{number}": number for number in range(4)
            }
            assert all(session == handle.get(session.id) for session in handle.sessions())


@pytest.mark.req("STORE-13")
class TestRoundTrip:
    def test_every_field_of_a_message_survives(self, store: Store, reopen: Callable[[], Store]) -> None:
        parts = [
            Part(type="thinking", text="hm, 2+2…", data={"signature": "sig=="}),
            Part(type="text", text="Let me look."),
            Part(type="tool_call", id="call_1", name="Bash", input={"command": "ls", "deep": [{"a": None}]}),
            Part(type="tool_result", call_id="call_1", name="Bash", output="a\nb\n", is_error=True),
            Part(type="image", ref="images/cat.png", media_type="image/png", name="cat"),
            Part(type="file", ref="notes.pdf", media_type="application/pdf"),
            Part(type="from-the-future", data=[1, {"x": [True, None, 1.5]}]),
        ]
        usage = {"input_tokens": 12_345, "output_tokens": 7, "cache": {"read": 2**70}}
        message = Message(
            role="assistant", content="Let me look.", timestamp="2026-02-22T10:00:00Z", tokens=321, id="msg-1",
            model="claude-sonnet-4-5", parts=parts, usage=usage, parent="msg-0", partial=True, aside=True,
            extra={"unknown": {"to": ["us", 1e-7]}},
        )  # fmt: skip
        store.create(Session(id=ID))
        store.append(ID, message)
        for read in (*reopen().read(ID), *reopen().tail(ID, 1)):
            assert fields_of(read) == {**fields_of(message), "seq": 0}
            assert read.text == "Let me look."

    def test_a_message_that_has_only_parts_has_plain_text(self, store: Store) -> None:
        store.create(Session(id=ID))
        store.append(ID, Message(role="tool", parts=[Part(type="tool_result", call_id="c", output="42 files")]))
        [message] = store.read(ID)
        assert message.text == "42 files" and message.tokens and message.tokens > 0

    @pytest.mark.parametrize(
        "text",
        [
            "\x00\x01\x1b[31m\x7f",
            "\u2028\u2029\x85",
            "\ud800 alone \udfff",
            "\ufeffBOM",
            "a\r\nb\rc\n",
            "𝕌 👩‍👩‍👧 العربية \u202e",
            '{"role": "user"}\\"',
        ],
        ids=ascii,
    )
    def test_text_is_read_back_character_for_character(self, store: Store, text: str) -> None:
        store.create(Session(id=ID, title=text))
        store.append(ID, Message(role="user", content=text, extra={text: text}), *sample_messages(1, 1))
        first, second = store.read(ID)
        assert (first.content, first.extra, second.seq) == (text, {text: text}, 1)
        assert (store.get(ID).title, store.check(ID)) == (text, [])

    def test_all_metadata_is_the_same_in_a_reopened_store(self, store: Store, reopen: Callable[[], Store]) -> None:
        config = AgentConfig(command="/workspace.plan", system_prompt_hash="sha256:ab", model="m-1", tools=["t1", "t2"])
        created = store.create(
            Session(
                id=ID,
                title="API Design",
                agent="architect",
                summary="leaning toward REST",
                summary_covers=4,
                summary_by="m-2",
                agent_config=config,
                origin=Origin(tool="codex", session_id="0199-xyz"),
                created_at="2025-11-22T10:30:00Z",
                extra={"unknown": {"nested": [1, 2.5, None, "é"]}},
            )
        )
        assert created.agent_config == config
        store.append(ID, *sample_messages(2))
        store.update(ID, Change(status="paused"))
        session = reopen().get(ID)
        for name in ("id", "title", "agent", "summary", "summary_covers", "summary_by", "agent_config", "origin"):
            assert getattr(session, name) == getattr(created, name), name
        assert session.created_at == "2025-11-22T10:30:00Z"
        assert session.extra == {"unknown": {"nested": [1, 2.5, None, "é"]}}
