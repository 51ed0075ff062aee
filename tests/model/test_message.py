"""A message: its plain text, its parts, the thread that it belongs to; and its size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.model import tokens
from cortext.model.message import BEGINNING, Message, Part, plain, said, thread
from cortext.store.files.lines import StoredMessage

TEXT = Part(type="text", text="said")
MORE = Part(type="text", text="more")
CALL = Part(type="tool_call", id="c", name="Bash", input={"command": "ls"})
RESULT = Part(type="tool_result", call_id="c", output="a.txt")
EMPTY = Part(type="tool_result", call_id="c")
THINKING = Part(type="thinking", text="hm")
IMAGE = Part(type="image", ref="cat.png")


@pytest.mark.req("STORE-13")
@pytest.mark.parametrize(
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
def test_the_plain_text_is_always_there(message: Message, text: str) -> None:
    assert message.text == text


@pytest.mark.req("STORE-13")
def test_parts_are_found_by_their_type_in_order() -> None:
    message = Message(role="assistant", parts=[TEXT, CALL, MORE, THINKING])
    assert message.parts_of("text") == [TEXT, MORE]
    assert message.parts_of("image") == Message(role="user").parts_of("text") == []


@pytest.mark.req("STORE-13")
def test_what_was_said_is_the_texts_alone() -> None:
    assert said([THINKING, TEXT, CALL, Part(type="text"), RESULT, MORE]) == "said\n\nmore"
    assert said([]) == ""


def talk(*rows: tuple[str, str], partial: str = "", aside: str = "") -> list[Message]:
    return [
        Message(role="user", content=name, id=name, parent=parent, partial=name == partial, aside=name == aside)
        for name, parent in rows
    ]


def names(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


def test_a_talk_that_went_straight_on_is_its_own_thread() -> None:
    assert names(thread(talk(("a", ""), ("b", ""), ("c", "b")))) == ["a", "b", "c"]
    assert thread([]) == []


def test_a_talk_that_went_back_leaves_the_way_not_taken() -> None:
    messages = talk(("a", ""), ("b", ""), ("c", ""), ("d", "a"), ("e", ""))
    assert names(thread(messages)) == ["a", "d", "e"]


def test_a_talk_that_began_anew_has_nothing_before_that() -> None:
    messages = talk(("a", ""), ("b", ""), ("c", BEGINNING), ("d", ""))
    assert names(thread(messages)) == ["c", "d"]


def test_cut_replies_and_asides_are_no_part_of_the_thread() -> None:
    messages = talk(("a", ""), ("b", ""), ("c", ""), ("d", ""), partial="b", aside="c")
    assert names(thread(messages)) == ["a", "d"]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 14)), max_size=12))
def test_no_parents_however_wrong_make_it_go_round_in_a_circle(rows: list[tuple[int, int]]) -> None:
    messages = talk(*((f"m{name}", f"m{parent}" if parent >= 0 else "") for name, parent in rows))
    way = thread(messages)
    places = [next(place for place, each in enumerate(messages) if each is message) for message in way]
    assert places == sorted(set(places))
    assert not messages or way[-1] is messages[-1]


@pytest.mark.parametrize(
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
def test_tokens_are_a_quarter_of_the_characters_or_one_for_each_wide_one(text: str, count: int) -> None:
    assert tokens.estimate(text) == count


@given(st.text(), st.text())
def test_a_longer_text_is_never_fewer_tokens(first: str, second: str) -> None:
    together = tokens.estimate(first + second)
    assert max(tokens.estimate(first), tokens.estimate(second)) <= together
    assert together <= tokens.estimate(first) + tokens.estimate(second)


@pytest.mark.req("STORE-13")
def test_a_plain_message_is_all_of_what_a_store_handed_out() -> None:
    fields = {name: f"a {name}" for name in Message.__struct_fields__}  # a new field must not be forgotten
    stored = StoredMessage(**fields, type="turn", idx=3)  # type: ignore[arg-type]
    assert plain(stored) == Message(**fields)  # type: ignore[arg-type]
    assert type(plain(stored)) is Message


@given(st.text(st.characters(codec=None)) | st.text("a→ü漢🙂\ud800"))
def test_what_takes_three_bytes_is_a_token_each(text: str) -> None:
    wide = sum(ord(character) >= 0x800 for character in text)
    assert tokens.estimate(text) == wide + -(-(len(text) - wide) // 4)
