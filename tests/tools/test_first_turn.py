"""The check after the first turn of a resume, with sessions that the real programs shortened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Reply
from tests.support.screen import Screen
from tests.tools.codex.test_real import ask
from tests.tools.test_resume_flows import OPENCODE_MODEL, opencode_server

from cortext.services.library.stores import StoredConversation
from cortext.services.resume.handover import carry_out
from cortext.services.resume.planning import NEW, OWN, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores

pytestmark = pytest.mark.real_tool


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server, [request.param])


def _handed_over(desk: Desk, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, how: str = OWN) -> str:
    """Hold a conversation in a program, and hand its own session over as it is; return that session's id."""
    desk.talk(name, folder)
    assert desk.cortext("import", "--from", name, cwd=folder).code == 0
    for variable, value in desk.env.items():
        monkeypatch.setenv(variable, value)
    stores, tool = Stores(str(folder)), tools.native_writer(name)
    named_store = stores.home_store()
    (session,) = named_store.store.sessions()
    plan = make_plan(StoredConversation(named_store, session), tool, project=str(folder))
    assert plan.how == how
    carry_out(plan, StoredConversation(named_store, session), tool, stores.capture())
    return plan.key


@pytest.mark.req("TRUE-02")
@pytest.mark.parametrize("desk", ["continue"], indirect=True)
def test_a_session_that_its_program_overwrites_is_told_and_put_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a prompt on its command line, Continue opens the last session without its history, and stores that."""
    folder = desk.project("p")
    key = _handed_over(desk, "continue", folder, monkeypatch)
    tool = desk.tools["continue"]
    before = tool.files_of(key).read_bytes()
    desk.server.push(*["I start afresh."] * 3)
    with Screen(desk.home.parent, tool.interactive("What now", resume=key), desk.env, folder) as screen:
        screen.wait_for("I start afresh.", timeout=120)
        synced = desk.cortext("sync", "--from", "continue", cwd=folder)
        while "nothing in it says why" not in synced.err:
            screen.wait_for("I start afresh.")
            synced = desk.cortext("sync", "--from", "continue", cwd=folder)
    assert len(tool.files_of(key).read_bytes()) < len(before), "the program did shorten it"
    session = f"continue-{key}"
    assert "the session in Continue held only 0 of " in synced.err
    assert f"cortext restore {session} --into continue" in synced.err
    assert "nothing in it says why" in desk.cortext("list", cwd=folder).err
    restored = desk.cortext("restore", session, "--into", "continue", "--json", cwd=folder)
    assert restored.code == 0, restored.err
    written = tool.files_of(restored.json["key"]).read_text(encoding="utf-8")
    assert "remember the number 4711" in written and "the heron stands still" in written
    assert "nothing in it says why" not in desk.cortext("list", cwd=folder).err


@pytest.mark.req("TRUE-02")
@pytest.mark.parametrize("desk", ["continue"], indirect=True)
def test_a_session_that_is_overwritten_without_an_answer_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Continue stores the session that it has not read as soon as the user's message is sent."""
    folder = desk.project("p")
    key = _handed_over(desk, "continue", folder, monkeypatch)
    tool = desk.tools["continue"]
    before = tool.files_of(key).stat().st_size
    desk.server.push(Reply(text="Never.", hold=threading.Event()))
    with Screen(desk.home.parent, tool.interactive("What now", resume=key), desk.env, folder):
        desk.server.wait_for_hold()
    assert tool.files_of(key).stat().st_size < before, "the program did shorten it"
    told = "the session in Continue held only 0 of 6 when it had been opened"
    assert told in desk.cortext("refresh", "--ended", "continue", key, cwd=folder).err
    assert told in desk.cortext("list", cwd=folder).err
    restored = desk.cortext("restore", f"continue-{key}", "--into", "continue", "--json", cwd=folder)
    assert restored.code == 0, restored.err
    assert "the heron stands still" in tool.files_of(restored.json["key"]).read_text(encoding="utf-8")
    assert told not in desk.cortext("list", cwd=folder).err


@pytest.mark.heavy_tool
@pytest.mark.req("TRUE-02")
@pytest.mark.parametrize("desk", ["gptme"], indirect=True)
def test_an_undo_in_gptme_is_no_loss(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = desk.project("p")
    key = _handed_over(desk, "gptme", folder, monkeypatch, how=NEW)  # its own was held without a terminal
    tool = desk.tools["gptme"]
    log = tool.files_of(key) / "conversation.jsonl"
    before = log.stat().st_size
    assert tool.run("/undo 2", cwd=folder, resume=key).returncode == 0
    assert log.stat().st_size < before, "the program did shorten it"
    assert desk.cortext("refresh", "--ended", "gptme", key, cwd=folder).err == ""
    assert "first_turn" not in desk.cortext("show", "1", "--json", cwd=folder).json


@pytest.mark.req("TRUE-02")
@pytest.mark.parametrize("desk", ["codex"], indirect=True)
def test_going_back_in_codex_is_no_loss(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = desk.project("p")
    key = _handed_over(desk, "codex", folder, monkeypatch)
    resumed = {"method": "thread/resume", "params": {"threadId": key}}
    listed = {"method": "thread/turns/list", "params": {"threadId": key, "sortDirection": "asc"}}
    _, answer = ask(desk.tools["codex"], folder, resumed, listed)
    turn = answer["data"][1]["id"]
    ask(
        desk.tools["codex"],
        folder,
        resumed,
        {"method": "thread/revert", "params": {"threadId": key, "beforeTurnId": turn}},
    )
    desk.server.push("Let us talk of storks.")
    assert desk.tools["codex"].run("Something else.", cwd=folder, resume=key).returncode == 0
    sent = str(desk.server.turns[-1].body)
    assert "remember the number 4711" in sent and "Read note.txt" not in sent, "the program did shorten it"
    synced = desk.cortext("sync", "--from", "codex", cwd=folder)
    assert (synced.code, synced.err) == (0, "")
    checked = desk.cortext("show", "1", "--json", cwd=folder).json["first_turn"]
    assert checked["held"] == checked["messages"] == 7, "the messages are on another branch"


@pytest.mark.repeats
@pytest.mark.req("TRUE-02")
@pytest.mark.parametrize("desk", ["opencode"], indirect=True)
def test_an_undo_in_opencode_is_no_loss(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = desk.project("p")
    key = _handed_over(desk, "opencode", folder, monkeypatch)
    tool = desk.tools["opencode"]
    prompt = next(record["id"] for record in tool.records() if "Read note.txt" in str(record["parts"]))
    desk.server.push(*["Let us talk of storks."] * 3)
    question = {"parts": [{"type": "text", "text": "Something else."}], "model": OPENCODE_MODEL}
    with opencode_server(tool, folder) as post:
        post(f"/session/{key}/revert", {"messageID": prompt})
        post(f"/session/{key}/message", question)
    assert "Read note.txt" not in str(tool.records()), "the program did remove it"
    synced = desk.cortext("sync", "--from", "opencode", cwd=folder)
    assert (synced.code, synced.err) == (0, "")
    assert "first_turn" not in desk.cortext("show", "1", "--json", cwd=folder).json
    assert desk.cortext("doctor", cwd=folder).code == 0
