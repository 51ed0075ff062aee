"""Lists, a conversation, statistics and the demo on terminals of 80 and 40 columns."""

from __future__ import annotations

import os
import re
from functools import reduce
from pathlib import Path

import pytest

from cortext.faces.terminal.table import width
from cortext.model.ids import short_ids
from tests.faces.pond import Pond, make_pond
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import SCRIPTS, Ran, cortext, run
from tests.support.screen import ShellScreen


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    """Create two workspaces and the home store, with titles of every width."""
    made = make_pond(tmp_path_factory.mktemp("looks"))
    other = made.home.parent / "other"
    for words in (
        ("init", str(other), "--ai", "claude"),
        ("new", "plan", "池のサギの数え方についての長い長い話し合い 🦩🦩"),
        ("new", "debug", "👩‍👩‍👧 emoji, e\u0301 and a title that is far longer than any screen of forty columns"),
    ):
        done = cortext(*words, cwd=other if other.exists() else made.home, env=made.env)
        assert done.code == 0, done.err
    return made


def _shown(pond: Pond, columns: int, *words: str, **env: str) -> Ran:
    done = cortext(*words, cwd=pond.folder, env={**pond.env, "COLUMNS": str(columns), **env})
    assert done.code == 0, done.err
    return done


@pytest.mark.req("LOOK-01", "SESS-004c")
@pytest.mark.parametrize("columns", [40, 80, 130])
@pytest.mark.parametrize("words", [("list",), ("resume", "--list"), ("list", "--type", "plan")])
def test_lists_fit_the_screen_and_numbers_and_short_ids_resolve(
    pond: Pond, columns: int, words: tuple[str, ...]
) -> None:
    lines = _shown(pond, columns, *words).out.splitlines()
    assert max(map(width, lines)) <= columns
    assert lines[0].split()[:3] == ["#", "TITLE", "ID"]
    rows = _shown(pond, columns, *words, "--json").json
    for line, row in zip(lines[1:], rows, strict=True):
        short = next(word for word in line.split()[1:] if len(word) >= 3 and row["id"].startswith(word))
        # A number belongs to this workspace, whatever other workspaces have.
        assert short.isdigit() == (row["workspace"] == str(pond.folder)), line
        names = [line.split()[0], short] if words == ("list",) and columns == 40 else []
        for name in names:
            assert _shown(pond, columns, "show", name, "--json").json["id"] == row["id"]
    heads = lines[0].split()
    assert ("WORKSPACE" in heads) == (columns >= 80)
    if columns == 130:
        assert "MSGS" in heads
        assert all(line[lines[0].index("MSGS") + 3].isdigit() for line in lines[1:] if width(line) == len(line))
        assert "WORKSPACE" not in _shown(pond, columns, "list", "--here").out


@pytest.mark.req("LOOK-01", "FLOW-04")
def test_every_listed_short_id_is_accepted_in_the_same_folder(pond: Pond, tmp_path: Path) -> None:
    env = {**pond.env, "HOME": str(tmp_path), "COLUMNS": "80"}
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, topics in ((there, ("Same", "Another")), (here, ("Same",))):
        assert cortext("init", str(folder), "--ai", "claude", cwd=tmp_path, env=env).code == 0
        for topic in topics:
            assert cortext("new", "plan", topic, cwd=folder, env=env).code == 0
    # In this workspace no conversation has the number 002, and 001-plan-same is its own.
    for folder, expected in ((here, ["001", "002-p", "-"]), (tmp_path, ["001", "002", "001"])):
        rows = cortext("list", "--json", cwd=folder, env=env).json
        short = [line.split()[2] for line in cortext("list", cwd=folder, env=env).out.splitlines()[1:]]
        assert short == expected
        for name, row in zip(short, rows, strict=True):
            if name != "-" and (folder == here or name == "002"):
                shown = cortext("show", name, "--json", cwd=folder, env=env).json
                assert (shown["id"], shown["workspace"]) == (row["id"], row["workspace"])


@pytest.mark.req("LOOK-01")
def test_a_pipe_gets_full_ids_and_no_color_disables_colours(pond: Pond) -> None:
    env = {name: value for name, value in pond.env.items() if name != "COLUMNS"}
    piped = cortext("list", cwd=pond.folder, env=env).out
    assert piped.split()[0] == "ID" and "001-plan-herons-at-the-pond" in piped
    assert "\x1b" in _shown(pond, 80, "list", FORCE_COLOR="1").out
    assert "\x1b" not in _shown(pond, 80, "list", FORCE_COLOR="1", NO_COLOR="1").out


def test_a_short_id_is_the_shortest_unique_prefix_and_not_a_number() -> None:
    ids = ["001-plan-a", "001-plan-b", "002-debug", "session-k3f9", "session-k4aa", "4711aa", "47", "claude-1"]
    assert short_ids(ids, ids) == {
        "001-plan-a": "001-plan-a", "001-plan-b": "001-plan-b", "002-debug": "002", "session-k3f9": "session-k3",
        "session-k4aa": "session-k4", "4711aa": "4711a", "47": "47", "claude-1": "clau",
    }  # fmt: skip


@pytest.mark.req("LOOK-04", "SESS-003a")
@pytest.mark.parametrize("size", ["80x24", "40x12"])
def test_the_picker_looks_like_the_browser(pond: Pond, tmp_path: Path, size: str) -> None:
    env = {**pond.env, "PATH": f"{SCRIPTS}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    with ShellScreen(tmp_path, [str(SCRIPTS / "cortext"), "resume"], env, pond.folder, size) as screen:
        screen.wait_for("Choose a conversation", "find:", "Knots", "Enter resume")
        screen.type("leaking")
        screen.wait_for("1 session ", "The boat leaks.", "002-debug-leaking-boat")
        screen.press("C-d")
        assert screen.wait_for_end() == 130


@pytest.mark.req("LOOK-01")
def test_show_wraps_between_words_and_shows_short_local_times(pond: Pond) -> None:
    shown = _shown(pond, 40, "show", "001", TZ="Asia/Tokyo").out
    assert all(width(line) <= 40 for line in shown.splitlines() if not line.startswith(("→", "←")))
    assert "We decided to count the herons at dawn.\nBecause later the children scare them\noff." in shown
    assert "user  #5  Mar 2, 19:05" in shown and "T10:05" not in shown
    assert "\x1b[" in _shown(pond, 40, "show", "001", FORCE_COLOR="1").out
    piped = cortext("show", "001", cwd=pond.folder, env=pond.env).out
    assert "Because later the children scare them off." in piped


@pytest.mark.req("LOOK-01")
def test_a_long_conversation_is_paged_without_leftover_files(pond: Pond, tmp_path: Path) -> None:
    pager = tmp_path / "my pager"
    pager.write_text(f'#!/bin/sh\ncat >"{tmp_path}/paged"\necho "paged $1"\n', encoding="utf-8")
    pager.chmod(0o755)
    env = {**pond.env, "PAGER": f"'{pager}' well"}
    for name, words, paged in (
        ("long", ("show", "003"), True),
        ("short", ("show", "004"), False),
        ("all", ("show", "003", "--no-pager"), False),
    ):
        place = tmp_path / name
        place.mkdir()
        with ShellScreen(place, [str(SCRIPTS / "cortext"), *words], env, pond.folder, "80x24") as screen:
            assert screen.wait_for_end() == 0
            assert ("paged well" in screen.text()) == paged
            assert (tmp_path / "paged").exists() == paged
        if paged:
            text = (tmp_path / "paged").read_text(encoding="utf-8")
            assert "Step 49 of the long walk" in text and "\x1b" not in text
            (tmp_path / "paged").unlink()


@pytest.mark.req("LOOK-01")
def test_stats_on_a_terminal_have_aligned_numbers_and_bars(pond: Pond) -> None:
    for columns in (40, 80):
        lines = _shown(pond, columns, "stats").out.splitlines()
        table = lines[next(place for place, line in enumerate(lines) if line.startswith("TYPE")) :]
        assert max(map(width, lines[2:])) <= max(columns, 66)
        ends = {line.index(line.split()[1]) + len(line.split()[1]) for line in table[:4]}
        assert len(ends) == 1 and "█" in table[1]


@pytest.mark.req("LOOK-01")
@pytest.mark.parametrize("on_path", [True, False])
def test_the_demo_fits_one_screen_and_its_commands_can_be_pasted(tmp_path: Path, on_path: bool) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    path = "/usr/bin:/bin"
    env = {"HOME": str(tmp_path), "PATH": f"{SCRIPTS}:{path}" if on_path else path, "LANG": "C.UTF-8", "COLUMNS": "80"}
    done = run(
        ["env", "-i", *(f"{name}={value}" for name, value in env.items()), str(SCRIPTS / "cortext"), "demo"], cwd=folder
    )
    assert done.code == 0 and done.err == "", done.err
    lines = done.out.splitlines()
    # The folders of a test have long names.
    names = ((str(SCRIPTS), ".venv/bin"), (str(folder), "/home/me/demo"), (str(tmp_path), "/home/me"))
    short = [reduce(lambda line, name: line.replace(*name), names, line) for line in lines]
    assert sum(max(1, -(-width(line) // 80)) for line in short) < 24
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert commands[-1].endswith("cortext init") and commands[-2].endswith("cortext browse")
    plain = [command.removeprefix("CLAUDE_CONFIG_DIR=.workspace/state/claude ") for command in commands]
    assert all(command.startswith(("cortext ", "cd ")) for command in plain) == on_path
    script = " && ".join(commands[:-2])
    pasted = run(["env", "-i", *(f"{name}={value}" for name, value in env.items()), "bash", "-c", script], cwd=folder)
    assert pasted.code == 0, pasted.err
    # It opens with what was found, then what was handed over for real: into the demo, and not into the user's own tool.
    for shown in (done.out, pasted.out):
        assert "No message" not in shown and shown.index("1. The flaky cache test") < shown.index("40 of 40 messages")
        assert "Resuming The flaky cache test in claude: a new native session" in shown
        key = re.findall(r"start it   claude .*--resume ([0-9a-f-]{36}) ", shown)[0]
        [written] = folder.glob(f"cortext-demo/.workspace/state/claude/projects/*/{key}.jsonl")
        assert "a retry decorator and I'd like to know" in written.read_text(encoding="utf-8")
    assert not (tmp_path / ".claude").exists()
    assert run(["git", "status", "--short"], cwd=folder / "cortext-demo").out == ""


@pytest.mark.req("SESS-004d", "FIND-01")
def test_a_row_of_a_search_is_handed_over_without_starting_the_tool(pond: Pond) -> None:
    env = {**pond.env, "PATH": "/usr/bin:/bin", "CLAUDE_CONFIG_DIR": str(pond.home / "elsewhere")}
    cortext("list", cwd=pond.folder, env=env)  # what is to be said of quiet conversations is said now
    assert "\n   001-plan-herons-at-the-pond " in cortext("search", "at", "dawn", cwd=pond.folder, env=env).out
    before = cortext("show", "1", "--json", cwd=pond.folder, env=env).json["status"]
    done = cortext("resume", "1", "--ai", "claude", "--no-start", cwd=pond.folder, env=env)
    assert (done.code, done.err) == (0, "")
    key = re.findall(r"start it   claude .*--resume ([0-9a-f-]{36}) ", done.out)[0]
    [written] = (pond.home / "elsewhere").glob(f"projects/*/{key}.jsonl")
    assert "Seventeen herons at 06:20." in written.read_text(encoding="utf-8")
    assert "Claude Code is not installed here" in done.out
    assert cortext("show", "1", "--json", cwd=pond.folder, env=env).json["status"] == before


def _talked_elsewhere(home: Path) -> dict[str, str]:
    """Write a conversation of Claude Code into this home; return the environment of a user there."""
    home.mkdir()
    (home / "project").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        ClaudeTalk(home / "project").write("How many herons?", "Seventeen.")
    return {"HOME": str(home), "PATH": f"{SCRIPTS}:/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.mark.req("TOOL-03", "LOOK-01")
@pytest.mark.parametrize("words", [(), ("list",)])
def test_what_the_tools_have_is_offered_for_import_at_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    env = _talked_elsewhere(tmp_path / "home")
    program = [str(SCRIPTS / "cortext"), *words]
    with ShellScreen(tmp_path, program, env, tmp_path / "home", "80x24") as screen:
        screen.wait_for("Your AI tools have 1 conversation on this machine (Claude Code 1). Nothing is imported yet.")
        screen.type("y")
        screen.press("Enter")
        shown = screen.wait_for("TRANSCRIPTS", "How many herons?")
        assert shown.index("TRANSCRIPTS") < shown.rindex("How many herons?")
        assert screen.wait_for_end() == 0
    assert "conversation" not in cortext(*words, cwd=tmp_path, env=env).err


@pytest.mark.req("TOOL-03", "LOOK-01")
def test_an_offer_to_import_that_was_declined_is_not_repeated(tmp_path: Path) -> None:
    env = _talked_elsewhere(tmp_path / "home")
    said = "Nothing is imported yet: `cortext import` reads 1 conversation on this machine (Claude Code 1)."
    for answer in ("n", ""):  # the second time nobody is asked
        place = tmp_path / (answer or "again")
        place.mkdir()
        with ShellScreen(place, [str(SCRIPTS / "cortext"), "list"], env, tmp_path / "home", "100x24") as screen:
            if answer:
                screen.wait_for("Import now?")
                screen.type(answer)
                screen.press("Enter")
            screen.wait_for(said)
            assert screen.wait_for_end() == 0
            assert ("Import now?" in screen.text()) == bool(answer)
    # Without a terminal nobody is ever asked, and scripts get what they had.
    assert cortext("list", cwd=tmp_path, env=env) == Ran(0, f"{said}\n", "")
    assert said in cortext(cwd=tmp_path, env=env).out
    assert cortext("list", "--json", cwd=tmp_path, env=env).json == []
    assert cortext("list", "--tool", "claude", cwd=tmp_path, env=env).out == "No session matches.\n"
