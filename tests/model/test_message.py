"""A message: its plain text, its parts, its thread and its size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.model import tokens
from cortext.model.message import BEGINNING, REPLACES, Message, Part, joined_text, plain
from cortext.model.threads import thread
from cortext.store.files.lines import StoredMessage
from cortext.testing.table import every_row

TEXT = Part(type="text", text="said")
MORE = Part(type="text", text="more")
CALL = Part(type="tool_call", id="c", name="Bash", input={"command": "ls"})
RESULT = Part(type="tool_result", call_id="c", output="a.txt")
EMPTY = Part(type="tool_result", call_id="c")
THINKING = Part(type="thinking", text="hm")
IMAGE = Part(type="image", ref="cat.png")


@pytest.mark.req("STORE-13")
@every_row(
    ("message", "text"),
    [
        (Message(role="user", content="plain"), "plain"),
        (Message(role="user", content="plain", parts=[MORE]), "plain"),
        (Message(role="user", parts=[TEXT, CALL, MORE]), "said\n\nmore"),
        (Message(role="tool", parts=[RESULT]), "a.txt"),
        (Message(role="tool", parts=[EMPTY, RESULT, TEXT]), "a.txt\n\nsaid"),
        (Message(role="assistant", parts=[THINKING, CALL, IMAGE]), ""),
        (Message(role="assistant"), ""),
        (Message(role="assistant", parts=[]), ""),
    ],
)
def test_a_message_always_has_plain_text(message: Message, text: str) -> None:
    assert message.text == text


@pytest.mark.req("STORE-13")
def test_parts_are_found_by_type_in_order() -> None:
    message = Message(role="assistant", parts=[TEXT, CALL, MORE, THINKING])
    assert message.parts_of("text") == [TEXT, MORE]
    assert message.parts_of("image") == Message(role="user").parts_of("text") == []


@pytest.mark.req("STORE-13")
def test_said_joins_only_the_texts() -> None:
    assert joined_text([THINKING, TEXT, CALL, Part(type="text"), RESULT, MORE]) == "said\n\nmore"
    assert joined_text([]) == ""


def conversation(*rows: tuple[str, str], partial: str = "", aside: str = "") -> list[Message]:
    return [
        Message(role="user", content=name, id=name, parent=parent, partial=name == partial, aside=name == aside)
        for name, parent in rows
    ]


def names(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


def test_a_linear_conversation_is_its_own_thread() -> None:
    assert names(thread(conversation(("a", ""), ("b", ""), ("c", "b")))) == ["a", "b", "c"]
    assert thread([]) == []


def test_a_thread_omits_the_abandoned_branch() -> None:
    messages = conversation(("a", ""), ("b", ""), ("c", ""), ("d", "a"), ("e", ""))
    assert names(thread(messages)) == ["a", "d", "e"]


def test_a_thread_begins_where_the_conversation_was_restarted() -> None:
    messages = conversation(("a", ""), ("b", ""), ("c", BEGINNING), ("d", ""))
    assert names(thread(messages)) == ["c", "d"]


def test_an_edit_stands_where_it_was_sent_and_what_it_replaces_is_left_out() -> None:
    said = [
        Message(role="user", content="one", id="a"),
        Message(role="assistant", content="answer", id="b"),
        Message(role="user", content="two", id="c"),
        Message(role="user", content="one, edited", id="d", extra={REPLACES: "a"}),
        Message(role="assistant", content="another answer", id="e"),
        Message(role="user", content="one, edited again", id="f", extra={REPLACES: "d"}),
        Message(role="user", content="of nothing", id="g", extra={REPLACES: ["a"]}),
    ]
    assert names(thread(said)) == ["c", "f", "g"]


def test_partial_replies_and_asides_are_not_in_the_thread() -> None:
    messages = conversation(("a", ""), ("b", ""), ("c", ""), ("d", ""), partial="b", aside="c")
    assert names(thread(messages)) == ["a", "d"]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 14)), max_size=12))
def test_wrong_parents_never_cause_a_loop(rows: list[tuple[int, int]]) -> None:
    messages = conversation(*((f"m{name}", f"m{parent}" if parent >= 0 else "") for name, parent in rows))
    found = thread(messages)
    indices = [next(index for index, each in enumerate(messages) if each is message) for message in found]
    assert indices == sorted(set(indices))
    assert not messages or found[-1] is messages[-1]


@every_row(
    ("text", "count"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("x" * 400, 100),
        ("漢字", 2),
        ("漢字abcd", 3),
        ("é" * 4, 1),
        ("👩", 1),
    ],
)
def test_tokens_are_a_quarter_of_the_characters_and_one_per_wide_one(text: str, count: int) -> None:
    assert tokens.estimate(text) == count


@given(st.text(), st.text())
def test_a_longer_text_never_has_fewer_tokens(first: str, second: str) -> None:
    together = tokens.estimate(first + second)
    assert max(tokens.estimate(first), tokens.estimate(second)) <= together
    assert together <= tokens.estimate(first) + tokens.estimate(second)


@pytest.mark.req("STORE-13")
def test_a_plain_copy_has_every_field_of_a_stored_message() -> None:
    fields = {name: f"a {name}" for name in Message.__struct_fields__}  # a new field must not be forgotten
    stored = StoredMessage(**fields, type="turn", idx=3)  # type: ignore[arg-type]
    assert plain(stored) == Message(**fields)  # type: ignore[arg-type]
    assert type(plain(stored)) is Message


@given(st.text(st.characters(codec=None)) | st.text("a→ü漢🙂\ud800"))
def test_each_character_of_three_bytes_is_one_token(text: str) -> None:
    wide = sum(ord(character) >= 0x800 for character in text)
    assert tokens.estimate(text) == wide + -(-(len(text) - wide) // 4)
