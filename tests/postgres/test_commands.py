"""Every command works with a server once the setting `store` names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.config.load import server_address
from cortext.errors import ConfigError, StoreUnreachable
from cortext.faces.mcp import tools
from cortext.faces.mcp.context import Context
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.library.finder import Finder, Question
from cortext.store.files.chat import ChatStore
from cortext.store.files.workspace import WorkspaceStore
from cortext.store.postgres.store import PostgresStore
from cortext.wiring.stores import Stores
from tests.support.cli import Ran, committed_workspace, cortext
from tests.support.postgres import PASSWORD, shared


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
    assert "no answer from postgresql://cortext@127.0.0.1:1/x" in ran("list", code=9).err


@pytest.mark.req("TEAM-04")
def test_a_list_and_a_search_without_the_server_show_the_rest_and_say_so(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = home / ".config" / "cortext" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[store]\npatience_seconds = 0\n", encoding="utf-8")
    folder = committed_workspace(tmp_path / "work", monkeypatch)
    assert cortext("new", "plan", "Herons", cwd=folder).code == 0
    WorkspaceStore(str(folder)).append("001-plan-herons", Message(role="user", content="herons at dawn"))
    monkeypatch.setenv("CORTEXT_STORE", f"postgresql://cortext:{PASSWORD}@127.0.0.1:1/x")
    for words in (("list",), ("list", "--json"), ("search", "herons dawn")):
        done = cortext(*words, cwd=folder)
        assert done.code == 9 and "001-plan-herons" in done.out, done
        assert done.err.count("sessions are missing: no answer from postgresql://cortext@127.0.0.1:1/x") == 1
    cost = cortext("cost", cwd=folder)
    assert cost.code == 9 and "sessions are missing" in cost.err and "No tokens are recorded" in cost.out, cost
    context = Context(str(folder), lambda: None)
    calls: list[tuple[str, dict[str, object]]] = [("list_sessions", {}), ("search_sessions", {"query": "herons dawn"})]
    for tool, arguments in [*calls, *calls]:
        text, data, _ = tools.call(context, tool, arguments)
        assert "001-plan-herons" in text and "Sessions are missing: no answer from" in text and data["missing"], tool
    assert "herons at dawn" in tools.call(context, "get_session", {"id": "001-plan-herons"}).text
    with pytest.raises(StoreUnreachable):
        tools.call(context, "get_session", {"id": "001-plan"})
    stores = Stores(str(folder))
    finder = Finder(stores.listing, stores.search, None, lambda: None)
    for question in (Question(), Question("herons dawn"), Question(project=str(folder))):
        found = finder.find(question)
        assert [entry.row.id for entry in found.entries] == ["001-plan-herons"], question
        assert "no answer from" in found.missing
    assert cortext("list", "--project", str(folder), cwd=folder).code == 9
    refused = cortext("show", "nothing-like-it", cwd=folder)
    assert refused.code == 9, "a name is not resolved among half of the sessions"


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
    before = ran("list", "--limit", "1", "--before", "2026-01-01T00:01:30Z", "--json").json
    assert [row["id"] for row in before] == ["s089"], "the server itself selects by time"


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
