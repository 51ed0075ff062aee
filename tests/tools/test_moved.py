"""A project moves, and the conversation that was held in a real program continues there with the paths of today."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS, git
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Reply, Request
from tests.support.runners import Tool
from tests.support.screen import Screen
from tests.tools.real_flow import wait_until

ASKED = "Remember the heron: read the note."
ADDED = "Look at it once more."
ENOUGH = 6  # answers: a program may ask the model for a title too; unused ones do no harm


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def _renamed(folder: Path) -> Path:
    return folder.rename(folder.with_name("lake"))


def _cloned_and_deleted(folder: Path) -> Path:
    git(folder.parent, "clone", "-q", str(folder), "clone")
    shutil.rmtree(folder)
    return folder.with_name("clone")


def _worktree(folder: Path) -> Path:
    git(folder, "worktree", "add", "-q", str(folder.with_name("tree")))
    return folder.with_name("tree")


def _other_home(folder: Path) -> Path:
    target = folder.parent / "ann" / "code"
    target.mkdir(parents=True)
    return folder.rename(target / folder.name)


def _project(desk: Desk) -> Path:
    folder = desk.project("pond")
    (folder / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a note")
    return folder


def _hold(desk: Desk, name: str, folder: Path) -> str:
    """Hold a conversation about a file, with its path in the texts and in a tool call; return the session's id."""
    tool, note = desk.tools[name], folder / "note.txt"
    call = tool.shell(f"cat {note}")
    desk.server.push(Reply(text=f"Let me open {note}.", tool_calls=call.tool_calls), f"{note} says it stands still.")
    done = tool.run(ASKED, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    assert desk.cortext("import", "--from", name, cwd=folder).code == 0
    return tool.sessions()[-1]


def _sent(request: Request) -> str:
    """Return the conversation in a request: texts, calls and results, without what the program adds about itself."""
    start = next(index for index, turn in enumerate(request.conversation) if ASKED in turn.text)
    return "\n".join(f"{turn.text} {turn.arguments or ''}" for turn in request.conversation[start:])


def _copy_plainly(tool: Tool, key: str) -> None:
    """Copy the session's file to where the program keeps those of the new folder, if it keeps them by folder."""
    first = next(path for path in tool.transcripts() if key.encode() in path.read_bytes())
    newest = tool.transcripts()[-1]
    if first.parent != newest.parent:
        shutil.copy(first, newest.parent)


def _captured(desk: Desk, name: str, session: str, folder: Path) -> str:
    """Return what is stored of a session after capturing what is new."""
    assert desk.cortext("sync", "--from", name, cwd=folder).code == 0
    return desk.cortext("show", session, cwd=folder).out


@pytest.mark.real_tool
@pytest.mark.req("TOOL-09", "TOOL-02", "FLOW-06")
@pytest.mark.parametrize(
    ("name", "move"),
    [("claude", _renamed), ("codex", _cloned_and_deleted), ("gemini", _worktree), ("opencode", _other_home)],
)
def test_a_conversation_of_a_real_program_follows_its_project(
    tmp_path: Path, server: ModelServer, name: str, move: Callable[[Path], Path]
) -> None:
    desk = Desk(tmp_path, server, [name])
    folder = _project(desk)
    key = _hold(desk, name, folder)
    now = move(folder)
    tool = desk.tools[name]
    tool.trust(now)
    (row,) = desk.cortext("list", "--project", "--json", cwd=now).json

    planned = desk.cortext("resume", row["id"], "--ai", name, "--dry-run", "--json", cwd=now).json
    assert planned["cwd"] == str(now)
    assert planned["receipt"]["moved"] == {str(folder): str(now)}
    desk.server.forget()
    desk.server.push(*["Still the same heron."] * ENOUGH)
    command = [str(SCRIPTS / "cortext"), "resume", row["id"], "--ai", name]
    with Screen(desk.home.parent, command, desk.env, now, "150x70") as screen:
        request = desk.server.wait_for(lambda turn: ASKED in str(turn.body) and "[RESUMED" in str(turn.body), 170)
        screen.wait_for("Still the same heron", timeout=120)
        desk.say(screen, ADDED)
        wait_until(lambda: ADDED in _captured(desk, name, row["id"], now))  # programs record a turn when they like
    sent = _sent(request)
    assert f"Let me open {now}/note.txt." in sent
    assert f"cat {now}/note.txt" in sent
    assert f"{folder}/note.txt" not in sent
    # Every path in the texts and the call, once more in the result if the program repeats the command there.
    assert planned["receipt"]["changed"]["path mapped to where the project is now"] == sent.count(f"{now}/note.txt")

    # What was added is captured, nothing twice; the session knows the folder that it was held in last.
    assert desk.cortext("sync", "--from", name, cwd=now).code == 0
    (row,) = desk.cortext("list", "--project", "--json", cwd=now).json
    assert row["project"] == str(now)
    shown = desk.cortext("show", row["id"], cwd=now).out
    assert shown.count(ASKED) == 1 and ADDED in shown
    assert f"Let me open {folder}/note.txt." in shown, "the store keeps the original words"

    # The control: with a plain copy of its file, the session is not found here, or the model gets the old paths.
    _copy_plainly(tool, key)
    desk.server.forget()
    tool.run("Go on.", cwd=now, resume=key)
    resumed = [request for request in desk.server.turns if ASKED in str(request.body)]
    assert all(f"{now}/note.txt" not in _sent(request) for request in resumed)
    assert all(f"{folder}/note.txt" in _sent(request) for request in resumed)
