"""Keys that are pressed before the prompt appears: shown once, and part of the next message."""

from __future__ import annotations

import os
import threading

import pytest

from tests.agents.aur.kit import Aur
from tests.support.cli import SCRIPTS
from tests.support.model_server import Reply
from tests.support.screen import ShellScreen

WAIT = 60.0


@pytest.mark.req("SPAWN-10")
def test_keys_typed_ahead_are_shown_once_at_the_prompt(aur: Aur) -> None:
    hold = threading.Event()
    aur.server.push("First answer.", Reply(text="word " * 20, hold=hold), "Third answer.")
    with aur.screen("spawn", "-i", "--agent", "qa-test", "--session", "talk") as screen:
        screen.type("typed before anything")  # while the program starts
        screen.press("Enter")
        screen.wait_for("First answer.", timeout=WAIT)
        screen.type("a second question")
        screen.press("Enter")
        aur.server.wait_for(lambda request: request.number == 2 and request.is_turn, timeout=WAIT)
        screen.type("typed while it answers")
        screen.press("Enter")
        screen.type("and not yet sent")
        hold.set()
        shown = screen.wait_for("Third answer.", "qa-test> and not yet sent", timeout=WAIT)
        for text in ("a second question", "typed while it answers", "and not yet sent"):
            assert shown.count(text) == 1, shown
            assert f"qa-test> {text}" in shown
        assert "qa-test> typed before anything" in shown
        screen.press("C-u")
        screen.press("C-d")
        screen.wait_for("Saved. Continue with", timeout=WAIT)
        assert screen.wait_for_end() == 0
    assert [text for role, text in aur.turns("talk") if role == "user"] == [
        "typed before anything", "a second question", "typed while it answers",
    ]  # fmt: skip


@pytest.mark.req("SPAWN-10", "SPAWN-03")
def test_ctrl_c_stops_an_answer_and_keeps_the_line_typed_ahead(aur: Aur) -> None:
    never = threading.Event()
    aur.server.push(Reply(text="word " * 20, hold=never), "Second answer.")
    with aur.screen("spawn", "-i", "--agent", "qa-test", "--session", "talk") as screen:
        screen.wait_for("qa-test>", timeout=WAIT)
        screen.type("a first question")
        screen.press("Enter")
        screen.wait_for("a first question word", timeout=WAIT)
        screen.type("typed while it answers")
        screen.press("Enter", "C-c")
        screen.wait_for("stopped;", "Second answer.", timeout=WAIT)
        screen.at_prompt().press("C-d")
        assert screen.wait_for_end() == 0
    asked = [text for role, text in aur.turns("talk") if role == "user"]
    assert asked == ["a first question", "typed while it answers"]


@pytest.mark.req("SPAWN-10", "SPAWN-03")
def test_ctrl_c_is_a_key_from_the_announced_prompt_to_the_real_one(aur: Aur) -> None:
    """As a signal in between, it discarded what had been typed: rarely, and only on a busy machine."""
    aur.server.push("First answer.")
    (aur.home / "sitecustomize.py").write_text(_RECORDER, encoding="utf-8")
    aur.env |= {"PYTHONPATH": str(aur.home), "MODES": str(aur.home / "modes")}
    with aur.screen("spawn", "-i", "--agent", "qa-test", "--session", "talk") as screen:
        screen.wait_for("qa-test>", timeout=WAIT)
        screen.type("a first question")
        screen.press("Enter")
        screen.wait_for("First answer.", timeout=WAIT)
        screen.at_prompt().press("C-d")
        assert screen.wait_for_end() == 0
    modes = (aur.home / "modes").read_text(encoding="utf-8").split()
    changes = [mode for index, mode in enumerate(modes) if index == 0 or mode != modes[index - 1]]
    assert changes == ["signal", "key", "signal", "key", "signal"], "two prompts"


_RECORDER = """
import os, sys, termios
change = termios.tcsetattr
def recorded(descriptor, when, settings):
    change(descriptor, when, settings)
    with open(os.environ["MODES"], "a") as log:
        log.write("signal\\n" if settings[3] & termios.ISIG else "key\\n")
termios.tcsetattr = recorded
"""


@pytest.mark.req("SPAWN-10")
def test_the_terminal_echo_is_restored_after_a_conversation(aur: Aur) -> None:
    """An unknown agent is asked for before the conversation starts: that answer is echoed while it is typed."""
    command = f'{SCRIPTS / "aur"} spawn -i --agent nobody --session talk; stty -a | tr " " "\\n" | grep "echo$"'
    folder = aur.home / "screen"
    folder.mkdir()
    environ = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", "LANG": "C.UTF-8", **aur.env}
    with ShellScreen(folder, ["bash", "-c", command], environ, aur.folder, "100x40") as screen:
        screen.wait_for("Agent:", timeout=WAIT)
        screen.type("general-p")
        screen.wait_for("Agent: general-p", timeout=WAIT)
        for _ in "general-p":
            screen.press("BSpace")
        screen.press("Enter")
        shown = screen.wait_for("\necho", timeout=WAIT)
        assert screen.wait_for_end() == 0
        assert "-echo" not in shown.splitlines()
