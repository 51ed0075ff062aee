"""A project moves, and the conversation that was held in a real program continues there with the paths of today."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.moves import (
    ASKED,
    Place,
    cloned,
    control,
    copied_plainly,
    hold_about_a_note,
    make_project,
    renamed,
    sent,
    worktree,
)
from tests.support.screen import Screen
from tests.support.waiting import wait_until

ADDED = "Look at it once more."
ENOUGH = 6  # answers: a program may ask the model for a title too; unused ones do no harm


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def _captured(desk: Desk, name: str, session: str, folder: Path) -> str:
    """Return what is stored of a session after capturing what is new."""
    assert desk.cortext("sync", "--from", name, cwd=folder).code == 0
    return desk.cortext("show", session, cwd=folder).out


@pytest.mark.real_tool
@pytest.mark.req("TOOL-09", "TOOL-02", "FLOW-06")
@pytest.mark.parametrize(
    ("name", "move"),
    [("claude", renamed), ("codex", cloned), pytest.param("gemini", worktree, marks=pytest.mark.repeats)],
)
def test_a_conversation_of_a_real_program_follows_its_project(
    tmp_path: Path, server: ModelServer, name: str, move: Callable[[Place], Place]
) -> None:
    desk = Desk(tmp_path / "bob", server, [name])
    folder = make_project(desk)
    key = hold_about_a_note(desk, name, folder)
    plain = copied_plainly(Place(desk, folder), key)
    now = move(Place(desk, folder)).project
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
    words = sent(request)
    assert f"Let me open {now}/note.txt." in words
    assert f"cat {now}/note.txt" in words
    assert f"{folder}/note.txt" not in words
    # Every path in the texts and the call, once more in the result if the program repeats the command there.
    assert planned["receipt"]["changed"]["path mapped to where the project is now"] == words.count(f"{now}/note.txt")

    # What was added is captured, nothing twice; the session knows the folder that it was held in last.
    assert desk.cortext("sync", "--from", name, cwd=now).code == 0
    (row,) = desk.cortext("list", "--project", "--json", cwd=now).json
    assert row["project"] == str(now)
    shown = desk.cortext("show", row["id"], cwd=now).out
    assert shown.count(ASKED) == 1 and ADDED in shown
    assert f"Let me open {folder}/note.txt." in shown, "the store keeps the original words"

    # The control: with a plain copy of its file, the session is not found here, or the model gets the old paths.
    _, wrong = control(Place(desk, now), folder, key, tool.sessions()[-1], plain)
    assert wrong == []
