"""Flows of `aur`: incomplete and empty answers, pipes, an immediate Ctrl-C, leaving without a message."""

from __future__ import annotations

import json
import os
import signal
import threading
from functools import partial

import pytest

from tests.agents.aur.kit import Aur
from tests.agents.aur.test_loop import WAIT, holder
from tests.support.cli import cortext
from tests.support.model_server import Reply
from tests.support.screen import Screen
from tests.support.waiting import wait_until


@pytest.mark.req("MODEL-02", "SPAWN-03")
@pytest.mark.parametrize(
    ("provider", "stop"),
    [
        *((provider, "length") for provider in ("openai", "anthropic", "gemini", "ollama")),
        *((provider, "filtered") for provider in ("openai", "anthropic", "gemini")),  # Ollama has no filter
    ],
)
def test_an_incomplete_answer_is_reported_with_every_provider(aur: Aur, provider: str, stop: str) -> None:
    env = {
        "OPENAI_BASE_URL": f"{aur.server.url}/v1",
        "ANTHROPIC_BASE_URL": aur.server.url,
        "GOOGLE_GEMINI_BASE_URL": aur.server.url,
        **{f"{name}_API_KEY": "k" for name in ("OPENAI", "ANTHROPIC", "GEMINI")},
    }
    aur.server.push(Reply(text="The first half and", stop=stop))
    done = aur("spawn", "Tell me", "--session", "cut", "--json", "--model", f"{provider}/test", env=env)
    assert (done.code, done.json["stop"], done.json["reply"]) == (8, stop, "The first half and")
    line = aur.lines("cut")[2]
    assert line["extra"] == {"stop": stop} and "partial" not in line


@pytest.mark.req("SPAWN-03", "SPAWN-10")
def test_a_cut_answer_is_continued(aur: Aur) -> None:
    aur.server.push(Reply(text="One, two,", stop="length"), "three.")
    done = aur("spawn", "Count", "--session", "count")
    assert done.code == 8 and done.out.strip() == "One, two,"
    assert "the answer is incomplete" in done.err and 'aur spawn --resume count "go on"' in done.err
    assert "incomplete" not in done.out
    resumed = aur("spawn", "--resume", "count", stdin="/continue\n/continue\n")
    assert "three." in resumed.out and "was not cut off" in resumed.err
    assert aur.turns("count") == [("user", "Count"), ("assistant", "One, two,"), ("assistant", "three.")]
    assert aur.server.turns[-1].texts("assistant") == ["One, two,"]


@pytest.mark.req("SPAWN-03", "LOOK-01")
def test_an_empty_and_a_failed_answer_are_errors_that_name_the_session(aur: Aur) -> None:
    aur.server.push("", Reply.error(400, "no such thing"))
    done = aur("spawn", "Hello", "--session", "silent")
    assert (
        done.code == 8 and "the model gave an empty answer" in done.err and aur.turns("silent") == [("user", "Hello")]
    )
    failed = aur("spawn", "Hello", "--session", "failing", "--json")
    assert failed.code == 8 and failed.json["error"]["session_id"] == "failing"


@pytest.mark.req("LOOK-01")
def test_a_pipe_is_read_with_and_without_a_dash(aur: Aur) -> None:
    assert aur("spawn", "Review", "--session", "one", stdin="+ a line\n").code == 0
    assert aur("spawn", "Before", "-", "after", "--session", "two", stdin="+ a line\n").code == 0
    assert aur("spawn", "Alone", "--session", "three").code == 0
    questions = [aur.turns(name)[0][1] for name in ("one", "two", "three")]
    assert questions == ["Review\n\n+ a line", "Before + a line after", "Alone"]


@pytest.mark.req("SPAWN-01", "SPAWN-06")
def test_a_conversation_without_messages_leaves_no_session(aur: Aur) -> None:
    with aur.screen("spawn", "-i", "--session", "left") as screen:
        screen.wait_for("assistant>", timeout=WAIT)
        assert aur.file("left").exists(), "the file is created at the start"
        screen.type("/agent architect")
        screen.press("Enter")
        screen.wait_for("architect>", timeout=WAIT)
        screen.press("C-d")
        screen.wait_for("No messages were sent, so no session was kept.", timeout=WAIT)
        assert screen.wait_for_end(WAIT) == 0
    with aur.screen("spawn", "-i", "--session", "closed", name="two") as screen:
        screen.wait_for("assistant>", timeout=WAIT)
        os.kill(holder(aur, "closed"), signal.SIGHUP)
        assert screen.wait_for_end(WAIT) == 128 + signal.SIGHUP
    assert aur("spawn", "--list-sessions", "--json").json == []


@pytest.mark.req("SPAWN-01", "SPAWN-06")
def test_a_conversation_killed_before_its_first_message_leaves_no_session(aur: Aur) -> None:
    with aur.screen("spawn", "-i", "--session", "killed") as screen:
        screen.wait_for("assistant>", timeout=WAIT)
        os.kill(holder(aur, "killed"), signal.SIGKILL)
        assert screen.wait_for_end(WAIT) == 128 + signal.SIGKILL
    assert aur("spawn", "--list-sessions", "--json").json == []
    assert cortext("list", "--json", cwd=aur.folder).json == []
    with aur.screen("spawn", "-i", "--session", "next", name="two") as screen:
        screen.wait_for("assistant>", timeout=WAIT)
        wait_until(lambda: not aur.file("killed").exists(), WAIT)
        screen.type("Hello?")
        screen.press("Enter")
        wait_until(lambda: len(aur.turns("next")) == 2, WAIT)
        os.kill(holder(aur, "next"), signal.SIGKILL)  # after its first message it is kept
        screen.wait_for_end(WAIT)
    [kept] = aur("spawn", "--list-sessions", "--json").json
    assert (kept["id"], kept["status"], kept["message_count"]) == ("next", "interrupted", 2)


@pytest.mark.req("SPAWN-10", "SPAWN-03")
def test_ctrl_c_right_after_enter_stops_the_turn_and_keeps_the_message(aur: Aur) -> None:
    hold = threading.Event()
    aur.server.push(*[Reply(text="never complete", hold=hold)] * 6)  # for the questions that reach the model
    with aur.screen("spawn", "-i", "--session", "quick") as screen:
        screen.wait_for("assistant>", timeout=WAIT)
        for count in range(1, 7):
            screen.at_prompt().type(f"question {count}")  # before, Ctrl-C would be for the answer before
            screen.press("Enter", "C-c")
            screen.wait_for(*[f"question {number}" for number in range(1, count + 1)], timeout=WAIT)
            wait_until(partial(_has_stopped, screen, count), WAIT, screen.text)
        hold.set()
        screen.press("C-d")
        assert screen.wait_for_end(WAIT) == 0
    questions = [text for role, text in aur.turns("quick") if role == "user"]
    assert questions == [f"question {number}" for number in range(1, 7)]
    assert all(line.get("partial") for line in aur.lines("quick")[1:] if line["role"] == "assistant")


def _has_stopped(screen: Screen, count: int) -> bool:
    return screen.text().count("stopped;") >= count


@pytest.mark.req("SPAWN-10")
def test_the_model_is_told_that_a_question_got_no_answer(aur: Aur) -> None:
    aur.server.push(Reply.error(400, "no"), "Second answer.")
    done = aur("spawn", "-i", "--session", "gap", stdin="First question\nSecond question\n")
    assert "Second answer." in done.out
    [asked] = aur.server.turns[-1].texts("user")
    before, note, after = asked.split("\n\n")
    assert (before, after) == ("First question", "Second question") and "got no answer" in note
    assert json.dumps(note) not in aur.file("gap").read_text(encoding="utf-8"), "the notice is not stored"


@pytest.mark.req("MODEL-01")
def test_an_endpoint_that_does_not_answer_is_named(aur: Aur) -> None:
    """Its key is set, so the user wants this provider: "no model is available" would not help."""
    aur.env = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "k", "CORTEXT_MODEL_RETRIES": "0"}
    done = aur("spawn", "Hello", "--session", "unreachable", "--json")
    assert done.code == 8 and done.json["error"]["code"] == "model-unreachable"
    assert "127.0.0.1:9" in json.dumps(done.json["error"]) and aur.turns("unreachable") == [("user", "Hello")]
