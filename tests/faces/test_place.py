"""Every list, search and page says where git has a conversation that left the work tree, in the same words."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cortext.faces.cortext.browse import drawing
from cortext.model.query import Query
from cortext.services.library.typed_search import TypedAnswer, TypedSearch
from cortext.wiring.stores import Stores
from tests.faces.pond import Pond, served
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext, git
from tests.web.served import serving

PLACE = "on branch feature"
ASKED = ["for-each-ref --format=%(refname)", "cat-file --batch-check"]

pytestmark = pytest.mark.req("STORE-03", "FIND-01")


def _held(folder: Path, topic: str) -> ClaudeTalk:
    talk = ClaudeTalk(folder)
    talk.prompt(f"/workspace.brainstorm {topic}")
    talk.answer("Which ones?")
    talk.say("Where do the kingfishers nest?", f"In the north bank, with the {topic}.")
    assert cortext("stop", cwd=folder).code == 0
    return talk


@pytest.fixture
def pond(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pond:
    """A workspace on main; two conversations were held on the branch feature, and one on main."""
    folder = committed_workspace(tmp_path / "pond", monkeypatch)
    git(folder, "branch", "-M", "main")
    _held(folder, "gulls")
    git(folder, "checkout", "-qb", "feature")
    _held(folder, "waders")
    _held(folder, "ducks")
    git(folder, "checkout", "-q", "main")
    return Pond(home, folder)


def _id(pond: Pond, topic: str) -> str:
    (found,) = [row["id"] for row in cortext("list", "--json", cwd=pond.folder).json if topic in row["id"]]
    return str(found)


def test_every_command_says_where_git_has_a_conversation_that_left(pond: Pond) -> None:
    waders, gulls = _id(pond, "waders"), _id(pond, "gulls")
    screen = {"COLUMNS": "130"}
    for words, count, env in (
        (("show", waders), 1, None),
        (("show", "--json", waders), 1, None),
        (("show", gulls), 0, None),
        (("list", "--json"), 2, None),
        (("list",), 2, screen),
        (("list", "--columns", "id,place"), 2, None),
        (("search", "kingfishers"), 2, None),
        (("search", "--json", "ducks"), 2, None),
        (("resume",), 2, None),
        (("resume", "--list"), 2, screen),
        (("resume", "--json"), 2, None),
        (("resume", "--in-tool"), 2, None),
        (("export", "--format", "json", waders), 1, None),
    ):
        done = cortext(*words, cwd=pond.folder, env=env)
        assert done.code == 0 and done.out.count(PLACE) == count, (words, done)


def test_the_browser_says_where_git_has_a_conversation_that_left(pond: Pond) -> None:
    stores = Stores(str(pond.folder))
    finder = TypedSearch(stores.listing, stores.search, None, lambda: None)

    def shown(found: TypedAnswer) -> list[tuple[bool, bool, bool]]:
        def has_place(lines: list[drawing.Line]) -> bool:
            return PLACE in "".join(text for line in lines for _, text in line)

        return sorted(
            (
                "gulls" in entry.session.id,
                has_place(drawing.entry_lines(entry, 80, chosen=False, wide=True)),
                has_place(drawing.preview_head(entry.session, 120)),
            )
            for entry in found.answer.hits
        )

    wanted = [(False, True, True), (False, True, True), (True, False, False)]
    assert shown(finder.find(Query())) == wanted
    assert shown(finder.find(Query("kingfishers"))) == wanted


def test_an_agent_is_told_where_git_has_a_conversation_that_left(pond: Pond) -> None:
    waders = _id(pond, "waders")
    with served(pond) as client:
        listed = client("list_sessions")
        assert listed.text.count(PLACE) == 2
        assert sorted(row.get("place", "") for row in listed.data["sessions"]) == ["", PLACE, PLACE]
        read = client("get_session", id=waders)
        assert PLACE in read.text and read.data["session"]["place"] == PLACE
        for tool in ("search_sessions", "search_workspace"):
            found = client(tool, query="kingfishers")
            assert found.text.count(PLACE) == 2, tool
            assert sorted(row["session"].get("place", "") for row in found.data["results"]) == ["", PLACE, PLACE]
        choices = client("resume_session")
        assert sorted(row.get("place", "") for row in choices.data["sessions"]) == ["", PLACE, PLACE]
        schema = {tool.name: tool for tool in client.do(client.session.list_tools).tools}["get_session"].output_schema
        assert "place" in schema["properties"]["session"]["properties"]


def test_the_page_says_where_git_has_a_conversation_that_left(pond: Pond) -> None:
    with serving(pond.env, pond.folder) as page:
        assert page.open().status == 200
        assert page.get("/").words.count(PLACE) == 2
        assert page.until("/?q=kingfishers", lambda reply: "best first" in reply.words).words.count(PLACE) == 2
        links = {title: page.link(title) for title in ("waders", "gulls")}
        assert page.get(links["waders"]).words.count(PLACE) == 1
        assert PLACE not in page.get(links["gulls"]).words


def test_git_is_asked_once_for_an_answer_and_never_if_nothing_left(pond: Pond, tmp_path: Path) -> None:
    log, folder = tmp_path / "asked", tmp_path / "bin"
    folder.mkdir()
    wrapped = folder / "git"
    wrapped.write_text(f'#!/bin/sh\nshift 2\necho "$@" >>{log}\nexec {shutil.which("git")} "$@"\n', encoding="utf-8")
    wrapped.chmod(0o755)
    env = {"PATH": f"{folder}:{pond.env['PATH']}", "COLUMNS": "130"}
    waders = _id(pond, "waders")
    lines = (("list",), ("list", "--json"), ("search", "kingfishers"), ("show", waders), ("resume", "--list"))
    for words in lines:
        log.write_text("", encoding="utf-8")
        assert PLACE in cortext(*words, cwd=pond.folder, env=env).out
        assert log.read_text(encoding="utf-8").splitlines() == ASKED, words
    git(pond.folder, "merge", "-q", "feature")
    _id(pond, "waders")
    log.unlink()
    for words in lines:
        assert PLACE not in cortext(*words, cwd=pond.folder, env=env).out
    assert not log.exists()
