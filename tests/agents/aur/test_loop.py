"""Conversations in a real terminal: typing, streaming, Ctrl-C, kill -9, two terminals, a full disk, a corrupt file."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
from pathlib import Path

import pytest

from cortext.agents.talk.context import View
from cortext.store.files.spawn import SpawnStore
from tests.agents.aur.kit import Aur
from tests.support.model_server import Reply
from tests.support.waiting import wait_until

WAIT = 30.0


def holder(aur: Aur, session_id: str) -> int:
    """Return the id of the process that holds the lock of a session."""
    lock = aur.sessions / ".cortext" / "locks" / f"{session_id}.lock"

    def held_by() -> str:
        fields = lock.read_text(encoding="utf-8").split() if lock.exists() else []
        return fields[1] if fields[:1] == ["held"] else ""

    return int(wait_until(held_by, WAIT, f"a process holds {session_id}"))


@pytest.mark.req("SPAWN-10", "SPAWN-01", "SPAWN-06", "SPAWN-11")
def test_a_conversation_with_several_lines_history_ctrl_c_and_ctrl_d(aur: Aur) -> None:
    hold = threading.Event()
    aur.server.push("# Fine\n\n**Three** things.", Reply(text="word " * 40, hold=hold), "After that.")
    with aur.screen("spawn", "-i", "--agent", "qa-test", "--session", "talk") as screen:
        screen.wait_for("qa-test>", timeout=WAIT)
        screen.type("How are \\")
        screen.press("Enter")
        screen.type("the tests?")
        screen.press("Enter")
        screen.wait_for("# Fine", "**Three** things.", timeout=WAIT)
        assert aur.turns("talk")[0] == ("user", "How are \nthe tests?")
        screen.type("Tell me more")
        screen.press("Enter")
        aur.server.wait_for(lambda request: request.number == 2 and request.is_turn, timeout=WAIT)
        screen.wait_for("Tell me more word", timeout=WAIT)
        screen.press("C-c")
        screen.wait_for("stopped; the partial answer is stored", timeout=WAIT)
        hold.set()
        assert aur.lines("talk")[-1]["partial"] is True
        screen.at_prompt().press("Up", "Up")
        screen.press("C-c")
        screen.wait_for("press Ctrl-D or type /exit to leave", timeout=WAIT)
        screen.type("/nonsense")
        screen.press("Enter")
        screen.wait_for("unknown command /nonsense", timeout=WAIT)
        screen.at_prompt().press("Up", "Up", "Enter")  # the message is in the history, before the command
        screen.wait_for("After that.", timeout=WAIT)
        assert aur.server.turns[-1].texts("user")[-1].endswith("Tell me more")
        assert aur.server.turns[-1].texts("assistant") == ["# Fine\n\n**Three** things."], (
            "the partial reply is not in the context"
        )
        screen.at_prompt().press("C-d")
        screen.wait_for("Saved. Continue with: aur spawn --resume talk", timeout=WAIT)
    assert aur.lines("talk")[0]["status"] == "completed"
    assert aur.turns("talk")[-1] == ("assistant", "After that.")


@pytest.mark.req("SPAWN-10", "SPAWN-03")
def test_the_part_of_a_reply_that_arrived_before_a_stop_is_kept(aur: Aur) -> None:
    hold = threading.Event()
    # The first event is one word; the rest of the stream waits for `hold`.
    aur.server.push(Reply(text="Begun and then never ended", hold=hold))
    with aur.screen("spawn", "-i", "--session", "half") as screen:
        screen.wait_for("assistant>", timeout=WAIT)
        screen.type("Go")
        screen.press("Enter")
        aur.server.wait_for(lambda request: request.is_turn, timeout=WAIT)
        screen.wait_for("Begun", timeout=WAIT)
        screen.press("C-c")
        screen.wait_for("stopped;", timeout=WAIT)
        hold.set()
        screen.at_prompt().press("C-d")
        screen.wait_for("Saved.", timeout=WAIT)
    line = aur.lines("half")[2]
    assert (line["role"], line["content"], line["partial"]) == ("assistant", "Begun", True)


@pytest.mark.req("SPAWN-06", "SPAWN-04", "SPAWN-03")
def test_a_killed_conversation_is_interrupted_and_can_be_resumed(aur: Aur) -> None:
    hold = threading.Event()
    aur.server.push("First.", Reply(text="never seen", hold=hold))
    with aur.screen("spawn", "-i", "--agent", "architect", "--session", "doomed") as screen:
        screen.wait_for("architect>", timeout=WAIT)
        screen.type("One")
        screen.press("Enter")
        screen.wait_for("First.", timeout=WAIT)
        screen.type("Two")
        screen.press("Enter")
        aur.server.wait_for(lambda request: request.is_turn and "Two" in request.texts(), timeout=WAIT)
        os.kill(holder(aur, "doomed"), signal.SIGKILL)
        assert screen.wait_for_end(WAIT) == 128 + signal.SIGKILL
    hold.set()
    [row] = aur("spawn", "--list-sessions", "--json").json
    assert (row["status"], row["message_count"], row["agent"]) == ("interrupted", 3, "architect")
    aur.server.push("Second, at last.")
    with aur.screen("spawn", "--resume", "doomed", name="two") as screen:
        screen.wait_for("(3 turns)", "has no answer yet", "architect>", timeout=WAIT)
        screen.type("/retry")
        screen.press("Enter")
        screen.wait_for("Second, at last.", timeout=WAIT)
        screen.type("/exit")
        screen.press("Enter")
        screen.wait_for("Saved.", timeout=WAIT)
    assert aur.server.turns[-1].texts()[1:] == ["One", "First.", "Two"]
    assert aur.turns("doomed") == [
        ("user", "One"),
        ("assistant", "First."),
        ("user", "Two"),
        ("assistant", "Second, at last."),
    ]


@pytest.mark.req("SPAWN-06", "SPAWN-10")
def test_a_terminal_that_closes_in_mid_reply_leaves_a_partial_reply(aur: Aur) -> None:
    hold = threading.Event()
    aur.server.push(Reply(text="Begun and then never ended", hold=hold))
    with aur.screen("spawn", "-i", "--session", "hung-up") as screen:
        screen.wait_for("assistant>", timeout=WAIT)
        screen.type("Go")
        screen.press("Enter")
        screen.wait_for("Begun", timeout=WAIT)
        os.kill(holder(aur, "hung-up"), signal.SIGHUP)
        assert screen.wait_for_end(WAIT) == 128 + signal.SIGHUP
    hold.set()
    assert [(line["content"], line.get("partial", False)) for line in aur.lines("hung-up")[1:]] == [
        ("Go", False),
        ("Begun", True),
    ]
    [row] = aur("spawn", "--list-sessions", "--json").json
    assert row["status"] == "interrupted"
    with aur.screen("spawn", "--resume", "hung-up", name="two") as screen:
        screen.wait_for("has no answer yet", "assistant>", timeout=WAIT)
        os.kill(holder(aur, "hung-up"), signal.SIGTERM)  # at the prompt, between two turns
        assert screen.wait_for_end(WAIT) == 128 + signal.SIGTERM


@pytest.mark.req("STORE-05", "SPAWN-03", "SPAWN-12")
def test_a_second_terminal_is_told_which_process_holds_the_session(aur: Aur) -> None:
    with aur.screen("spawn", "-i", "--agent", "nobody", "--session", "mine") as screen:
        screen.wait_for("Unknown agent 'nobody'", "researcher", "Agent:", timeout=WAIT)
        screen.type("resea")
        screen.press("Enter")
        screen.wait_for("researcher>", timeout=WAIT)
        pid = holder(aur, "mine")
        with aur.screen("spawn", "--resume", "mine", name="two") as other:
            other.wait_for(f"process {pid} on", "continue in that terminal", timeout=WAIT)
        screen.type("Still mine")
        screen.press("Enter")
        screen.wait_for("Hello from the test model", timeout=WAIT)
    assert len(aur.turns("mine")) == 2 and aur.lines("mine")[0]["agent"] == "researcher"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit to lift the limit of another process")
@pytest.mark.req("STORE-07", "SPAWN-03")
def test_a_full_disk_in_mid_turn_keeps_the_message_and_the_reply(aur: Aur) -> None:
    """A file size limit of 64 kB stands in for a full disk; the test lifts it from outside."""
    aur.server.push("Short.", "long " * 20_000, "Good again.")
    with aur.screen("spawn", "-i", "--session", "full", limit="-S -f 64") as screen:
        screen.wait_for("assistant>", timeout=WAIT)
        screen.type("First")
        screen.press("Enter")
        screen.wait_for("Short.", timeout=WAIT)
        screen.type("Second")
        screen.press("Enter")
        screen.wait_for("could not write", "the reply is on the screen and in memory", timeout=WAIT)
        assert aur.turns("full") == [("user", "First"), ("assistant", "Short."), ("user", "Second")]
        screen.type("Third")
        screen.press("Enter")
        screen.wait_for("your message is at the prompt again", "assistant> Third", timeout=WAIT)
        assert len(aur.turns("full")) == 3, "nothing is stored before the pending reply"
        _, hard = resource.prlimit(holder(aur, "full"), resource.RLIMIT_FSIZE)
        resource.prlimit(holder(aur, "full"), resource.RLIMIT_FSIZE, (hard, hard))
        screen.press("Enter")
        screen.wait_for("Good again.", timeout=WAIT)
        screen.at_prompt().press("C-d")
        screen.wait_for("Saved.", timeout=WAIT)
    turns = aur.turns("full")
    assert [(role, len(text)) for role, text in turns[2:]] == [
        ("user", 6),
        ("assistant", len("long " * 20_000)),
        ("user", 5),
        ("assistant", len("Good again.")),
    ]
    assert aur.server.turns[-1].texts("user")[-1] == "Third" and len(aur.server.turns) == 3


@pytest.mark.req("SPAWN-09")
def test_a_corrupt_file_is_recovered_deleted_or_left_as_the_user_chooses(aur: Aur) -> None:
    path = aur.write("broken")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type": "turn", "role\n{"type": "turn", "role": "user", "content": "After it", "tokens": 2}\n')
    original = path.read_bytes()
    for answer, shown in (("q", "error"), ("delete", "Undo: aur spawn --restore broken"), ("r", "Recovered:")):
        with aur.screen("spawn", "--resume", "broken", name=answer) as screen:
            screen.wait_for(f"{path}, line 4", "[recover/delete/quit]", timeout=WAIT)
            screen.type(answer)
            screen.press("Enter")
            screen.wait_for(shown, timeout=WAIT)
            if answer == "q":
                assert screen.wait_for_end(WAIT) == 3
                assert path.read_bytes() == original
            elif answer == "delete":
                assert screen.wait_for_end(WAIT) == 0
                assert not path.exists()
                assert aur("spawn", "--restore", "broken").code == 0
                assert path.read_bytes() == original
            else:
                screen.wait_for("3 turns kept, 23 bytes quarantined", "After it", "qa-test>", timeout=WAIT)
    assert [text for _, text in aur.turns("broken")] == ["What is flaky?", "The clock test.", "After it"]
    assert path.with_name("broken.jsonl.quarantine").exists()


@pytest.mark.req("SPAWN-11", "SPAWN-04")
def test_a_session_of_ten_thousand_turns_resumes_with_the_view_of_its_file(aur: Aur, home: Path) -> None:
    turns = [("assistant" if number % 2 else "user", f"{number} " + "word " * 20) for number in range(10_000)]
    path = aur.write("long", turns=turns, status="interrupted")
    settings = home / ".config" / "cortext" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[spawner.interactive]\ncontext_tokens = 20_000\n", encoding="utf-8")
    before = path.read_bytes().split(b"\n", 1)[1]
    aur.env |= {"PAGER": "sed 's/^/paged: /'", "NO_COLOR": "1"}
    with aur.screen("spawn", "--resume", "long") as screen:
        screen.wait_for("long (10,000 turns)", "qa-test>", timeout=WAIT)
        screen.type("The next")
        screen.press("Enter")
        screen.wait_for("Hello from the test model", timeout=WAIT)
        screen.type("/history 1")
        screen.press("Enter")
        screen.wait_for("#10001", timeout=WAIT)
        screen.type("/history 30")
        screen.press("Enter")
        screen.wait_for("paged: user  #10000", timeout=WAIT)
        screen.at_prompt().press("C-d")
        screen.wait_for("Saved.", timeout=WAIT)
    assert path.read_bytes().split(b"\n", 1)[1].startswith(before)
    view = View(20_000)
    view.load(list(SpawnStore(str(aur.sessions)).read("long"))[:-1])
    sent = [(turn.role, turn.text) for turn in aur.server.turns[-1].conversation if turn.role != "system"]
    kept = [(message.role, message.content) for message in view.messages if message.role != "system"]
    assert json.dumps(sent[-20:]) == json.dumps(kept[-20:]) and len(sent) >= 12
