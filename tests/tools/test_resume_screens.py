"""What a person sees of `cortext resume` on the programs' own screens, and what their model gets of the command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import NAMES, Desk
from tests.support.model_server import ModelServer, Request
from tests.support.screen import Screen
from tests.support.waiting import wait_until

from cortext.safety.framing import BEGIN, END

RULES = "\n".join(f"{number}. Rule {number} of the plan." for number in range(1, 61))
SAID = [
    ("user", "Where do herons nest?"),
    ("assistant", "In tall trees."),
    ("user", "And the storks?"),
    ("assistant", "On the roofs."),
    ("user", "And the coots?"),
    ("assistant", "In the reeds."),
]
ENOUGH = 6  # answers: in a used home, Gemini CLI first asks the model for a title of its earlier session
MOST_LINES = 10


@pytest.fixture
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server, names=[request.getfixturevalue("name")])


def _workspace(desk: Desk, name: str) -> Path:
    """Return a workspace with a paused conversation, whose command has sixty lines."""
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
    command = f"# Plan\n\nTopic: {{arguments}}\n\n{RULES}\n"
    (folder / ".workspace/commands/plan.md").write_text(command, encoding="utf-8")
    for path in (".mcp.json", ".claude/settings.json"):  # the program would ask the user to approve them
        (folder / path).unlink()
    _create(desk, folder)
    desk.use(name, folder)
    return folder


def _create(desk: Desk, folder: Path) -> None:
    """Create a conversation that has three exchanges."""
    assert desk.cortext("new", "plan", "Waders", cwd=folder).code == 0
    log = next(folder.glob("conversations/*/*/.session/messages.jsonl"))
    lines = [
        json.dumps({"role": role, "content": text, "timestamp": f"2026-01-14T10:00:0{number}Z"})
        for number, (role, text) in enumerate(SAID)
    ]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _resume(desk: Desk, folder: Path, name: str, words: str) -> tuple[Request, str, Screen]:
    """Resume the conversation; return the request of the first prompt, the screen with the answer, and the terminal."""
    desk.server.forget()
    desk.server.push(*[words] * ENOUGH)
    command = [str(SCRIPTS / "cortext"), "resume", "001", "--ai", name]
    screen = Screen(desk.home.parent, command, desk.env, folder, "150x70")
    try:
        request = desk.server.wait_for(lambda turn: turn.is_turn and END in "\n".join(turn.texts("user")), 170)
        # The words may also be the title that a program shows at once: the conversation is drawn when all of it is.
        return request, screen.wait_for(words, BEGIN, END, *(text for _, text in SAID[-2:]), timeout=120), screen
    except BaseException:
        print(screen.text())
        screen.__exit__()
        raise


def _lines_of_ours(shown: str) -> list[str]:
    """Return the lines of the last text of ours on a screen."""
    lines = shown.splitlines()
    end = max(number for number, line in enumerate(lines) if END in line)
    begin = max(number for number, line in enumerate(lines[: end + 1]) if BEGIN in line)
    begin = max((number for number, line in enumerate(lines[: begin + 1]) if "@.workspace" in line), default=begin)
    return lines[begin : end + 1]


def _check_screen(shown: str, last: list[str]) -> None:
    assert len(_lines_of_ours(shown)) <= MOST_LINES, shown
    above = shown[: shown.rindex(BEGIN)]
    places = [above.rfind(text) for text in last]
    assert -1 not in places and places == sorted(places), f"the last two exchanges, in their order\n{shown}"
    # Gemini CLI itself may forget that it does not show the first message, once it has opened a session.
    assert not re.search(r"Rule \d+ of the plan", shown[places[0] :]), f"the command's text is shown\n{shown}"


def _check_request(request: Request, *, is_said: bool) -> None:
    sent = json.dumps(request.body, ensure_ascii=False)
    assert sent.count("Rule 60 of the plan.") == 1, "the command's text, once"
    spoken = "\n".join(request.texts("user"))
    assert ("Rule 60 of the plan." in spoken) is is_said, "in the system prompt, if the program takes it"


@pytest.mark.real_tool
@pytest.mark.req("SESS-003b", "SESS-004d", "FLOW-02")
@pytest.mark.parametrize("name", list(NAMES))
def test_a_resume_shows_the_last_exchanges_and_at_most_ten_lines_of_ours(desk: Desk, name: str) -> None:
    folder = _workspace(desk, name)
    request, shown, screen = _resume(desk, folder, name, "Picked up: the coots.")
    with screen:
        _check_screen(shown, [text for _, text in SAID[-4:]])
        _check_request(request, is_said=name in ("gemini", "codex"))
        sent = "\n".join(turn.text for turn in request.conversation)
        order = ["Rule 60 of the plan.", "You are continuing a previous conversation.", *(text for _, text in SAID)]
        places = [sent.find(text) for text in order]  # the command's text is before, or not among the messages
        assert places == sorted(places) and -1 not in places[1:], "command, block, history"
        desk.server.forget()
        desk.server.push(*["Three herons."] * ENOUGH)
        desk.say(screen, "Count the herons, please.")
        screen.wait_for("Three herons.")
        wait_until(lambda: desk.cortext("sync", "--from", name, cwd=folder).code == 0 and _has(folder, "Three herons."))
    assert "its own session" in desk.cortext("resume", "001", "--dry-run", cwd=folder).out

    request, shown, screen = _resume(desk, folder, name, "Picked up again.")
    with screen:
        _check_screen(shown, ["Picked up: the coots.", "Count the herons, please.", "Three herons."])
        _check_request(request, is_said=name in ("gemini", "codex"))
        assert "The history is above" in json.dumps(request.body), "what is expected of the model"
    stored = next(folder.glob("conversations/*/*/.session/messages.jsonl")).read_text(encoding="utf-8")
    assert "Rule 60" not in stored and BEGIN not in stored


def _has(folder: Path, words: str) -> bool:
    log = next(folder.glob("conversations/*/*/.session/messages.jsonl"))
    return words in log.read_text(encoding="utf-8")


@pytest.mark.req("SESS-004a", "SESS-004d")
@pytest.mark.parametrize("name", ["claude"])
def test_the_last_exchanges_are_printed_before_a_tool_that_does_not_show_them(desk: Desk, name: str) -> None:
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", name, cwd=folder).code == 0
    _create(desk, folder)
    aider = desk.bin / "aider"
    aider.write_text('#!/bin/sh\n[ "$1" = --version ] && echo aider 0.86.2 && exit\necho "this is aider"; sleep 30\n')
    aider.chmod(0o755)
    command = [str(SCRIPTS / "cortext"), "resume", "001", "--ai", "aider"]
    with Screen(desk.home.parent, command, desk.env, folder, "100x40") as screen:
        shown = screen.wait_for("this is aider")
    spoken = [line.split(maxsplit=1) for line in shown.splitlines() if line.startswith(("  you ", "  answer "))]
    assert spoken == [["you" if role == "user" else "answer", text] for role, text in SAID[-4:]]


@pytest.mark.req("SESS-004a")
@pytest.mark.parametrize("name", ["claude"])
def test_a_dry_run_names_the_option_for_the_command_and_not_its_text(desk: Desk, name: str) -> None:
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", name, cwd=folder).code == 0
    _create(desk, folder)
    planned = desk.cortext("resume", "001", "--ai", name, "--dry-run", cwd=folder)
    assert "--append-system-prompt-file" in planned.out
    assert "How to lead it" not in planned.out and len(planned.out.splitlines()) < 15
