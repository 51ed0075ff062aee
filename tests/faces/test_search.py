"""`cortext search`, `similar`, `index` and the filters of `list`, for people and scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortext.faces.cortext.commands.search import highlighted
from cortext.faces.terminal.table import width
from cortext.model.message import Message
from cortext.model.session import Change, Origin, Session
from cortext.services.library.sources import Match
from cortext.wiring.stores import Stores
from tests.index.world import World
from tests.support.cli import cortext

SESSION = [
    "id", "type", "title", "status", "tool", "agent", "workspace", "created_at", "last_active", "message_count",
    "token_count", "summary", "path", "project", "repository", "tags", "starred", "archived",
]  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.store.create(
        Session(id="one", type="plan", title="Retry budget", origin=Origin(tool="claude", session_id="x"))
    )
    made.store.append(
        "one",
        Message(role="user", content="How often do we retry?", timestamp="2025-03-01T10:00:00Z"),
        Message(
            role="assistant",
            content="Three tries, then \x1b[31ma clear\x1b[0m error.",
            timestamp="2025-03-01T10:01:00Z",
        ),
    )
    made.store.create(Session(id="two", type="debug", title="Another", agent="qa"))
    made.store.append("two", Message(role="user", content="The retry loop never ends"))
    made.store.update("two", Change(status="paused"))
    return made


@pytest.mark.req("FIND-01", "FIND-02", "SAFE-01")
def test_search_prints_sessions_with_highlighted_messages(world: World) -> None:
    done = cortext("search", "three", "tries", cwd=world.root)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "1. Retry budget"
    assert lines[1].startswith("   one · plan · claude · active · ")
    assert lines[2] == "   assistant #1  Three tries, then ␛[31ma clear␛[0m error."
    assert "cortext resume ID" in done.err
    coloured = cortext("search", "three", "tries", cwd=world.root, env={"FORCE_COLOR": "1"}).out
    assert "\x1b[1;33mThree\x1b[0m \x1b[1;33mtries\x1b[0m" in coloured
    assert "␛[31ma clear" in coloured  # escape codes in a message are shown, not executed


@pytest.mark.req("TRUE-05")
def test_a_search_beside_another_indexing_process_says_so_in_every_face(world: World, home: Path) -> None:
    from cortext.faces.mcp.context import Context
    from cortext.faces.mcp.tools import call
    from cortext.model.query import Query
    from cortext.services.library.sources import incomplete_line
    from cortext.services.library.typed_search import TypedSearch

    sentence = incomplete_line((), is_current=False)
    stores = Stores(str(world.root))
    finder = TypedSearch(stores.listing, stores.search, None, lambda: None)
    context = Context(str(world.root), lambda: None)
    assert finder.find(Query("retry")).answer.incomplete == ""
    assert sentence not in call(context, "search_sessions", {"query": "retry"}).text

    holder = stores.search()._engine._lock(0.0)
    assert holder is not None
    with holder:
        world.store.append("one", Message(role="user", content="A cassowary"))
        finder.expire()
        assert finder.find(Query("retry")).answer.incomplete == sentence
        answer = call(context, "search_sessions", {"query": "retry"})
        assert answer.text.startswith(sentence) and answer.data["incomplete"] == sentence
        assert sentence in cortext("search", "retry", cwd=world.root).err

    finder.expire()
    assert finder.find(Query("retry")).answer.incomplete == ""
    assert "incomplete" not in call(context, "search_sessions", {"query": "cassowary"}).data


@pytest.mark.req("FIND-01")
def test_search_json_has_the_documented_fields(world: World) -> None:
    hits = cortext("search", "retry", "--exact", "--json", cwd=world.root).json
    assert {hit["session"]["id"] for hit in hits} == {"one", "two"}
    for hit in hits:
        assert list(hit) == ["session", "message", "score", "why", "nearest", "absent"]
        assert "words" in hit["why"]
        assert list(hit["session"]) == SESSION
        assert list(hit["message"]) == ["id", "seq", "role", "timestamp", "snippet"]
    only = cortext("search", "retry", "tool:claude", "--messages", "--limit", "1", "--json", cwd=world.root).json
    assert [hit["session"]["id"] for hit in only] == ["one"]
    assert cortext("search", "walrus", "--exact", "--json", cwd=world.root).json == []


@pytest.mark.req("FIND-01", "LOOK-01")
def test_search_options_filter_and_exclude(world: World) -> None:
    def ids(*words: str) -> list[str]:
        return [hit["session"]["id"] for hit in cortext("search", *words, "--exact", "--json", cwd=world.root).json]

    assert ids("retry", "--type", "debug", "--agent", "qa", "--status", "paused", "--after", "1d") == ["two"]
    assert ids("retry", "--before", "2025-04") == ["one"]
    assert ids("retry", "-loop") == ["one"]
    assert ids("retry", "--workspace", "project", "--role", "user", "--tool", "claude") == ["one"]
    wrong = cortext("search", "retry", "--after", "someday", cwd=world.root)
    assert (wrong.code, "invalid --after value" in wrong.err) == (2, True)
    unknown = cortext("search", "retry", "--colour", cwd=world.root)
    assert (unknown.code, "--colour" in unknown.err) == (2, True)
    nothing = cortext("search", "walrus", "--exact", cwd=world.root)
    assert (nothing.code, nothing.out) == (1, 'Nothing was found. "walrus" occurs nowhere.\n')
    nothing = cortext("search", "retry", "role:usr", "--tool", "claude", cwd=world.root)
    assert (nothing.code, nothing.out) == (1, "Nothing was found with role:usr tool:claude.\n")


@pytest.mark.req("FIND-01")
def test_list_filters_and_orders(world: World) -> None:
    def ids(*words: str) -> list[str]:
        return [row["id"] for row in cortext("list", *words, "--json", cwd=world.root).json]

    rows = cortext("list", "--json", cwd=world.root).json
    assert [list(row) for row in rows] == [SESSION, SESSION]
    assert ids("--tool", "claude", "--workspace", str(world.root), "--type", "plan") == ["one"]
    assert ids("--workspace", "project", "--after", "1d") == ["two", "one"]
    assert ids("--workspace", "elsewhere") == ids("--after", "2020", "--before", "2021") == []
    assert ids("--sort", "title", "--limit", "1") == ["two"]
    assert ids("--sort", "messages") == ["one", "two"]
    assert cortext("list", "--before", "soon", cwd=world.root).code == 2


@pytest.mark.req("FIND-02")
def test_similar_finds_sessions_about_the_same_subject(world: World) -> None:
    assert cortext("similar", "one", "--json", cwd=world.root).json[0]["session"]["id"] == "two"
    assert cortext("similar", "nobody", cwd=world.root).code == 1
    log = next(world.root.glob("**/two/.session/messages.jsonl"))
    log.write_bytes(b"not a line\n" + log.read_bytes())
    assert cortext("list", cwd=world.root).code == 0
    assert "1 session is damaged, so messages may be missing" in cortext("similar", "one", cwd=world.root).err


@pytest.mark.req("STORE-01", "LOOK-02")
def test_the_index_can_be_inspected_rebuilt_and_deleted(world: World) -> None:
    cortext("search", "retry", cwd=world.root)
    status = cortext("index", "status", "--json", cwd=world.root).json
    assert (status["sessions"], status["messages"], status["embedded"], status["behind"]) == (2, 3, 3, False)
    assert status["model"].startswith("built-in/")
    before = cortext("search", "retry", "--json", cwd=world.root).out
    assert "3 messages of 2 sessions" in cortext("index", "rebuild", cwd=world.root).out
    assert cortext("index", "clear", cwd=world.root).code == 0
    assert cortext("index", "--json", cwd=world.root).json["messages"] == 0
    assert cortext("search", "retry", "--json", cwd=world.root).out == before
    for path in (Path(os.environ["HOME"]) / ".cache" / "cortext").rglob("*"):
        if path.is_file() and "keywords" not in path.parts:
            assert path.stat().st_mode & 0o077 == 0, path
        if path.is_dir():
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.req("FIND-02")
@pytest.mark.parametrize("columns", [0, 20, 40, 90])
def test_a_snippet_wraps_at_spaces_and_loses_nothing(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns) if columns else "")
    monkeypatch.setenv("NO_COLOR", "1")
    text = "a heron stands still in the shallow water until 魚 comes by, and then it is very quick indeed " * 3
    match = Match("m", 1, "user", "", text.strip(), [(2, 7), (30, 45)], 1.0, "", "")
    shown = highlighted(match, 14)
    assert shown.split() == text.split()
    lines = shown.split("\n")
    assert (len(lines) == 1) == (columns == 0)
    assert all(line.startswith("      ") for line in lines[1:])
    if columns >= 40:
        assert all(width(line) <= columns for line in lines[1:])


@pytest.mark.req("FIND-02")
@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_lines_of_a_hit_wrap_between_words(world: World, columns: int) -> None:
    name = "claude-0a1b2c3d-4e5f-6789-abcd-ef0123456789"
    title = "A heron, two storks and forty geese at the pond behind the old mill, counted in spring"
    world.store.create(Session(id=name, title=title))
    world.store.append(name, Message(role="user", content="Seventeen herons."))
    done = cortext("search", "seventeen", cwd=world.root, env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    lines = done.out.splitlines()
    assert all(len(line) <= columns for line in lines), done.out
    assert any(name in line for line in lines), "complete, so that it can be copied"
    assert title in " ".join(done.out.split())


@pytest.mark.req("FIND-02")
def test_missing_words_are_reported_before_results_by_meaning(world: World) -> None:
    world.store.create(Session(id="three", title="Pets"))
    world.store.append(
        "three",
        Message(role="user", content="My dog barks at the cat all night."),
        Message(role="assistant", content="0x7fzq qqz zzq ##42 === zz99"),
    )
    near = cortext("search", "puppy", "kitten", cwd=world.root)
    assert near.code == 0
    assert near.out.startswith('"puppy", "kitten" occur nowhere. The nearest:\n1. Pets\n')
    (hit, *_) = cortext("search", "puppy", "kitten", "--json", cwd=world.root).json
    assert (hit["session"]["id"], hit["why"], hit["nearest"]) == ("three", ["meaning"], True)
    (hit, *_) = cortext("search", "barks", "puppy", "--json", cwd=world.root).json
    assert (hit["session"]["id"], hit["nearest"]) == ("three", False)
    assert cortext("search", "barks", "puppy", cwd=world.root).out.startswith('"puppy" occurs nowhere.\n1. Pets\n')
    little = cortext("search", "volcano", "eruption", "tectonics", "night", cwd=world.root)
    said = '"volcano", "eruption", "tectonics" occur nowhere. The nearest:\n'
    assert little.out.startswith(said), "one word of it is there"
    for words in (["zzzzqqq"], ["the", "zzzzqqq"], ["blargh", "xyzzy"]):
        nothing = cortext("search", *words, cwd=world.root)
        absent = [f'"{word}"' for word in words if word != "the"]
        verb = "occurs" if len(absent) == 1 else "occur"
        assert (nothing.code, nothing.out) == (1, f"Nothing was found. {', '.join(absent)} {verb} nowhere.\n")
    assert cortext("search", "barking", "dogs", cwd=world.root).out.startswith("1. Pets\n")


@pytest.mark.req("FIND-11")
def test_what_occurs_nowhere_is_said_first(world: World) -> None:
    done = cortext("search", "retryBudgetPolicy", cwd=world.root)
    assert done.code == 0
    assert done.out.splitlines()[0] == '"retryBudgetPolicy" occurs nowhere. The nearest:'
    done = cortext("search", "three tries zookeeper", cwd=world.root)
    assert done.out.splitlines()[:2] == ['"zookeeper" occurs nowhere.', "1. Retry budget"]
    done = cortext("search", "opne retry", cwd=world.root)
    assert done.out.splitlines()[0] == '"opne" occurs nowhere.'
    done = cortext("search", '"a loop that ends"', cwd=world.root)
    assert done.code == 0 and done.out.splitlines()[0] == '"a loop that ends" occurs nowhere. The nearest:'
    done = cortext("search", '"a loop that ends"', "--exact", cwd=world.root)
    assert done.code == 1 and done.out == 'Nothing was found. "a loop that ends" occurs nowhere.\n'
    hits = cortext("search", "three tries zookeeper", "--json", cwd=world.root).json
    assert hits[0]["absent"] == ["zookeeper"] and hits[0]["nearest"] is False
    assert cortext("search", "three tries", "--json", cwd=world.root).json[0]["absent"] == []
