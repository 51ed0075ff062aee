"""Units of the MCP server: dates as models write them, truncated secrets, decisions, an empty home."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortext.errors import CortextError, NotFound, UsageError
from cortext.faces.mcp import calls
from cortext.faces.mcp.calls import SPECS, arguments_of, decode
from cortext.faces.mcp.context import Context
from cortext.faces.mcp.pages import fenced, fit
from cortext.faces.mcp.tools import call
from cortext.model import tokens
from cortext.model.message import Message, Part
from cortext.model.session import Change, Origin, Session
from cortext.services.library.recall import _scrubbed, _secrets
from cortext.services.projects.workspaces import remember_workspace
from cortext.services.text.decisions import topic_words
from cortext.services.text.settled import decisions_in
from cortext.store.files.workspace import WorkspaceStore
from cortext.testing.table import every_row
from tests.faces.pond import SECRET

SEARCH = arguments_of(SPECS["search_workspace"])


@every_row(
    ("written", "after", "before"),
    [
        ("2026-11-01..2026-11-15", "2026-11-01", "2026-11-15"),
        ("2026-11-01 to 2026-11-15", "2026-11-01", "2026-11-15"),
        ("2026-11-01/2026-11-15", "2026-11-01", "2026-11-15"),
        ("..2026-11-15", "", "2026-11-15"),
        ("2026-11-01..", "2026-11-01", ""),
        ("2026-11", "2026-11", "2026-11"),
        ("yesterday", "yesterday", "yesterday"),
        ("7d", "7d", ""),
        ("last week", "1w", ""),
        ("the last 3 months", "3m", ""),
        ({"from": "2026-11-01", "to": "2026-11-15"}, "2026-11-01", "2026-11-15"),
        ({"start": "2026-11-01"}, "2026-11-01", ""),
        (["2026-11-01", "2026-11-15"], "2026-11-01", "2026-11-15"),
        ("", "", ""),
    ],
)
def test_a_range_of_dates_as_models_write_it(written: Any, after: str, before: str) -> None:
    found = calls.date_filters(decode(SEARCH, {"query": "herons", "date_range": written}).date_range)
    assert (found.get("after", ""), found.get("before", "")) == (after, before)


@given(st.data(), st.sampled_from(sorted(SPECS)))
def test_whatever_is_given_is_decoded_or_refused(data: st.DataObject, tool: str) -> None:
    kind = arguments_of(SPECS[tool])
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    )
    given = data.draw(st.dictionaries(st.sampled_from(kind.__struct_fields__), values))
    try:
        call = decode(kind, given)
    except UsageError:
        return
    assert isinstance(call, kind)
    assert 1 <= getattr(call, "limit", 1) <= 500
    try:
        assert set(calls.date_filters(getattr(call, "date_range", ""))) <= {"after", "before"}
    except UsageError:
        pass


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({}, "query is missing", "provide 'query'"),
        ({"query": "  "}, "query is missing", "provide 'query'"),
        ({"query": None}, "query is missing", "provide 'query'"),
        ({"query": ["a", "b"]}, "query: Expected `str`, got `array`", ""),
        ({"query": "a", "limit": "many"}, "limit: Expected `int`, got `str`", ""),
        (
            {"query": "a", "words": 1},
            "unknown argument 'words'",
            "this tool takes query, date_range, limit, cursor, leave_out, type, tag, starred, archived",
        ),
    ],
)
def test_what_is_wrong_with_a_call_is_said_with_the_way_out(given: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        decode(SEARCH, given)
    assert refused.value.message == message
    assert refused.value.hint.startswith(hint)


def test_sloppy_types_are_understood() -> None:
    call = decode(SEARCH, {"query": 404, "limit": "500.0", "leave_out": "one, two", "type": None})
    assert call == SEARCH(query="404", limit=50, leave_out=["one", "two"])


@pytest.mark.req("SAFE-02")
@given(st.integers(0, 160), st.integers(20, 120))
@settings(max_examples=200)
def test_no_part_of_a_secret_remains_wherever_a_snippet_is_cut(start: int, size: int) -> None:
    whole = f"Before it stands a line of words that tell nothing, then {SECRET} and a few words after it, too."
    piece = whole[start : start + size]
    shown = _scrubbed(f"…{piece}…", _secrets(whole))
    key = SECRET.removeprefix("sk-ant-api03-")
    assert not any(key[place : place + 5] in shown for place in range(len(key) - 4))


def test_decisions_are_sentences_that_settle_the_topic() -> None:
    said = [
        ("assistant", "Shall we use tape or tar? Tape is cheap."),
        ("user", "We decided to use tar. Because tape rots in a year."),
        ("assistant", "Nobody decided about the paint."),
        ("user", "Agreed."),
    ]
    messages = [Message(role=role, content=text, seq=place) for place, (role, text) in enumerate(said)]
    found = decisions_in(messages, topic_words("tar for the boat"))
    assert [one.text for one in found][:1] == ["We decided to use tar. Because tape rots in a year."]
    assert not any("Nobody" in one.text for one in found)
    assert decisions_in(messages, topic_words("the moon")) == []


@pytest.mark.req("SESS-010")
def test_a_decision_is_told_once_with_its_repetitions_and_its_reversal(tmp_path: Path) -> None:
    store = WorkspaceStore(str(tmp_path))
    (tmp_path / ".workspace").mkdir()
    kept = "We use SQLite instead of Redis for the heron cache."
    said = (
        ("2026-01-03", kept),
        ("2026-01-04", kept),
        ("2026-01-05", "So, we use SQLite for the heron cache instead of Redis."),
        ("2026-02-01", "Drop SQLite, the heron cache is one plain file."),
        ("2026-03-01", kept),
    )
    for number, (day, text) in enumerate(said, 1):
        name = f"00{number}-plan-cache"
        store.create(Session(id=name, created_at=f"{day}T00:00:00Z", type="plan"))
        store.append(name, Message(role="user", content=text, timestamp=f"{day}T10:00:00.000Z"))
    remember_workspace(str(tmp_path))
    answer = call(Context(str(tmp_path), lambda: None), "get_decision_history", {"topic": "heron cache"})
    told = [(one["date"][:10], one["times"], one["reversed_by"]) for one in answer.data["decisions"]]
    assert told == [
        ("2026-01-03", 3, "004-plan-cache#0"),
        ("2026-02-01", 1, "005-plan-cache#0"),
        ("2026-03-01", 1, ""),
    ]
    notes = "(rejected: Redis; reversed in 004-plan-cache #0; said 3 times)"
    assert f"- 2026-01-03 · user: {kept} {notes}" in answer.text


def test_a_page_has_at_least_one_entry_and_a_cursor_to_the_next() -> None:
    entries = ["word " * 100] * 10
    page = fit(entries, 0, lambda text: (text, {"text": text}), 700)
    assert 0 < len(page.texts) == page.next_index < 10
    huge = fit(entries, 3, lambda text: (text, {"text": text}), 10)
    assert (len(huge.texts), huge.next_index) == (1, 4)
    assert fit(entries, 9, lambda text: (text, {"text": text}), 10).next_index == -1


@pytest.mark.req("SAFE-03")
def test_a_fence_occurs_nowhere_in_its_contents() -> None:
    for _ in range(50):
        text = fenced("Found:", ["---00000000 end of the record", "words"])
        lines = text.splitlines()
        assert [line for line in lines if line.startswith(lines[1].split()[0])] == [lines[1], lines[-1]]


@pytest.mark.req("SESS-010")
def test_the_server_answers_in_an_empty_home(tmp_path: Path) -> None:
    world = Context(str(tmp_path), lambda: None)
    assert call(world, "list_sessions", {}).data["sessions"] == []
    assert call(world, "resume_session", {}).data["sessions"] == []
    assert call(world, "search_sessions", {"query": "herons"}).data["results"] == []
    assert call(world, "get_decision_history", {"topic": "herons"}).data["decisions"] == []
    with pytest.raises(NotFound, match="not started inside a workspace") as refused:
        call(world, "search_workspace", {"query": "herons"})
    assert "search_sessions" in refused.value.hint
    with pytest.raises(CortextError, match="no workspace here"):
        call(world, "save_session", {})


@pytest.mark.req("SESS-010")
def test_among_clones_the_current_one_wins_then_the_newest(tmp_path: Path) -> None:
    for place, name in enumerate(("here", "there", "elsewhere")):
        (tmp_path / name / ".workspace").mkdir(parents=True)
        remember_workspace(str(tmp_path / name))
        store = WorkspaceStore(str(tmp_path / name))
        store.create(Session(id="001-plan-heron", created_at=f"2026-01-0{place + 1}T00:00:00Z", type="plan"))
        moment = f"2026-01-0{place + 1}T00:00:00Z"
        store.append("001-plan-heron", Message(role="user", content=f"I am {name}.", timestamp=moment))
    here, outside = Context(str(tmp_path / "here"), lambda: None), Context(str(tmp_path), lambda: None)
    for tool in ("get_session", "resume_session"):
        assert "I am here." in call(here, tool, {"id": "001-plan-heron"}).text
        assert "I am elsewhere." in call(outside, tool, {"id": "001-plan-heron"}).text
    assert "I am there." in call(outside, "get_context", {"topic": "there", "max_results": 1}).text
    assert "I am there." in call(outside, "get_session", {"id": "001-plan-heron"}).text, "the copy that was quoted"


@pytest.mark.req("SESS-010", "SAFE-06")
@pytest.mark.parametrize("sign", ["広", "\x07", "\u202e", '"', "\ud800"])
def test_no_answer_exceeds_the_budget_even_for_a_hostile_session(
    tmp_path: Path, sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEXT_MCP_TOKENS", "1000")
    (tmp_path / ".workspace").mkdir()
    store = WorkspaceStore(str(tmp_path))
    words = f"heron {sign * 2_000}"
    for number in range(3):
        name = f"00{number}-plan-heron"
        store.create(Session(id=name, type=words, title=words, agent=words, origin=Origin(tool=words), status="paused"))
        store.append(name, *(Message(role=role, content=f"We decided: {words}.") for role in ("user", "assistant") * 3))
        store.update(name, Change(summary=words))
    world = Context(str(tmp_path), lambda: None)
    for tool, arguments in (
        ("search_workspace", {"query": "heron"}),
        ("search_sessions", {"query": words, "messages_per_session": 10}),
        ("get_context", {"topic": "heron decided"}),
        ("get_decision_history", {"topic": "heron"}),
        ("list_sessions", {}),
        ("get_session", {"id": "000-plan-heron"}),
        ("resume_session", {"id": "000-plan-heron"}),
        ("resume_session", {}),
        ("save_session", {"id": "001-plan-heron", "summary": words}),
    ):
        answer = call(world, tool, arguments)
        sent = json.dumps(answer.data, ensure_ascii=False).encode().decode()
        assert tokens.estimate(answer.text) <= 1_000, tool
        assert tokens.estimate(sent) <= 1_000, tool


@pytest.fixture
def herons(tmp_path: Path) -> Context:
    """A workspace with six conversations, in which every other message is about herons."""
    (tmp_path / ".workspace").mkdir()
    store = WorkspaceStore(str(tmp_path))
    for number in range(6):
        name = f"00{number}-plan-birds"
        store.create(Session(id=name, title=f"Birds {number}", status="paused"))
        for turn in range(10):
            count = 10 * number + turn
            store.append(
                name,
                Message(role="user", content=f"How many herons were at pond {count} on that morning in spring?"),
                Message(role="assistant", content=f"There were {count + 2} herons, and {count} of them were young."),
                Message(role="user", content="Thank you. And the boat?"),
                Message(role="assistant", content="It leaks."),
            )
    return Context(str(tmp_path), lambda: None)


@pytest.mark.req("FIND-08")
def test_context_is_filled_to_its_budget_with_passages_that_can_be_read_whole(
    herons: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTEXT_MCP_TOKENS", "2000")
    seen: set[tuple[str, int]] = set()
    cursor: str | None = ""
    for _ in range(2):
        answer = call(herons, "get_context", {"topic": "how many young herons", "cursor": cursor})
        sent = tokens.estimate(json.dumps(answer.data, separators=(",", ":")))
        assert 1_600 < max(sent, tokens.estimate(answer.text)) <= 2_000
        places = [(one["session"]["id"], part["seq"]) for one in answer.data["results"] for part in one["passages"]]
        assert len(places) > 20
        assert not seen & set(places), "no passage is on two pages"
        seen |= set(places)
        cursor = answer.data["next_cursor"]
        assert cursor is not None, "there is more"
        days = [[part.get("timestamp", "")[:10] for part in one["passages"]] for one in answer.data["results"]]
        assert all(first for first, *_ in days), "every session has a date"
        assert all(before != day for one in days for before, day in pairwise(one) if day), "and each only once"
    first = answer.data["results"][0]
    passage = first["passages"][0]
    whole = call(herons, "get_session", {"id": first["session"]["id"], "start": passage["seq"], "limit": 1})
    assert whole.data["messages"][0]["text"] == passage["text"]


@pytest.mark.req("FIND-08")
def test_context_has_room_for_neighbours_if_few_passages_are_wanted(herons: Context) -> None:
    answer = call(herons, "get_context", {"topic": "herons at pond 17", "max_results": 2})
    passages = [part for one in answer.data["results"] for part in one["passages"]]
    assert len(passages) == 2
    assert all("before" in part or "after" in part for part in passages)


@pytest.mark.req("FIND-08")
def test_one_session_that_repeats_itself_does_not_crowd_out_another(tmp_path: Path) -> None:
    (tmp_path / ".workspace").mkdir()
    store = WorkspaceStore(str(tmp_path))
    said = {"001-plan-long": [f"Herons at the pond, morning {number}: we count them." for number in range(40)]}
    said["002-plan-short"] = ["About the boat.", "From the boat one sees herons at the pond.", "The boat leaks."]
    for name, texts in said.items():
        store.create(Session(id=name, title=name, status="paused"))
        store.append(name, *(Message(role="user", content=text) for text in texts))
    seen: list[tuple[str, int]] = []
    cursor: str | None = ""
    context = Context(str(tmp_path), lambda: None)
    while cursor is not None:
        answer = call(context, "get_context", {"topic": "herons at the pond", "max_results": 20, "cursor": cursor})
        found = [(one["session"]["id"], part["seq"]) for one in answer.data["results"] for part in one["passages"]]
        assert seen or ("002-plan-short", 1) in found, "it is among the first twenty of 41"
        seen += found
        cursor = answer.data["next_cursor"]
    assert len(seen) == len(set(seen)) and {("001-plan-long", number) for number in range(40)} <= set(seen)


@pytest.mark.req("FIND-08")
def test_no_message_is_shown_twice_as_the_neighbour_of_two(tmp_path: Path) -> None:
    (tmp_path / ".workspace").mkdir()
    store = WorkspaceStore(str(tmp_path))
    store.create(Session(id="001-plan-birds", title="Birds", status="paused"))
    store.append(
        "001-plan-birds",
        Message(role="user", content="How many herons are at the pond?"),
        Message(role="assistant", content="Let me see."),
        Message(role="user", content="Are the herons at the pond young?"),
    )
    answer = call(
        Context(str(tmp_path), lambda: None), "get_context", {"topic": "herons at the pond", "max_results": 2}
    )
    (found,) = answer.data["results"]
    assert [part["seq"] for part in found["passages"]] == [0, 2]
    assert json.dumps(found).count("Let me see.") == 1


@pytest.mark.req("FIND-08")
def test_a_search_returns_as_many_messages_per_session_as_asked_for(herons: Context) -> None:
    answer = call(herons, "search_sessions", {"query": "young herons", "top_k": 2, "messages_per_session": 10})
    assert [len(one["passages"]) for one in answer.data["results"]] == [10, 10]
    three = call(herons, "search_sessions", {"query": "young herons", "top_k": 2, "messages_per_session": 3})
    assert [len(one["passages"]) for one in three.data["results"]] == [3, 3]


@pytest.mark.req("FIND-08")
@pytest.mark.parametrize("tool", ["search_workspace", "search_sessions"])
def test_short_messages_fill_a_search_too(herons: Context, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    monkeypatch.setenv("CORTEXT_MCP_TOKENS", "3000")
    answer = call(herons, tool, {"query": "young herons"})
    sent = tokens.estimate(json.dumps(answer.data, separators=(",", ":")))
    assert 2_600 < max(sent, tokens.estimate(answer.text)) <= 3_000


@pytest.mark.req("FIND-08")
def test_a_message_without_text_is_no_passage(tmp_path: Path) -> None:
    (tmp_path / ".workspace").mkdir()
    store = WorkspaceStore(str(tmp_path))
    store.create(Session(id="001-plan-birds", title="Birds", status="paused"))
    store.append(
        "001-plan-birds",
        Message(role="user", content="How many herons are at the pond?"),
        Message(role="assistant", parts=[Part("thinking", text="")]),
        Message(role="assistant", content="There are seven herons at the pond."),
    )
    context = Context(str(tmp_path), lambda: None)
    for tool, named in (("get_context", "topic"), ("search_sessions", "query")):
        (found,) = call(context, tool, {named: "herons at the pond"}).data["results"]
        assert [part["seq"] for part in found["passages"]] == [0, 2], tool
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = call(context, "get_context", {"topic": "herons at the pond", "max_results": 1, "cursor": cursor})
        seen += [part["seq"] for one in answer.data["results"] for part in one["passages"]]
        cursor = answer.data["next_cursor"]
    assert sorted(seen) == [0, 2]


@pytest.mark.req("FIND-08")
@pytest.mark.parametrize("tool", ["search_workspace", "search_sessions"])
def test_a_search_is_filled_to_its_budget_with_the_best_of_every_session_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    (tmp_path / ".workspace").mkdir()
    store = WorkspaceStore(str(tmp_path))
    for number in range(5):
        name = f"00{number}-plan-birds"
        store.create(Session(id=name, title=f"Birds {number}", status="paused"))
        for turn in range(3):
            text = f"Herons at pond {number}, morning {turn}: {'they wade and wait and fish. ' * 40}"
            store.append(name, Message(role="user", content=text), Message(role="assistant", content="Noted."))
    monkeypatch.setenv("CORTEXT_MCP_TOKENS", "3000")
    answer = call(Context(str(tmp_path), lambda: None), tool, {"query": "herons at the pond"})
    sent = tokens.estimate(json.dumps(answer.data, separators=(",", ":")))
    assert 2_400 < max(sent, tokens.estimate(answer.text)) <= 3_000
    assert len(answer.data["results"]) == 5 and answer.data["next_cursor"] is None
    lengths = [len(part["text"]) for one in answer.data["results"] for part in one["passages"]]
    assert len(lengths) > 5 and max(lengths) > 1_000, "whole passages, not snippets"
    monkeypatch.setenv("CORTEXT_MCP_TOKENS", "1000")
    small = Context(str(tmp_path), lambda: None)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = call(small, tool, {"query": "herons at the pond", "cursor": cursor})
        seen += [one["session"]["id"] for one in answer.data["results"]]
        cursor = answer.data["next_cursor"]
    assert len(seen) == len(set(seen)) == 5, "what does not fit is on the next page"
