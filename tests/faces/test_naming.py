"""The right session or none: one table of names, checked against every command of every face."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.assistant.build import build_assistant
from cortext.agents.assistant.commands import Commands
from cortext.errors import AmbiguousId, CortextError, NotFound, SessionNotFound
from cortext.faces.cortext.main import run as main
from cortext.index.sessions import COLUMNS, Row
from cortext.model.ids import looks_like_id
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.library.resolve import Resolver
from cortext.store.files.workspace import WorkspaceStore
from cortext.testing.table import every_row
from cortext.wiring.stores import Stores
from tests.agents.aur.kit import Aur
from tests.faces.pond import Pond, served
from tests.support.cli import cortext
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.req("FLOW-04")

API = "001-brainstorm-api-design"
# Names that match no session here, although the only conversation mentions most of them.
NOTHING = ["009", "0", "00", "01", "7", "999", "2026", "001-brainstorm-apx", "sess_7k3vq9xw1t", "3f2a9b1c", "", " "]
MENTIONED = "See 999, 009, 2026, sess_7k3vq9xw1t and commit 3f2a9b1c; 001-brainstorm-apx was another one."
# Every command that takes a session name, and whether it also takes words.
COMMANDS: dict[str, tuple[list[str], bool]] = {
    "show": (["show", "NAME"], True),
    "export": (["export", "NAME"], True),
    "similar": (["similar", "NAME"], True),
    "resume --print": (["resume", "NAME", "--print"], True),
    "resume --dry-run": (["resume", "NAME", "--ai", "claude", "--dry-run"], True),
    "fork": (["fork", "NAME"], True),
    "repair": (["repair", "NAME", "--dry-run"], False),
    "prune": (["prune", "NAME", "--dry-run"], False),
    "title": (["title", "NAME"], False),
    "title WORDS": (["title", "NAME", "Another title"], False),
    "stop": (["stop", "NAME", "--no-commit"], False),
    "complete": (["complete", "NAME", "--no-commit"], False),
    "delete": (["delete", "NAME"], False),
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a workspace with one conversation and change into it."""
    folder = tmp_path / "workspace"
    (folder / ".workspace").mkdir(parents=True)
    monkeypatch.chdir(folder)
    store = WorkspaceStore(str(folder))
    store.create(Session(id=API, type="brainstorm", title="API design"))
    store.append(API, Message(role="user", content=MENTIONED), Message(role="assistant", content="Noted."))
    return folder


def _state(folder: Path) -> dict[str, str]:
    """Return the hash of every conversation file."""
    files = sorted(path for path in (folder / "conversations").rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _run(command: list[str], name: str) -> int:
    """Run a command in this process, which is faster."""
    try:
        return main([name if word == "NAME" else word for word in command])
    except SystemExit as stop:
        return int(stop.code or 0)


# ── cortext ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_name_matches_nothing(name: str, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _state(workspace)
    assert main(["list"]) == 0
    capsys.readouterr()
    for wanted in NOTHING:
        assert _run(COMMANDS[name][0], wanted) in (1, 2), wanted
        said = capsys.readouterr()
        assert said.out == "" and "next:" in said.err, wanted
    assert _state(workspace) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_accepts_the_same_names(
    name: str, workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, words = COMMANDS[name]
    shutil.copytree(workspace, tmp_path / "kept")
    for wanted in ("1", "001", API, "001-b", API.upper(), "api desing"):
        assert main(["list"]) == 0
        before = _state(workspace)
        code = _run(command, wanted)
        said = capsys.readouterr()
        if wanted != "api desing" or words:
            assert code == 0, (wanted, said.err)
        else:
            assert code == 1 and f"the nearest: {API}" in said.err
            assert _state(workspace) == before
        shutil.rmtree(workspace / "conversations")
        shutil.copytree(tmp_path / "kept" / "conversations", workspace / "conversations")


def test_unknown_numbers_are_refused_and_change_nothing(workspace: Path) -> None:
    before = _state(workspace)
    for words in (["show", "009"], ["fork", "008"], ["resume", "007"], ["resume", "999"], ["delete", ""]):
        done = cortext(*words, cwd=workspace)
        assert done.code in (1, 2) and done.out == "", words
        assert done.err.startswith("cortext: error: ") and "Traceback" not in done.err
    assert _state(workspace) == before


def test_a_number_is_the_row_of_the_last_list_despite_changes(workspace: Path) -> None:
    assert cortext("delete", "1", cwd=workspace).code == 1, "a row means nothing before a list was shown"
    assert API in cortext("list", cwd=workspace).out
    newer = Session(id="002-plan-newer", type="plan", title="Newer")
    WorkspaceStore(str(workspace)).create(newer)
    assert cortext("show", "1", "--json", cwd=workspace).json["id"] == API
    assert cortext("list", "--type", "plan", cwd=workspace).code == 0
    assert cortext("show", "1", "--json", cwd=workspace).json["id"] == newer.id
    assert cortext("delete", "1", cwd=workspace).out.startswith(f"Moved {newer.id} ")
    gone = cortext("delete", "1", cwd=workspace)
    assert gone.code == 1 and f"that row was {newer.id}, which no longer exists" in gone.err
    assert list(_state(workspace)) == [f"conversations/{day}" for day in _files(workspace)]


def _files(workspace: Path) -> list[str]:
    [folder] = (workspace / "conversations").glob(f"*/{API}")
    return sorted(str(path.relative_to(workspace / "conversations")) for path in folder.rglob("*") if path.is_file())


def test_a_conversation_number_belongs_to_the_current_workspace(workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    rows = [_row(str(workspace), API), _row(str(other), "007-plan-elsewhere")]
    with pytest.raises(SessionNotFound) as answer:
        Resolver(rows, str(workspace)).resolve("007")
    assert "007-plan-elsewhere" in answer.value.hint and "whole id" in answer.value.hint
    assert Resolver(rows, str(other)).resolve("007").id == Resolver(rows).resolve("007").id == "007-plan-elsewhere"
    assert Resolver(rows, str(workspace)).resolve("007-plan").id == "007-plan-elsewhere"


def _row(root: str, session_id: str, title: str = "") -> Row:
    given = {"root": root, "id": session_id, "title": title}
    return Row._make(given.get(name, "") for name in COLUMNS)


def test_an_ambiguous_name_is_refused_and_both_matches_are_named() -> None:
    rows = [_row("/w", f"{number:03d}-plan-talk") for number in range(300, 0, -1)]
    assert Resolver(rows, "/w").resolve("12").id == "289-plan-talk", "the twelfth row"
    assert Resolver(rows, "/w").resolve("012").id == "012-plan-talk", "its own number"
    with pytest.raises(AmbiguousId) as answer:
        Resolver(rows, "/w").resolve("120")
    assert "120-plan-talk" in answer.value.message and "181-plan-talk" in answer.value.message
    assert Resolver(rows[:50], "/w").resolve("290").id == "290-plan-talk", "the list has no such row"
    long = [_row("/w", "x")] * 149 + [_row("/w", "150-plan")]
    assert Resolver(long, "/w").resolve("150").id == "150-plan", "both names mean the same session"


@every_row(
    ("text", "is_one"),
    [
        *((name, True) for name in ("001-plan", "sess_7k3vq9xw1t", "session-k3f9", "claude-3f2a9b1c-77aa", "3f2a9b1c")),
        *(
            (name, False)
            for name in ("api", "oauth2-proxy", "utf-8", "session-based", "claude-code", "404", "retry_now")
        ),
    ],
)
def test_an_id_is_distinguished_from_a_word(text: str, is_one: bool) -> None:
    assert looks_like_id(text) is is_one


def test_numbers_among_words_are_matched_exactly() -> None:
    rows = [_row("/w", "one", "Error 404 in the proxy"), _row("/w", "two", "Error 405 in the proxy")]
    assert Resolver(rows).resolve("eror 404").id == "one"
    with pytest.raises(SessionNotFound):
        Resolver(rows).resolve("error 40")


# ── the trash ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["001", API, "001-b"])
def test_a_deleted_session_is_restored_by_the_same_name(name: str, workspace: Path) -> None:
    assert cortext("delete", name, cwd=workspace).code == 0
    for wanted in ("009", "", "001-x"):
        assert cortext("restore", wanted, cwd=workspace).code == 1
    assert cortext("restore", name, cwd=workspace).out.startswith(f"Restored {API} (")


def test_a_name_of_several_deletions_is_refused_in_the_same_words_everywhere(workspace: Path, aur: Aur) -> None:
    store = WorkspaceStore(str(workspace))
    store.create(Session(id="002-plan-newer", type="plan"))
    assistant = build_assistant(Stores(str(workspace)))
    for name in ("sess_aaa1", "sess_aaa2"):
        assistant.store.create(Session(id=name, type="chat"))
        assistant.store.delete(name)
        aur.write(name.replace("sess_", "session-"), turns=(("user", "Hello."),))
        assert aur("spawn", "--delete-session", name.replace("sess_", "session-"), "--yes").code == 0
    for name in (API, "002-plan-newer"):
        store.delete(name)
    for name in ("00", "00x"):
        assert f"'{name}' is not in the trash" in cortext("restore", name, cwd=workspace).err
    assert "'session-aaa' could be: session-aaa2, session-aaa1" in aur("spawn", "--restore", "session-aaa").err
    with pytest.raises(AmbiguousId, match="'sess_aaa' could be: sess_aaa2, sess_aaa1"):
        assistant.sessions.restore("cli", "sess_aaa")
    with pytest.raises(NotFound, match="'sess_b' is not in the trash"):
        assistant.sessions.restore("cli", "sess_b")
    assert assistant.sessions.restore("cli").id == "sess_aaa2", "without a name, the newest deletion"


# ── MCP, aur, alfred and Telegram ────────────────────────────────────────────────────────────────────


def test_the_mcp_tools_accept_the_same_names(workspace: Path, home: Path) -> None:
    before = _state(workspace)
    with served(Pond(home, workspace)) as client:
        for tool in ("get_session", "save_session", "resume_session"):
            for wanted in filter(str.strip, NOTHING):
                assert client(tool, id=wanted).failed, (tool, wanted)
        assert _state(workspace) == before
        assert client("save_session", id="1").failed, "no list was given yet"
        assert client("list_sessions").data["sessions"][0]["id"] == API
        for wanted in ("1", "001", API, "001-b"):
            assert client("get_session", id=wanted).data["session"]["id"] == API
            assert MENTIONED in client("resume_session", id=wanted).text
            assert client("save_session", id=wanted).data["session"]["id"] == API
        assert MENTIONED in client("resume_session", id="api desing").text
        assert client("get_session", id="api desing").failed and client("save_session", id="api desing").failed


@pytest.fixture
def aur(home: Path, tmp_path: Path) -> Iterator[Aur]:
    """Return `aur` with a model that echoes."""
    with ModelServer() as server:
        yield Aur(server, home, tmp_path)


def test_aur_accepts_the_same_names(aur: Aur) -> None:
    turns = (("user", MENTIONED), ("assistant", "Noted."))
    path = aur.write("session-k3f9aa", turns=turns)
    before = path.read_bytes()
    assert aur("spawn", "--delete-session", "1", "--yes").code == 1, "no list was shown"
    for wanted in ("009", "7", "999", "sess_7k3vq9xw1t", "session-k3f9ab", ""):
        for option in ("--resume", "--delete-session"):
            assert aur("spawn", option, wanted, stdin="/exit\n").code in (1, 2), (option, wanted)
    assert aur("spawn", "--delete-session", "sesion k3f9aa", "--yes").code == 1, "no words"
    assert path.read_bytes() == before
    assert "session-k3f9aa" in aur("spawn", "--list-sessions").out
    for wanted in ("1", "session-k3f9aa", "session-k"):
        done = aur("spawn", "--resume", wanted, "-i", stdin="/exit\n")
        assert done.code == 0, done.err
        assert aur("spawn", "--delete-session", wanted, "--yes").out.startswith("Deleted session session-k3f9aa")
        assert aur("spawn", "--restore", "session-k").code == 0


def test_alfred_and_telegram_accept_the_same_names(workspace: Path) -> None:
    assistant = build_assistant(Stores(str(workspace)))
    commands = Commands(assistant)
    for chat, own in (("cli", "sess_herons111"), ("tg-42", "sess_boats2222")):
        assistant.sessions.start(chat, session_id=own)
        assistant.store.append(own, Message(role="user", content=MENTIONED))
        for wanted in filter(str.strip, NOTHING):
            for command in ("resume", "delete"):
                with pytest.raises(CortextError):
                    commands.run(chat, f"/{command} {wanted}")
        for wanted in ("noted herons", "1"):
            with pytest.raises(CortextError):
                commands.run(chat, f"/delete {wanted}")
        assert commands.run(chat, "/sessions").rows[0][0] == own
        for wanted in ("1", own, own[:9], own.replace("_", "-")):
            assert own in commands.run(chat, f"/resume {wanted}").text
            assert own in commands.run(chat, f"/delete {wanted}").text
            assert own in commands.run(chat, f"/restore {own[:9]}").text
        assert API in commands.run(chat, "/resume 001").text, "a conversation of a workspace, by its own number"
        commands.run(chat, f"/resume {own}")


def test_a_command_that_takes_no_words_says_so(workspace: Path) -> None:
    done = cortext("delete", "design", cwd=workspace)
    assert done.code == 1 and "use its number or its id, not words" in done.err and API in done.err
    assert cortext("show", "design", cwd=workspace).code == 0
