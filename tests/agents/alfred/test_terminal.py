"""`alfred` in a real terminal: typing, Tab, streaming and Ctrl-C."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.agents.alfred.kit import Parrot, environment, messages_of, sessions_of
from tests.support.cli import SCRIPTS
from tests.support.model_server import Reply
from tests.support.screen import ShellScreen


@pytest.mark.req("CHAT-02", "CHAT-14")
def test_a_conversation_in_a_terminal(home: Path, model: Parrot, tmp_path: Path) -> None:
    env = environment(home, model)
    held = threading.Event()
    with ShellScreen(tmp_path, [str(SCRIPTS / "alfred")], env, home) as screen:
        screen.wait_for("you>")
        screen.type("hello there")
        screen.press("Enter")
        shown = screen.wait_for("Answer to hello", "Created session sess_")
        session = next(word.rstrip(".") for word in shown.split() if word.startswith("sess_"))
        screen.type("/new")
        screen.press("Enter")
        screen.wait_for("you> /new Created session sess_")
        # Tab completes commands and ids.
        screen.at_prompt().type("/resu")
        screen.press("Tab")
        screen.type(session[:9])
        screen.press("Tab")
        screen.wait_for(f"/resume {session}")
        screen.press("Enter")
        screen.wait_for(f"Resumed session {session} (2 messages)")
        # Ctrl-C stops the answer, not the program; the partial reply is stored, but not in the context.
        model.push(Reply(text="slow words that never end", hold=held, hold_at=3))
        screen.type("tell me more")
        screen.press("Enter")
        screen.wait_for("slow words")
        screen.press("C-c")
        screen.wait_for("stopped; the partial answer is stored")
        screen.type("and on")
        screen.press("Enter")
        # The model is told that the stopped question got no answer.
        screen.wait_for("Answer to tell me more", "The message above got no answer", "and on")
        screen.at_prompt().press("C-d")
        assert screen.wait_for_end() == 0
    messages = messages_of(home, session)
    assert [message["role"] for message in messages].count("user") == 3
    assert [message.get("partial", False) for message in messages if message["role"] == "assistant"] == [
        False,
        True,
        False,
    ]
    assert "slow words" not in str(model.turns[-1].body)
    assert {path.name for path in sessions_of(home).glob("sess_*")} >= {session}


@pytest.mark.req("CHAT-04", "MODEL-01")
def test_the_first_screen_names_the_model_and_what_it_can_do(home: Path, model: Parrot, tmp_path: Path) -> None:
    env = environment(home, model)
    for said, unsaid in (
        ("I keep every conversation, find and continue", "Current session"),
        ("Current session", "I keep"),
    ):
        with ShellScreen(tmp_path, [str(SCRIPTS / "alfred")], env, home) as screen:
            shown = screen.wait_for(f"alfred · {env['CORTEXT_MODEL']}", said, "/help lists the commands", "you>")
            assert unsaid not in shown
            screen.type("hello")
            screen.press("Enter")
            screen.wait_for("Answer to hello")
            screen.at_prompt().press("C-d")
            assert screen.wait_for_end() == 0


@pytest.mark.req("MODEL-01")
def test_without_a_model_the_first_screen_says_how_to_set_one_up(home: Path, tmp_path: Path) -> None:
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OLLAMA_HOST": "127.0.0.1:9"}
    with ShellScreen(tmp_path, [str(SCRIPTS / "alfred")], env, home) as screen:
        screen.wait_for("No model is available yet. Set up any one of these:", "ANTHROPIC_API_KEY", "you>")
        screen.at_prompt().press("C-d")
        assert screen.wait_for_end() == 0


@pytest.mark.req("CHAT-05", "SPAWN-10")
def test_a_paste_before_the_prompt_is_one_message_of_alfred(home: Path, model: Parrot, tmp_path: Path) -> None:
    lines = "\n".join(f"line {number} of a pasted log" for number in range(1, 61))
    with ShellScreen(tmp_path, [str(SCRIPTS / "alfred")], environment(home, model), home) as screen:
        screen.wait_for("you>")
        screen.paste(f"{lines}\n", marked=False)  # its last newline sends it, once
        screen.wait_for("Answer to")
        screen.at_prompt().press("C-d")
        assert screen.wait_for_end() == 0
    [session] = [path.name for path in sessions_of(home).glob("sess_*")]
    assert [line["content"] for line in messages_of(home, session) if line["role"] == "user"] == [lines]
    assert len(model.turns) == 1
