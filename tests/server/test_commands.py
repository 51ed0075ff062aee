"""Every command works with a server once the setting `store` names one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortext.config.load import server_address
from cortext.errors import ConfigError, StoreUnreachable
from cortext.faces.cortext.commands import _listing, completion, figures, list_, marks
from cortext.faces.mcp import tools
from cortext.faces.mcp.context import Context
from cortext.model.message import Message, Part
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.server import connection
from cortext.server import search as postgres_search
from cortext.server.store import PostgresStore
from cortext.services.doctor import examine
from cortext.services.events.hooks import Hook
from cortext.services.library.typed_search import TypedSearch
from cortext.store.files.chat import ChatStore
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.base import HookEvent
from cortext.wiring import tools as wired
from cortext.wiring.stores import Stores
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import Ran, committed_workspace, cortext
from tests.support.postgres import PASSWORD, shared


def _ask_once(home: Path) -> None:
    """Let commands not wait for a server that does not answer."""
    settings = home / ".config" / "cortext" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[store]\npatience_seconds = 0\n", encoding="utf-8")


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a database that only this test uses, as the setting `store`."""
    address = shared().database()
    monkeypatch.setenv("CORTEXT_STORE", address)
    return address


def ran(*arguments: str, code: int = 0) -> Ran:
    done = cortext(*arguments)
    assert done.code == code, done.err
    assert PASSWORD not in done.out + done.err
    return done


@pytest.mark.req("STORE-14")
def test_one_setting_selects_the_server(home: Path) -> None:
    address = shared().database()
    folder = home / ".config" / "cortext"
    folder.mkdir(parents=True)
    for text in (f'store = "{address}"\n', f'[store]\nurl = "{address}"\nlock_timeout = 2\n'):
        (folder / "config.toml").write_text(text, encoding="utf-8")
        assert "tables of version" in ran("store", "status").out
    (folder / "config.toml").write_text('store = "files"\n', encoding="utf-8")
    assert "PostgreSQL" not in ran("store", "status").out


@pytest.mark.req("SAFE-04", "STORE-14")
def test_a_repository_cannot_send_sessions_to_a_server(tmp_path: Path) -> None:
    (tmp_path / ".workspace").mkdir()
    for text in ('store = "postgresql://evil/x"\n', '[store]\nurl = "postgresql://evil/x"\n'):
        (tmp_path / ".workspace" / "config.toml").write_text(text, encoding="utf-8")
        settings = Stores(str(tmp_path)).settings
        assert server_address(settings) == "" and "store.url" in settings.ignored


def test_an_invalid_store_setting_is_refused_without_echoing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEXT_STORE", f"mysql://me:{PASSWORD}@db/x")
    with pytest.raises(ConfigError) as caught:
        Stores().locations()
    assert PASSWORD not in caught.value.message + caught.value.hint


@pytest.mark.req("STORE-14")
def test_every_command_works_on_sessions_copied_to_a_server_and_back(url: str, home: Path) -> None:
    files = ChatStore(str(home / ".local" / "share" / "alfred" / "sessions"))
    files.create(Session(id="sess_tea", title="About tea"))
    files.append("sess_tea", Message(role="user", content="the unmistakable taste of lapsang"))
    assert "copy them with `cortext store copy files server`" in ran("store", "status").out
    assert "1 session " in ran("store", "copy", "files", "server").out
    assert "0 messages copied, 1 already there" in ran("store", "copy", "files", "server").out
    rows = ran("list", "--json").json
    assert [(row["id"], row["message_count"]) for row in rows] == [("sess_tea", 1)]
    assert rows[0]["workspace"].endswith("#chat") and rows[0]["path"].endswith("#chat/sess_tea")
    assert "lapsang" in ran("show", "sess_tea").out
    assert "sess_tea" in ran("search", "unmistakable lapsang").out
    ran("title", "sess_tea", "All about tea")
    assert "All about tea" in ran("list").out
    assert "No problems found" in ran("doctor").out
    ran("delete", "sess_tea")
    assert "sess_tea" not in ran("list").out
    key = next(iter(PostgresStore(url, "chat").trash())).key
    assert "sess_tea" in ran("restore", key).out
    assert "sess_tea" in ran("list").out
    back = home / "back"
    back.mkdir()
    ran("store", "copy", "alfred", f"chat:{back}")
    assert [message.content for message in ChatStore(str(back)).read("sess_tea")] == [
        "the unmistakable taste of lapsang"
    ]


@pytest.mark.req("STORE-14")
def test_doctor_reports_damage_on_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore(url, "home")
    store.create(Session(id="talk"))
    store.append("talk", Message(role="user", content="hi"))
    store.close()
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE cortext.sessions SET message_count = 7")
    assert "cortext repair talk" in ran("doctor", code=3).out
    ran("repair", "talk")
    assert "No problems found" in ran("doctor").out
    # What was counted before is counted again only if it was active since; --full reads everything.
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE cortext.sessions SET last_active = '2020-01-01', last_hour = '2020-01-01T00'")
        connection.execute("UPDATE cortext.messages SET more = '[]'")
    assert "counted what was active since" in ran("doctor").out
    assert "cortext repair talk" in ran("doctor", "--full", code=3).out
    ran("repair", "talk")
    assert "No problems found" in ran("doctor", "--full").out
    monkeypatch.setenv("CORTEXT_STORE", f"postgresql://cortext:{PASSWORD}@127.0.0.1:1/x")
    done = ran("doctor", code=9)
    assert "unreachable  no answer from" in done.out and "damage" not in done.out.replace("is damaged", "")
    assert done.out.count("not known") == 4 and "0 sessions" not in done.out and "counted" not in done.out
    assert "no answer from postgresql://cortext@127.0.0.1:1/x" in ran("list", code=9).err


@pytest.mark.req("TEAM-04")
def test_doctor_asks_a_server_that_does_not_answer_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stores, asked = Stores(), 0

    def unanswered(store: PostgresStore) -> None:
        nonlocal asked
        asked += 1
        raise StoreUnreachable("no answer from db.example")

    monkeypatch.setattr(PostgresStore, "server", unanswered)
    away: dict[str, StoreUnreachable] = {}
    reports = [examine(named_store, away=away) for named_store in stores.all()]
    assert [finding.level for report in reports for finding in report.findings] == ["unreachable"] * 4
    assert asked == 1


@pytest.mark.req("TEAM-04")
def test_a_list_and_a_search_without_the_server_show_the_rest_and_say_so(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ask_once(home)
    folder = committed_workspace(tmp_path / "work", monkeypatch)
    assert cortext("new", "plan", "Herons", cwd=folder).code == 0
    WorkspaceStore(str(folder)).append("001-plan-herons", Message(role="user", content="herons at dawn"))
    monkeypatch.setenv("CORTEXT_STORE", f"postgresql://cortext:{PASSWORD}@127.0.0.1:1/x")
    for words in (("list",), ("list", "--json"), ("search", "herons dawn")):
        done = cortext(*words, cwd=folder)
        assert done.code == 9 and "001-plan-herons" in done.out, done
        assert done.err.count("Sessions are missing: no answer from postgresql://cortext@127.0.0.1:1/x") == 1
    reads: list[tuple[tuple[str, ...], str]] = [
        (("cost",), "No tokens are recorded"),
        (("stats",), "1 session, 1 message"),
        (("stats", "--json"), '"sessions": 1'),
        (("tag",), ""),
        ((), "1 conversation in all"),
        (("resume", "--list"), "001-plan-herons"),
        (("resume", "--list", "--json"), "001-plan-herons"),
    ]
    for command, shown in reads:
        done = cortext(*command, cwd=folder)
        assert done.code == 9 and shown in done.out and done.err.count("Sessions are missing") == 1, done
        assert "yet" not in done.out or "recorded yet" in done.out, "nobody knows what is on the server"
    completed = cortext("complete-words", "show", "", cwd=folder)
    assert (completed.code, completed.out, completed.err) == (0, "001-plan-herons\n", "")
    context = Context(str(folder), lambda: None)
    calls: list[tuple[str, dict[str, object]]] = [("list_sessions", {}), ("search_sessions", {"query": "herons dawn"})]
    for tool, arguments in [*calls, *calls]:
        text, data, *_ = tools.call(context, tool, arguments)
        assert "001-plan-herons" in text and "Sessions are missing: no answer from" in text and data["missing"], tool
    assert "herons at dawn" in tools.call(context, "get_session", {"id": "001-plan-herons"}).text
    with pytest.raises(StoreUnreachable):
        tools.call(context, "get_session", {"id": "001-plan"})
    stores = Stores(str(folder))
    finder = TypedSearch(stores.listing, stores.search, None, lambda: None)
    for query in (Query(), Query("herons dawn"), Query(filters={"project": str(folder)})):
        found = finder.find(query)
        assert [hit.session.id for hit in found.answer.hits] == ["001-plan-herons"], query
        assert "no answer from" in found.answer.incomplete
    assert cortext("list", "--project", str(folder), cwd=folder).code == 9
    refused = cortext("show", "nothing-like-it", cwd=folder)
    assert refused.code == 9, "a name is not resolved among half of the sessions"


@pytest.mark.req("TEAM-04")
def test_what_is_on_this_machine_can_be_used_without_the_server(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ask_once(home)
    folder = committed_workspace(tmp_path / "work", monkeypatch)
    (folder / "pond.py").write_text("depth = 1\n", encoding="utf-8")
    for title in ("Herons", "Otters"):
        assert cortext("new", "plan", title, cwd=folder).code == 0
    store = WorkspaceStore(str(folder))
    store.append("001-plan-herons", Message(role="user", content="herons at dawn"))
    call = Part(type="tool_call", name="Read", id="1", input={"file_path": str(folder / "pond.py")})
    store.append("001-plan-herons", Message(role="assistant", parts=[call]))
    monkeypatch.setenv("CORTEXT_STORE", f"postgresql://cortext:{PASSWORD}@127.0.0.1:1/x")

    for words in ("show", "export", "title", "note"):  # a whole id means one session
        done = cortext(words, "001-plan-herons", cwd=folder)
        assert done.code == 0, done
        assert cortext(words, "001-plan", cwd=folder).code == 9, "a shorter name may be of a session on the server"
    assert cortext("sweep", "--minutes", "0", cwd=folder).out.count("was saved and paused") == 2
    assert cortext("delete", "002-plan-otters", cwd=folder).code == 0
    trash = cortext("restore", cwd=folder)
    assert trash.code == 9 and "002-plan-otters" in trash.out and trash.err.count("Sessions are missing") == 1
    assert cortext("restore", "002", cwd=folder).code == 9 and cortext("restore", "nothing", cwd=folder).code == 9
    assert cortext("restore", "002-plan-otters", cwd=folder).code == 0
    empty = cortext("restore", cwd=folder)
    assert empty.code == 9 and "empty" not in empty.out
    for words, found in (("touched", "001-plan-herons"), ("why", "as far as is known")):
        done = cortext(words, "pond.py", cwd=folder)
        assert done.code == 9 and done.err.count("Sessions are missing") == 1, done
        assert found in done.out, done
    event = HookEvent(kind="prompt", key="chat", command="workspace.related", arguments="herons at dawn")
    related = Hook(Stores(str(folder)), wired.hooks("gemini"), event).run()
    assert "Sessions are missing: no answer from" in related and "001-plan-herons" in related


@pytest.mark.req("TEAM-04", "FLOW-01")
def test_resuming_without_the_server_lists_the_rest_and_says_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ask_once(home)
    folder = committed_workspace(tmp_path / "work", monkeypatch)
    monkeypatch.setenv("CORTEXT_STORE", f"postgresql://cortext:{PASSWORD}@127.0.0.1:1/x")
    gone = "Sessions are missing: no answer from postgresql://cortext@127.0.0.1:1/x"

    def in_chat(words: str = "") -> str:
        event = HookEvent(kind="prompt", key="chat", command="workspace.resume", arguments=words)
        return Hook(Stores(str(folder)), wired.hooks("gemini"), event).run()

    talk = ClaudeTalk(folder)
    for text in (talk.resume(), cortext("resume", "--in-tool", cwd=folder).out, in_chat()):
        assert gone in text and "yet" not in text, "nobody knows what is on the server"
    assert cortext("new", "plan", "Herons", cwd=folder).code == 0
    WorkspaceStore(str(folder)).append("001-plan-herons", Message(role="user", content="herons at dawn"))
    for text in (talk.resume(), cortext("resume", "--in-tool", cwd=folder).out, in_chat()):
        assert text.count(gone) == 1 and "1. [plan] Herons" in text, text
    # The chat itself is kept on the server: it is not attached to anything before its own words are kept.
    for text in (talk.resume("1"), in_chat("herons"), cortext("resume", "--in-tool", "herons", cwd=folder).out):
        assert "could not resume" in text and "no answer from" in text and "attached" not in text, text
    assert WorkspaceStore(str(folder)).get("001-plan-herons").origin.tool == ""

    context = Context(str(folder), lambda: None)
    listed, data, *_ = tools.call(context, "resume_session", {})
    assert gone in listed and "001-plan-herons" in listed and data["missing"]
    for name in ("herons", "nothing-like-it"):
        with pytest.raises(StoreUnreachable):
            tools.call(context, "resume_session", {"id": name})
    assert "herons at dawn" in str(tools.call(context, "resume_session", {"id": "001-plan-herons"}))
    # On the command line, a whole id and a row of the last list mean one session only.
    assert cortext("resume", "--list", cwd=folder).code == 9
    for words in ("001-plan-herons", "1"):
        assert "herons at dawn" in cortext("resume", words, "--print", cwd=folder).out, words
    assert cortext("resume", "herons", "--print", cwd=folder).code == 9


@pytest.mark.req("TEAM-04")
def test_a_list_is_bounded_if_there_is_a_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore(url, "home")
    for number in range(205):
        store.create(Session(id=f"s{number:03d}", last_active=f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}Z"))
    store.close()
    done = ran("list")
    assert "only the first 200 sessions are shown: use --all for all" in done.err
    assert "s204" in done.out and "s005" in done.out and "s004" not in done.out
    assert len(ran("list", "--limit", "0", "--json").json) == len(ran("list", "--all", "--json").json) == 205
    assert "only the first" not in ran("list", "--all").err
    for words in (("resume",), ("resume", "--list")):
        done = ran(*words)
        assert "only the first 200 sessions are shown: use --limit 0 for all" in done.err
        assert "s204" in done.out and "s005" in done.out and "s004" not in done.out
    assert len(ran("resume", "--list", "--json").json) == 200
    assert len(ran("resume", "--list", "--limit", "0", "--json").json) == 205
    assert "s000" in ran("resume", "s000", "--print").out, "a name is looked up among all of them"
    before = ran("list", "--limit", "1", "--before", "2026-01-01T00:01:30Z", "--json").json
    assert [row["id"] for row in before] == ["s089"], "the server itself selects by time"
    by_title = ran("list", "--sort", "title", "--limit", "2", "--json").json
    assert [row["id"] for row in by_title] == ["s000", "s001"]


@pytest.mark.req("TEAM-04")
def test_no_command_reads_many_sessions_of_a_server_in_one_statement(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = PostgresStore(url, "home")
    for number in range(120):
        moment = f"2026-01-01T{number % 24:02d}:00:00Z"
        store.create(Session(id=f"s{number:03d}", title=f"Title {999 - number}", last_active=moment))
    store.close()
    largest = 0
    query = connection.Connections.query

    def counted(self: connection.Connections, text: str, *values: object, breaks: int = 0) -> list[tuple[Any, ...]]:
        nonlocal largest
        rows = query(self, text, *values, breaks=breaks)
        largest = max(largest, len(rows))
        return rows

    monkeypatch.setattr(connection.Connections, "query", counted)
    monkeypatch.setattr(postgres_search, "_PAGE", 10)
    monkeypatch.setattr("cortext.faces.cortext.commands._listing.SERVED", 10)
    monkeypatch.setattr("cortext.faces.cortext.commands.completion.NEWEST", 10)
    for run, arguments, shown in (
        (figures.run_stats, [], "120 sessions"),
        (figures.run_cost, [], "No tokens are recorded"),
        (marks.run_tag, [], "No tags yet"),
        (list_.run, ["--project", "/nowhere"], "No session matches"),
        (list_.run, ["--sort", "title", "--limit", "2", "--columns", "id"], "s119\ns118\n"),
        (list_.run, ["--limit", "0", "--columns", "id"], "s119\ns095\n"),
        (completion.run_words, ["show", "s07"], "s071\n"),
    ):
        assert run(arguments) == 0
        assert shown in capsys.readouterr().out
        assert largest <= 54, (run, arguments)
    assert _listing.run_status([]) == 0 and "At least 10 conversations in all" in capsys.readouterr().out
    assert largest <= 70, "without the archive, a list asks for a little more than it shows"


@pytest.mark.req("TEAM-04")
def test_a_session_that_becomes_active_between_two_pages_is_not_missed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url, "home")
    for number in range(6):
        store.create(Session(id=f"s{number}", last_active=f"2026-01-01T0{number}:00:00Z"))
    monkeypatch.setattr(postgres_search, "_PAGE", 2)
    query = store.connections.query
    others = iter(["s0", "s5"])

    def interrupted(text: str, *values: object) -> list[tuple[Any, ...]]:
        rows = query(text, *values)
        if "last_hour, session_id" in text:
            for name in others:
                PostgresStore(url, "home").append(name, Message(role="user", content="now"))
                break
        return rows

    monkeypatch.setattr(store.connections, "query", interrupted)
    found = store.listed()
    assert sorted(session.id for session in found) == [f"s{number}" for number in range(6)]
    assert [session.id for session in found][:2] == ["s5", "s0"] and found[1].message_count == 1
    store.close()


@pytest.mark.parametrize(
    ("stores", "message"),
    [
        (("nowhere", "home"), "unknown store 'nowhere'"),
        (("home", "home"), "the same store"),
        (("files", "server"), "no server is configured"),
        (("chat:/nowhere/at/all", "home"), "there is no store at"),
    ],
)
def test_an_impossible_copy_is_explained(stores: tuple[str, str], message: str, home: Path) -> None:
    (home / ".local" / "share" / "cortext" / "home").mkdir(parents=True)
    done = cortext("store", "copy", *stores)
    assert done.code == 2 and message in done.err
