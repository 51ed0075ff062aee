"""Flows of the assistant: no model, an immediate Ctrl-C, answers that are cut off, and the buttons of the bot."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.agents.alfred.kit import Bot, Parrot, alfred, environment, messages_of, sessions_of
from tests.support.cli import SCRIPTS
from tests.support.model_server import Reply
from tests.support.runners import make_tool
from tests.support.screen import ShellScreen
from tests.support.telegram_server import Fault, TelegramServer
from tests.support.waiting import wait_until

ME = 4711


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as server:
        yield server


@pytest.mark.req("CHAT-04", "MODEL-01")
def test_without_a_model_no_session_is_started(home: Path, tmp_path: Path) -> None:
    env = {**environment(home), "PATH": "/usr/bin:/bin"}
    for arguments in (("hello",), ("--new", "hello")):
        done = alfred(env, *arguments)
        assert done.code == 8 and "nothing was stored, and no session was started" in done.err
    as_json = alfred(env, "--json", "hello")
    assert as_json.code == 8 and "no session was started" in as_json.json["error"]["kept"]
    with ShellScreen(tmp_path, [str(SCRIPTS / "alfred")], env, home) as screen:
        screen.wait_for("you>")
        screen.type("hello there")
        screen.press("Enter")
        # The message is at the prompt again.
        screen.wait_for(
            "No model is available yet.", "your message is at the prompt again", "nothing was stored you> hello there"
        )
        screen.press("C-c")
        screen.wait_for("press Ctrl-D or type /exit to leave")
        screen.press("C-d")
        screen.wait_for_end()
    folder = sessions_of(home)
    assert not folder.exists() or not [path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]


def _is_asked_to_retry(screen: ShellScreen, count: int) -> bool:
    return screen.text().count("/retry asks again") >= count


@pytest.mark.req("CHAT-05", "SPAWN-10")
def test_ctrl_c_right_after_enter_keeps_the_message(home: Path, model: Parrot, tmp_path: Path) -> None:
    held = threading.Event()
    model.push(*[Reply(text="never complete", hold=held)] * 4)
    with ShellScreen(tmp_path, [str(SCRIPTS / "alfred")], environment(home, model), home) as screen:
        screen.wait_for("you>")
        for count in range(1, 5):
            screen.type(f"question {count}")
            screen.press("Enter", "C-c")
            wait_until(partial(_is_asked_to_retry, screen, count), why=screen.text)
        held.set()
        screen.press("C-d")
        assert screen.wait_for_end() == 0
    [session] = [path.name for path in sessions_of(home).glob("sess_*")]
    questions = [line["content"] for line in messages_of(home, session) if line["role"] == "user"]
    assert questions == [f"question {number}" for number in range(1, 5)]


@pytest.mark.req("CHAT-05", "MODEL-02")
def test_a_cut_answer_is_reported_and_continued_on_the_command_line(home: Path, model: Parrot) -> None:
    env = environment(home, model)
    model.push(Reply(text="One, two,", stop="length"), "three.")
    cut = alfred(env, "--json", "--new", "count")
    assert (cut.code, cut.json["stop"], cut.json["reply"]) == (8, "length", "One, two,")
    assert messages_of(home, cut.json["session_id"])[1]["extra"] == {"stop": "length"}
    continued = alfred(env, "/continue")
    assert continued.code == 0 and continued.out.strip() == "three."
    assert "nothing to answer" in alfred(env, "/continue").err
    model.push("")
    empty = alfred(env, "--json", "and now?")
    assert empty.code == 8 and "empty answer" in empty.json["error"]["message"]
    assert empty.json["error"]["session_id"] == cut.json["session_id"]
    assert alfred(env, "piped words follow", stdin="through the pipe").out.strip().endswith("through the pipe")


def _last(telegram: TelegramServer) -> str:
    said = telegram.said(ME)
    return said[-1] if said else ""


@pytest.mark.req("CHAT-13", "CHAT-10", "CHAT-02")
def test_the_bot_offers_buttons_for_the_next_step(home: Path, model: Parrot, telegram: TelegramServer) -> None:
    env = environment(home, model, telegram)
    telegram.fail("getMe", Fault(502))
    telegram.fail("deleteWebhook", Fault(500), Fault(429, retry_after=1))
    with Bot(env, telegram) as bot:
        assert "Telegram is unreachable" in bot.logged(), "the bot survives errors at its start"
        # A button asks a failed question again.
        model.push(Reply.error(400, "no such thing"), "At last.")
        telegram.say(ME, "a question")
        telegram.wait_for(lambda: "/retry asks again" in _last(telegram) and telegram.sent(ME)[-1].buttons)
        assert "--model" not in _last(telegram) and "_API_KEY" not in _last(telegram)
        telegram.touch(telegram.sent(ME)[-1], "Ask again")
        telegram.wait_for(lambda: _last(telegram) == "At last.")
        assert telegram.count("answerCallbackQuery") == 1
        telegram.say(ME, "/retry")
        telegram.wait_for(lambda: _last(telegram).startswith("There is nothing to answer"))
        # An answer that was cut off is reported, and a button continues it.
        model.push(Reply(text="One, two,", stop="length"), "three.")
        telegram.say(ME, "count")
        telegram.wait_for(lambda: "the answer is incomplete" in _last(telegram) and telegram.sent(ME)[-1].buttons)
        telegram.touch(telegram.sent(ME)[-1], "Continue")
        telegram.wait_for(lambda: _last(telegram) == "three.")
        answer = telegram.sent(ME)[-1]
        # Commands of the menu come without arguments: they offer a choice. A stranger's tap is refused.
        telegram.say(ME, "/resume")
        telegram.wait_for(lambda: "Resume which one?" in _last(telegram) and telegram.sent(ME)[-1].buttons)
        [(label, command)] = telegram.sent(ME)[-1].buttons
        assert command == "/resume tg_4711"
        telegram.touch(telegram.sent(ME)[-1], label, user=666)
        telegram.touch(telegram.sent(ME)[-1], label)
        telegram.wait_for(lambda: _last(telegram) == "Resumed session tg_4711 (5 messages)")
        assert "user 666 is not on the list" in bot.logged() and answer.text == "three."
        telegram.say(ME, "/remember preference: tea over coffee")
        telegram.wait_for(lambda: "(preference): tea over coffee" in _last(telegram))
        telegram.say(ME, "/remember")
        telegram.wait_for(lambda: "fact, preference or instruction" in _last(telegram) or "KIND" in _last(telegram))
        telegram.say(ME, "/forget")
        telegram.wait_for(lambda: "Forget which one?" in _last(telegram) and telegram.sent(ME)[-1].buttons)
        telegram.touch(telegram.sent(ME)[-1], "tea over coffee")
        telegram.wait_for(lambda: _last(telegram) == "Forgotten: tea over coffee")
    lines = (home / ".local" / "share" / "alfred" / "memory" / "memories.jsonl").read_text(encoding="utf-8")
    assert json.loads(lines.splitlines()[0])["kind"] == "preference"
    stored = [(line["role"], line["content"]) for line in messages_of(home, "tg_4711")]
    assert stored == [
        ("user", "a question"),
        ("assistant", "At last."),
        ("user", "count"),
        ("assistant", "One, two,"),
        ("assistant", "three."),
    ]


@pytest.mark.req("CHAT-13")
def test_without_a_model_the_bot_stores_the_message(home: Path, model: Parrot, telegram: TelegramServer) -> None:
    env = {**environment(home, None, telegram), "PATH": "/usr/bin:/bin"}
    with Bot(env, telegram):
        telegram.say(ME, "remember the milk")
        telegram.wait_for(lambda: "has to be set up on the command line" in _last(telegram))
        assert "export" not in _last(telegram) and "pip" not in _last(telegram)
    with Bot(environment(home, model, telegram), telegram):
        telegram.say(ME, "/retry")
        telegram.wait_for(lambda: _last(telegram) == "Answer to remember the milk")


@pytest.mark.real_tool
@pytest.mark.req("CHAT-10", "MODEL-01")
def test_the_prompt_for_a_cli_model_names_no_tools(home: Path, model: Parrot, tmp_path: Path) -> None:
    program = make_tool("claude-code", tmp_path / "home", model.url)
    (tmp_path / "bin").mkdir()
    os.symlink(program.program, tmp_path / "bin" / "claude")
    path = f"{tmp_path / 'bin'}{os.pathsep}{program.env['PATH']}"
    env = {**program.env, "PATH": path, "CORTEXT_MODEL": "cli/claude"}
    model.push("Good morning.")
    done = alfred(env, "--new", "what did we say about the visa?")
    assert done.code == 0, done.err
    assert done.out.strip() == "Good morning."
    assert "cli/claude cannot search past sessions" in done.err
    body = json.dumps(model.turns[-1].body)
    assert "You are Alfred" in body and "/search" in body
    assert not any(name in body for name in ("search_sessions", "search_memories"))
