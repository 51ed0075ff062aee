"""The view: bounded, a pure function of the log, and the same after a resume."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.agents.talk.context import AGENT, CLEAR, View, marker, marker_kind, size
from cortext.model.message import ASSISTANT, SYSTEM, USER, Message


def text(beginning: str, tokens: int) -> str:
    """Return a text of about that many tokens."""
    return beginning.ljust(4 * tokens, ".")


def conversation(count: int, *, tokens: int = 10) -> list[Message]:
    """Return messages of the user and the assistant in alternation."""
    roles = (USER, ASSISTANT)
    return [
        Message(role=roles[seq % 2], content=text(f"turn {seq}", tokens), tokens=tokens, id=f"m{seq}", seq=seq)
        for seq in range(count)
    ]


def texts(view: View) -> list[str]:
    return [message.content.rstrip(".") for message in view.messages]


@pytest.mark.req("SPAWN-11")
def test_the_first_two_the_last_ten_and_the_system_turns_stay_in_a_full_view() -> None:
    view = View(1000)
    messages = conversation(101)
    messages[40] = Message(role=SYSTEM, content=text("a rule", 10), tokens=10, id="rule", seq=40)
    for message in messages[:100]:
        view.add(message)
    assert view.turns == 100 and view.dropped.turns == 0, "nothing is dropped at exactly the limit"
    view.add(messages[100])
    first, second, rule, notice, *last = texts(view)
    assert (first, second, rule) == ("turn 0", "turn 1", "a rule")
    assert notice.startswith("[88 earlier turns (about 880 tokens) are not shown here.")
    assert last == [f"turn {seq}" for seq in range(91, 101)]
    assert view.dropped.turns == 88 and view.tokens == 130


@pytest.mark.req("SPAWN-11")
def test_the_user_is_warned_once_at_80_and_once_at_90_per_cent() -> None:
    view = View(1000)
    notices = []
    for message in conversation(250):
        view.add(message)
        notices.append(view.take_notices())
    assert [index for index, lines in enumerate(notices) if lines] == [79, 89, 100, 168, 178, 189]
    assert notices[79] == ["the context is 80 % full (800 of 1,000 tokens)"]
    assert notices[89] == ["the context is 90 % full (900 of 1,000 tokens)"]
    assert notices[100] == ["89 older turns were dropped from the context (the file keeps them); it is 12 % full"]


@pytest.mark.req("SPAWN-11")
def test_a_clear_empties_the_view_and_partial_replies_and_asides_stay_out() -> None:
    view = View(1000)
    for message in conversation(6):
        view.add(message)
    view.add(Message(role=ASSISTANT, content="half a", partial=True))
    view.add(marker(AGENT, "agent: a → b", agent="b"))
    assert view.turns == 6
    view.add(marker(CLEAR, "cleared"))
    assert view.messages == [] and view.tokens == 0
    view.add(conversation(1)[0])
    assert texts(view) == ["turn 0"] and view.awaits_answer


def test_huge_turns_stay_below_the_limit_except_a_newest_one_that_exceeds_it() -> None:
    view = View(1000, system="x" * 400)
    for message in conversation(12, tokens=300):
        view.add(message)
        assert view.tokens <= 1000
    assert [text for text in texts(view) if text.startswith("turn")][-1] == "turn 11"
    huge = Message(role=USER, content=text("huge", 5000))
    view.add(huge)
    assert [m for m in view.messages if m.role != SYSTEM] == [huge], "the newest message is always sent"


def test_a_recorded_token_count_far_from_the_text_is_bounded() -> None:
    reply = Message(role=ASSISTANT, content="Yes." * 10, tokens=20_000, usage={"output_tokens": 20_000})
    assert size(reply) == 36
    assert size(Message(role=USER, content="abcd" * 5)) == 5
    assert size(Message(role=USER, content="abcd" * 500, tokens=0)) == 250, "a count of 0 is not believed"
    assert size(Message(role=USER, content="abcd" * 500, tokens=420)) == 420


@st.composite
def logs(draw: st.DrawFn) -> list[Message]:
    kinds = draw(st.lists(st.sampled_from(["say", "say", "say", "say", "partial", CLEAR, AGENT, SYSTEM]), max_size=120))
    made = []
    for seq, kind in enumerate(kinds):
        tokens = draw(st.integers(0, 120))
        if kind in (CLEAR, AGENT):
            message = marker(kind, kind, agent="writer")
        elif kind == SYSTEM:
            message = Message(role=SYSTEM, content=text("rule", tokens), tokens=tokens)
        else:
            role = draw(st.sampled_from([USER, ASSISTANT]))
            message = Message(role=role, content=text("text", tokens), tokens=tokens, partial=kind == "partial")
        message.seq, message.id = seq, f"m{seq}"
        made.append(message)
    return made


@pytest.mark.req("SPAWN-04", "SPAWN-11")
@given(logs(), st.integers(50, 2000))
def test_a_view_loaded_from_the_log_equals_the_live_one(messages: list[Message], limit: int) -> None:
    live = View(limit, system="You are a test.")
    for index, message in enumerate(messages):
        live.add(message)
        if index % 7 == 0:
            loaded = View(limit, system="You are a test.")
            loaded.load(iter(messages[: index + 1]))
            assert loaded.messages == live.messages
            assert (loaded.tokens, loaded.dropped) == (live.tokens, live.dropped)
    assert live.tokens <= max(limit, live._system_size + size(live._shown[-1]) if live._shown else 0)
    assert not any(marker_kind(message) or message.partial for message in live.messages)


def test_the_view_of_a_log_with_branches_is_that_of_the_current_branch() -> None:
    messages = conversation(6)
    messages[4].parent = "m1"  # a branch from the second turn
    messages.insert(4, marker(CLEAR, "cleared"))
    for seq, message in enumerate(messages):
        message.seq = seq
    view = View()
    view.load(messages)
    assert texts(view) == ["turn 4", "turn 5"]
