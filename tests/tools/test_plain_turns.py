"""A conversation as plain texts, for tools without tool calls."""

from __future__ import annotations

import pytest

from cortext.model.message import Message, Part
from cortext.model.turns import Difference, Turns
from cortext.tools.shared.building import plain_turns

GIVEN = {"a": '{"command": "cat a.txt"}', "b": '{"command": "cat b.txt"}'}


def _call(key: str) -> Part:
    return Part("tool_call", id=key, name="Bash", input={"command": f"cat {key}.txt"})


@pytest.mark.req("SESS-004d")
def test_calls_and_results_become_labelled_text_and_are_counted() -> None:
    normal = Turns(
        [
            Message(role="user", content="Read both."),
            Message(role="assistant", content="Let me look.", parts=[_call("a"), _call("b")]),
            Message(role="tool", parts=[Part("tool_result", call_id="b", output="gone", is_error=True)]),
            Message(role="tool", parts=[Part("tool_result", call_id="a", output="[not a label]")]),
            Message(role="assistant", content="One is gone."),
        ]
    )

    turns = plain_turns(normal)

    assert [(turn.role, turn.text) for turn in turns] == [
        ("user", "Read both."),
        ("assistant", "\n\n".join(["Let me look.", *(f"[call of Bash ({key})]\n{GIVEN[key]}" for key in GIVEN)])),
        ("user", "[result of the call of Bash (b), which failed, not the user's words]\ngone"),
        ("user", "[result of the call of Bash (a), not the user's words]\n[not a label]"),
        ("assistant", "One is gone."),
    ]
    assert normal.changed == {Difference.CALLS_AS_TEXT: 2}
    assert [turn.message is not None for turn in turns] == [True] * 5


@pytest.mark.req("SESS-004d")
def test_without_calls_nothing_is_counted() -> None:
    normal = Turns([Message(role="user", content="Hello."), Message(role="assistant", content="Hello!")])
    assert [turn.text for turn in plain_turns(normal)] == ["Hello.", "Hello!"]
    assert normal.changed == {}
