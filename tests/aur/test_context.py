"""The view: bounded, a pure function of the log, and the same after a resume as without the break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.model.message import ASSISTANT, SYSTEM, USER, Message
from cortext.services.talk.context import AGENT, CLEAR, View, mark, marker_kind, size


def text(words: str, tokens: int) -> str:
    """The words in a text of about that many tokens."""
    return words.ljust(4 * tokens, ".")


def said(count: int, *, tokens: int = 10) -> list[Message]:
    """A talk: the two sides in turns."""
    roles = (USER, ASSISTANT)
    return [
        Message(role=roles[place % 2], content=text(f"turn {place}", tokens), tokens=tokens, id=f"m{place}", seq=place)
        for place in range(count)
    ]


def texts(view: View) -> list[str]:
    return [message.content.rstrip(".") for message in view.messages]


@pytest.mark.req("SPAWN-11")
def test_the_first_two_the_last_ten_and_the_system_turns_stay_and_a_marker_says_what_left() -> None:
    view = View(1000)
    messages = said(101)
    messages[40] = Message(role=SYSTEM, content=text("a rule", 10), tokens=10, id="rule", seq=40)
    for message in messages[:100]:
        view.add(message)
    assert view.turns == 100 and view.dropped.turns == 0, "full is not too full"
    view.add(messages[100])
    first, second, rule, marker, *last = texts(view)
    assert (first, second, rule) == ("turn 0", "turn 1", "a rule")
    assert marker.startswith("[88 earlier turns (about 880 tokens) are not shown here.")
    assert last == [f"turn {place}" for place in range(91, 101)]
    assert view.dropped.turns == 88 and view.tokens == 130


@pytest.mark.req("SPAWN-11")
def test_the_user_is_warned_at_80_and_at_90_per_cent_once_each_time() -> None:
    view = View(1000)
    told = []
    for message in said(250):
        view.add(message)
        told.append(view.news())
    assert [place for place, news in enumerate(told) if news] == [79, 89, 100, 168, 178, 189]
    assert told[79] == ["the context is 80 % full (800 of 1,000 tokens)"]
    assert told[89] == ["the context is 90 % full (900 of 1,000 tokens)"]
    assert told[100] == ["89 older turns left the view (the file keeps them); it is 12 % full now"]


@pytest.mark.req("SPAWN-11")
def test_a_clear_begins_a_fresh_view_and_partial_replies_and_asides_stay_out() -> None:
    view = View(1000)
    for message in said(6):
        view.add(message)
    view.add(Message(role=ASSISTANT, content="half a", partial=True))
    view.add(marker(AGENT, "agent: a → b", agent="b"))
    assert view.turns == 6
    view.add(marker(CLEAR, "cleared"))
    assert view.messages == [] and view.tokens == 0
    view.add(said(1)[0])
    assert texts(view) == ["turn 0"] and view.waits


def test_even_a_few_huge_turns_are_kept_below_the_limit_and_the_newest_always_stays() -> None:
    view = View(1000, system="x" * 400)
    for message in said(12, tokens=300):
        view.add(message)
        assert view.tokens <= 1000
    assert [text for text in texts(view) if text.startswith("turn")][-1] == "turn 11"
    huge = Message(role=USER, content=text("huge", 5000))
    view.add(huge)
    assert [m for m in view.messages if m.role != SYSTEM] == [huge], "too much alone: sent all the same"


def test_thoughts_that_a_provider_counts_with_its_reply_do_not_fill_the_view() -> None:
    reply = Message(role=ASSISTANT, content="Yes." * 10, tokens=20_000, usage={"output_tokens": 20_000})
    assert size(reply) == 36
    assert size(Message(role=USER, content="abcd" * 5)) == 5
    assert size(Message(role=USER, content="abcd" * 500, tokens=0)) == 250, "nor do those that nobody counted vanish"
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
            message = Message(role=role, content=text("words", tokens), tokens=tokens, partial=kind == "partial")
        message.seq, message.id = seq, f"m{seq}"
        made.append(message)
    return made


@pytest.mark.req("SPAWN-04", "SPAWN-11")
@given(logs(), st.integers(50, 2000))
def test_a_resume_at_any_place_gives_the_view_that_there_would_have_been(messages: list[Message], limit: int) -> None:
    live = View(limit, system="You are a test.")
    for place, message in enumerate(messages):
        live.add(message)
        if place % 7 == 0:
            again = View(limit, system="You are a test.")
            again.load(iter(messages[: place + 1]))
            assert again.messages == live.messages
            assert (again.tokens, again.left) == (live.tokens, live.left)
    assert live.tokens <= max(limit, live._system_size + size(live._shown[-1]) if live._shown else 0)
    assert not any(marker_kind(message) or message.partial for message in live.messages)


def test_a_log_that_went_another_way_is_seen_as_it_stands() -> None:
    messages = said(6)
    messages[4].parent = "m1"  # back to the second turn, and on from there
    messages.insert(4, marker(CLEAR, "cleared"))
    for seq, message in enumerate(messages):
        message.seq = seq
    view = View()
    view.load(messages)
    assert texts(view) == ["turn 4", "turn 5"]
