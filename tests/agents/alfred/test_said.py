"""What `alfred` says of what it found: an unanswered message, a damaged file, bytes that are no text."""

from __future__ import annotations

import datetime
import os
import signal
import threading
from pathlib import Path

import pytest

from cortext.agents.assistant.memory import Memory
from cortext.agents.telegram.formatting import render
from cortext.errors import UsageError
from cortext.store.files.assistant import FileFacts
from tests.agents.alfred.kit import Parrot, alfred, environment, sessions_of
from tests.support.cli import SCRIPTS, run
from tests.support.model_server import Reply
from tests.support.screen import ShellScreen

LATIN = b"a first line\ncaf\xe9\n".decode("utf-8", "surrogateescape")


@pytest.mark.req("CHAT-05", "CHAT-06")
def test_after_a_kill_the_last_message_is_said_to_have_no_answer(home: Path, model: Parrot, tmp_path: Path) -> None:
    never = threading.Event()
    env = environment(home, model)
    command = ["bash", "-c", 'echo $$ >"$HOME/pid"; exec "$0"', str(SCRIPTS / "alfred")]
    (tmp_path / "a").mkdir()
    with ShellScreen(tmp_path / "a", command, env, home) as screen:
        screen.wait_for("you>")
        model.push(Reply(text="endless words that nobody reads", hold=never, hold_at=2))
        screen.type("what was it?")
        screen.press("Enter")
        screen.wait_for("endless")
        os.kill(int((home / "pid").read_text(encoding="utf-8")), signal.SIGKILL)
        screen.wait_for_end()
    (tmp_path / "b").mkdir()
    with ShellScreen(tmp_path / "b", [str(SCRIPTS / "alfred")], env, home) as screen:
        screen.wait_for("Current session:", "your last message has no answer yet; /retry asks again", "you>")
        screen.type("/retry")
        screen.press("Enter")
        screen.wait_for("Answer to what was it?")
        screen.at_prompt().press("C-d")
        assert screen.wait_for_end() == 0


@pytest.mark.req("CHAT-06")
@pytest.mark.parametrize("written", ["{not json", '{"session_id": "../x"}', '{"session_id": 7}', "[]"])
def test_a_damaged_current_json_is_said_and_kept(home: Path, model: Parrot, written: str) -> None:
    env = environment(home, model)
    alfred(env, "hello")
    current = sessions_of(home) / "current.json"
    current.write_text(written, encoding="utf-8")
    done = alfred(env, "again")
    assert done.code == 0 and "current.json" in done.err and "/sessions lists them" in done.err
    assert (sessions_of(home) / "current.json.damaged").read_text(encoding="utf-8") == written
    assert "current.json" not in alfred(env, "once more").err


@pytest.mark.req("CHAT-10")
def test_a_fact_that_has_expired_is_not_remembered(tmp_path: Path) -> None:
    memory = Memory(FileFacts(str(tmp_path / "memories.jsonl")))
    today = datetime.datetime.now(datetime.UTC).date()
    for past in ("2020-01-31", "2020-01-31T09:30Z", str(today - datetime.timedelta(days=2))):
        with pytest.raises(UsageError, match="has passed") as refused:
            memory.remember("On holiday", expires=past)
        assert refused.value.kept == "nothing was remembered"
    memory.remember("On holiday", expires=str(today + datetime.timedelta(days=1)))
    assert [fact.text for fact in memory.all()] == ["On holiday"]


@pytest.mark.req("CHAT-05", "SPAWN-10")
@pytest.mark.parametrize("program", [["alfred"], ["alfred", "-"], ["aur", "spawn", "Review"], ["aur", "spawn", "-i"]])
def test_bytes_that_are_not_utf8_are_an_error(home: Path, model: Parrot, program: list[str]) -> None:
    name, *arguments = program
    done = run([str(SCRIPTS / name), *arguments], env=environment(home, model), stdin=LATIN)
    assert done.code == 2
    assert "standard input is not UTF-8: byte 0xe9" in done.err
    assert "caf" not in "".join(str(request.body) for request in model.turns)


@pytest.mark.req("MODEL-02")
@pytest.mark.parametrize("program", [["alfred", "--json", "tell me"], ["aur", "spawn", "--json", "tell me"]])
def test_an_error_as_json_carries_the_part_that_arrived(home: Path, model: Parrot, program: list[str]) -> None:
    model.push(Reply(text="half of the answer is here", cut_after=4))
    name, *arguments = program
    done = run([str(SCRIPTS / name), *arguments], env=environment(home, model))
    assert done.code == 8
    error = done.json["error"]
    assert error["code"] == "model-cut" and error["session_id"]
    assert error["reply"].startswith("half") and "half of the answer is here".startswith(error["reply"])


def test_marks_of_direction_are_kept_on_the_phone() -> None:
    assert render("שלום (abc)\u200f, abc\u200e!").text == "שלום (abc)\u200f, abc\u200e!"
