"""`cortext restore --into`: with the real programs, after they deleted or damaged a conversation.

Each program deletes by itself where it does so (Claude Code and Gemini CLI); the others show that they do not. Then the
program's own list and its own resume have the conversation again, judged by the request that the model receives.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.moves import typed_on_a_screen
from tests.support.runners import Tool
from tests.support.screen import Screen

LONG_AGO = 60 * 86_400.0
OTHER_WORDS = "Quite another subject."


class Talk(NamedTuple):
    """A conversation that was held in a program: the desk's folder, a copy of it, what was said, and the session."""

    folder: Path
    copy: Path
    said: list[str]
    key: str


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Talk]:
    """Return a function that holds a conversation in a program, once."""
    held: dict[str, Talk] = {}

    def hold(name: str) -> Talk:
        if name not in held:
            folder, copy = (tmp_path_factory.mktemp(f"{what}-{name}") for what in ("desk", "copy"))
            with ModelServer() as server:
                desk = Desk(folder, server, [name])
                said = desk.talk(name, desk.project())
            _copy(folder, copy)
            held[name] = Talk(folder, copy, said, desk.tools[name].sessions()[-1])
        return held[name]

    return hold


def _copy(source: Path, target: Path) -> None:
    """Copy the home and the project of a desk. Paths are in a program's records, so a desk stays where it was."""
    shutil.rmtree(target)
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("bin", "*.sock"))


@pytest.fixture
def talk(request: pytest.FixtureRequest, talks: Callable[[str], Talk]) -> Talk:
    """Return the conversation of the program, with its desk as it was when the conversation ended."""
    talk = talks(request.param)
    _copy(talk.copy, talk.folder)
    return talk


@pytest.fixture
def desk(request: pytest.FixtureRequest, talk: Talk) -> Iterator[Desk]:
    name: str = request.node.callspec.params["talk"]
    with ModelServer() as server:
        desk = Desk(talk.folder, server, [name])
        desk.tools[name].trust(talk.folder / "project")
        yield desk


@pytest.fixture
def project(desk: Desk) -> Path:
    return desk.home.parent / "project"


def each(*names: str) -> pytest.MarkDecorator:
    """Run a test on desks with one program each."""
    return pytest.mark.parametrize("talk", names, indirect=True)


def _only(desk: Desk) -> tuple[str, Tool]:
    ((name, tool),) = desk.tools.items()
    return name, tool


def _file(tool: Tool, key: str) -> Path:
    """Return the file of a session."""
    return next(path for path in tool.transcripts() if key[:8] in path.name and "4711" in path.read_text("utf-8"))


def _held(desk: Desk, talk: Talk, *, old: bool = True) -> tuple[list[str], str]:
    """Make the conversation an old one by the program's own records; return what was said, and its id."""
    name, tool = _only(desk)
    said, key = talk.said, talk.key
    then = time.time() - (LONG_AGO if old else 0.0)
    path = _file(tool, key)
    typed_on_a_screen(desk, name, key)
    if name == "gemini":
        today, long_ago = (time.strftime("%Y-%m-%dT", time.gmtime(moment)) for moment in (time.time(), then))
        path.write_text(path.read_text("utf-8").replace(today, long_ago), encoding="utf-8")
        settings = desk.home / ".gemini" / "settings.json"  # the runner turns the deletion off
        value = json.loads(settings.read_text("utf-8"))
        del value["general"]["sessionRetention"]
        settings.write_text(json.dumps(value), encoding="utf-8")
    os.utime(path, (then, then))
    return said, key


def _start(desk: Desk, project: Path) -> None:
    """Use the program for something else; Claude Code, which deletes in the background, until it has done that."""
    name, tool = _only(desk)
    if name == "claude":
        mark = desk.home / ".claude" / ".last-cleanup"
        mark.unlink(missing_ok=True)  # it deletes once a day
        desk.server.push(tool.shell(f"for i in $(seq 300); do [ -e '{mark}' ] && break; sleep 0.2; done"), "Done.")
    else:
        desk.server.push("Done.")
    done = tool.run(OTHER_WORDS, cwd=project)
    assert done.returncode == 0, done.stderr[-2000:]


def _restore(desk: Desk, project: Path, *more: str) -> dict[str, Any]:
    name, _ = _only(desk)
    rows = desk.cortext("list", "--json", cwd=project).json
    session = max(rows, key=lambda row: row["message_count"])["id"]
    done = desk.cortext("restore", "--into", name, session, "--json", *more, cwd=project)
    assert done.code == 0, done.err
    result: dict[str, Any] = done.json
    return result


def _check_listed(desk: Desk, project: Path, key: str, words: str) -> None:
    """Check that the program's own list shows the conversation: by its id, or on its screen by these words."""
    name, tool = _only(desk)
    if name == "gemini":
        shown = tool.execute([tool.program, "--list-sessions"], cwd=project)
        assert key in shown.stdout, shown.stdout + shown.stderr
        return
    command = [tool.program, "--resume"] if name == "claude" else [tool.program, "resume"]
    with Screen(desk.home.parent, command, tool.env, project) as screen:
        screen.wait_for(words)


def _check_resumed(desk: Desk, project: Path, key: str, said: list[str]) -> None:
    """Check that the program's own resume sends the conversation to the model, with its tool call."""
    _, tool = _only(desk)
    desk.server.push(*["It was 4711."] * 3)
    done = tool.run("Which number was it?", cwd=project, resume=key)
    assert done.returncode == 0, done.stderr[-2000:]
    turn = next(turn for turn in reversed(desk.server.turns) if "Which number was it?" in str(turn.body))
    sent = "\n".join(part.text for part in turn.conversation if part.kind == "text")
    offsets = [sent.index(text) for text in [*said, "Which number was it?"]]
    assert offsets == sorted(offsets)
    assert {"tool_call", "tool_result"} <= {part.kind for part in turn.conversation}


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "TOOL-08")
@each("claude", "gemini")
def test_what_the_program_deleted_is_listed_and_resumed_again(desk: Desk, talk: Talk, project: Path) -> None:
    _, tool = _only(desk)
    said, key = _held(desk, talk)
    path = _file(tool, key)
    before = path.read_bytes()
    warning = desk.cortext("rescue", "--dry-run", cwd=project).out
    assert "will delete 1 conversation at its next start" in warning
    assert desk.cortext("rescue", "--json", "--yes", cwd=project).json["imported"][0]["created"] == 1
    assert desk.cortext("rescue", "--undo", cwd=project).code == 0

    _start(desk, project)
    assert key not in tool.sessions(), "the program itself has deleted it"
    done = _restore(desk, project)

    assert (done["key"], done["why"]) == (key, "")
    assert _file(tool, key).read_bytes().startswith(before)
    _check_listed(desk, project, key, said[2])
    _check_resumed(desk, project, key, said)
    assert _restore(desk, project)["how"].startswith("nothing to do")


@pytest.mark.real_tool
@pytest.mark.req("TOOL-08")
@each("claude", "gemini")
def test_with_the_raised_setting_the_program_deletes_nothing(desk: Desk, talk: Talk, project: Path) -> None:
    name, tool = _only(desk)
    _, key = _held(desk, talk)
    assert desk.cortext("rescue", "--yes", cwd=project).code == 0

    _start(desk, project)

    assert key in tool.sessions()
    assert name != "claude" or (desk.home / ".claude" / ".last-cleanup").exists(), "it has looked for what to delete"


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "TOOL-08")
@each("codex")
def test_codex_deletes_nothing_by_itself_and_what_was_removed_comes_back(desk: Desk, talk: Talk, project: Path) -> None:
    _, tool = _only(desk)
    said, key = _held(desk, talk)
    assert desk.cortext("import", cwd=project).code == 0
    _start(desk, project)
    assert key in tool.sessions()

    _file(tool, key).unlink()
    assert key not in tool.sessions()
    done = _restore(desk, project)

    assert (done["key"], done["why"]) == (key, "")
    _check_listed(desk, project, key, "First words to")
    _check_resumed(desk, project, key, said)


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "TOOL-08")
@each("claude", "gemini", "codex")
def test_a_file_with_a_broken_record_stays_and_a_valid_session_is_written_beside_it(
    desk: Desk, talk: Talk, project: Path
) -> None:
    _, tool = _only(desk)
    said, key = _held(desk, talk, old=False)
    path = _file(tool, key)
    lines = path.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    path.write_bytes(b"".join([*lines[:middle], b'{"type": "user", "uuid"\n', *lines[middle:]]))
    damaged = path.read_bytes()
    desk.cortext("import", cwd=project)

    done = _restore(desk, project)

    assert done["key"] != key
    assert "still has it, but has 1 record that cannot be read" in done["why"]
    assert path.read_bytes() == damaged, "a file of the program is never changed"
    assert _restore(desk, project)["how"].startswith("nothing to do")
    _check_listed(desk, project, done["key"], "First words to")
    _check_resumed(desk, project, done["key"], said)


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "TOOL-08")
@each("claude", "gemini", "codex")
def test_of_a_copy_with_a_torn_last_line_a_valid_session_is_written(desk: Desk, talk: Talk, project: Path) -> None:
    _, tool = _only(desk)
    said, key = _held(desk, talk, old=False)
    path = _file(tool, key)
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines()[-1][:-9])
    desk.cortext("import", cwd=project)
    path.unlink()

    done = _restore(desk, project)

    assert done["why"] == "cortext's copy of the tool's own file ends within a record"
    _check_listed(desk, project, done["key"], "First words to")
    _check_resumed(desk, project, done["key"], said)
