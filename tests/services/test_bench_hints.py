"""The measure behind the figures about hints: what counts as right, and what the control compares."""

from __future__ import annotations

import pytest
from bench.hints import Outcome, Rest, commands_of, rest_of, wilson

from cortext.model.message import ASSISTANT, TOOL_CALL, USER, Message, Part
from cortext.services.hints.hints import ERROR, Hint
from cortext.services.library.listing import Row

SAYS = "The cause was a circular import between heron_counter and its birds"


def _hint(source: str = "source") -> Hint:
    row = Row._make(["" for _ in Row._fields])._replace(id=source)
    return Hint(
        kind=ERROR, score=0.9, row=row, seq=1, timestamp="", about="", says=SAYS, says_seq=2, files=["src/heron.py"]
    )


def _rest(said: str, receiver: str = "receiver", asked: str = "It fails.", edited: str = "") -> Rest:
    edit = {"file_path": edited, "old_string": "a", "new_string": "b"}
    parts = [Part(TOOL_CALL, id="1", name="Edit", input=edit)] if edited else None
    told = [Message(role=USER, content=SAYS), Message(role=ASSISTANT, content=said, parts=parts)]
    return rest_of(receiver, asked, told)


@pytest.mark.req("FIND-09")
@pytest.mark.parametrize(
    ("rest", "is_right"),
    [
        (_rest("It is a circular import between heron_counter and birds; the cause is clear."), True),
        (_rest("A circular import, I see."), False),
        (_rest("A circular import between two files.", edited="lib/heron.py"), True),
        (_rest("A circular import between two files.", edited="lib/stork.py"), False),
        (_rest("Fixed.", edited="lib/heron.py"), False),
        (_rest("A circular import between heron_counter and birds, the cause.", asked=SAYS), False),
        (_rest(""), False),
    ],
)
def test_a_hint_is_right_if_the_rest_of_its_conversation_uses_it(rest: Rest, *, is_right: bool) -> None:
    assert Outcome(_hint(), rest).is_right is is_right


def test_the_control_leaves_out_the_receiver_and_the_source_of_a_hint() -> None:
    same = "It is a circular import between heron_counter and birds; the cause is clear."
    others = [_rest(same, name) for name in ("receiver", "source", "third")] + [_rest("Something else.", "fourth")]
    assert Outcome(_hint(), _rest(same)).by_chance(others) == [True, False]


def test_commands_and_intervals() -> None:
    parts = [
        Part(TOOL_CALL, id=str(n), name="Bash", input={"command": line}) for n, line in enumerate(("ls", "go test"))
    ]
    assert commands_of(Message(role=ASSISTANT, parts=parts)) == ["go test"]
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(1, 3)
    assert 0.05 < low < 0.07 and 0.78 < high < 0.80
