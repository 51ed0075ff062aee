"""The list of what we wrote into a session of a tool that keeps no fields of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.model.message import Message, Part
from cortext.tools.shared.native import OwnMessages, list_path, save_list


def _read(*texts: str) -> list[Message]:
    """Return messages as a tool's session is read: with ids of its own, the odd ones from the assistant."""
    roles = ("user", "assistant")
    return [Message(role=roles[index % 2], content=text, id=f"n{index}") for index, text in enumerate(texts)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a list for a session in which the first message was added and the others were made from `a` and `b`."""
    path = list_path(str(tmp_path), {}, "toychat", "7f3a")
    originals = [None, Message(role="assistant", content="", id="a", parts=[Part("tool_call", id="1", name="ls")])]
    save_list(path, _read("Go on", "[call of ls]", "ok"), [*originals, Message(role="user", content="ok", id="b")])
    return path


@pytest.mark.req("TOOL-02")
def test_the_original_messages_are_restored_and_later_ones_are_new(path: str) -> None:
    restored = OwnMessages(_read("Go on", "[call of ls]", "ok", "fine", "ok"), path)
    messages = list(restored)
    assert [message.id for message in messages] == ["a", "b", "n3", "n4"]
    assert messages[0].parts == [Part("tool_call", id="1", name="ls")]
    assert restored.position == 3


@pytest.mark.req("TOOL-02")
def test_words_said_again_are_a_new_message(path: str) -> None:
    restored = OwnMessages(_read("Go on"), path, position=3)
    assert [message.id for message in restored] == ["n0"]


@pytest.mark.req("TOOL-02")
def test_a_reading_in_two_steps_restores_all(path: str) -> None:
    first = OwnMessages(_read("Go on", "[call of ls]"), path)
    assert [message.id for message in first] == ["a"]
    second = OwnMessages(_read("ok"), path, position=first.position)
    assert [message.id for message in second] == ["b"]


@pytest.mark.req("TOOL-02")
def test_after_a_difference_everything_is_new(path: str) -> None:
    assert [message.id for message in OwnMessages(_read("Go on", "edited", "ok"), path)] == ["n1", "n2"]


@pytest.mark.req("TOOL-02")
def test_a_branch_names_the_restored_message(path: str) -> None:
    messages = _read("Go on", "[call of ls]", "again")
    messages[2].parent = "n1"
    assert [message.parent for message in OwnMessages(messages, path)] == ["", "a"]


@pytest.mark.req("TOOL-02")
@pytest.mark.parametrize("data", [b"", b"{", b'{"digest": 7}\n', b"\xff\xfe"])
def test_a_damaged_list_loses_no_message(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)
    assert len(list(OwnMessages(_read("Go on", "[call of ls]", "ok"), path))) == 3


@pytest.mark.req("TOOL-02")
def test_without_a_list_every_message_is_new(tmp_path: Path) -> None:
    assert len(list(OwnMessages(_read("Go on", "ok"), str(tmp_path / "none.jsonl")))) == 2
