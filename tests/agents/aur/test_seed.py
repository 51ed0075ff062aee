"""The scenarios of the specification of `aur spawn`, with the real command and a model on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from cortext.faces.terminal.table import width
from cortext.model import clock
from cortext.store.files.spawn import SpawnStore
from tests.agents.aur.kit import METADATA_KEYS, TURN_KEYS, Aur
from tests.support.cli import SCRIPTS, cortext
from tests.support.model_server import Reply
from tests.support.waiting import wait_until

ID = re.compile(r"session-[0-9a-z]{10}")


# ── creation and persistence ─────────────────────────────────────────────────────────────────────────


@pytest.mark.req("SPAWN-01", "SPAWN-02", "SPAWN-03")
def test_a_new_session_is_a_file_in_the_format_of_the_specification(aur: Aur) -> None:
    aur.server.push("First answer.", "Second answer.")
    done = aur("spawn", "--interactive", "--agent", "qa-test", stdin="Hello there\n\n   \nAnd now?\n")
    assert done.code == 0, done.err
    assert done.out == "First answer.\nSecond answer.\n"
    raw = aur.file().read_text(encoding="utf-8")
    assert raw.endswith("\n") and ID.fullmatch(aur.file().stem)
    metadata, *turns = aur.lines()
    assert list(metadata)[:5] == METADATA_KEYS
    assert {**metadata, "created_at": ""} == {
        **metadata,
        "type": "metadata",
        "session_id": aur.file().stem,
        "agent": "qa-test",
        "created_at": "",
        "status": "completed",
    }
    assert all(list(turn)[:5] == TURN_KEYS for turn in turns)
    # Byte for byte, except times and ids.
    shown = [re.sub(r'"timestamp": "[^"]{24}"', '"timestamp": "T"', line) for line in raw.splitlines()[1:]]
    shown = [re.sub(r'"id": "[0-9a-f]{28}"', '"id": "I"', line) for line in shown]
    assert shown[0] == (
        '{"type": "turn", "role": "user", "content": "Hello there", "timestamp": "T", "tokens": 3, "id": "I", "seq": 0}'
    )
    assert shown[1].startswith(
        '{"type": "turn", "role": "assistant", "content": "First answer.", "timestamp": "T", "tokens": '
    )
    assert [turn["seq"] for turn in turns] == [0, 1, 2, 3]
    assert aur.turns() == [
        ("user", "Hello there"),
        ("assistant", "First answer."),
        ("user", "And now?"),
        ("assistant", "Second answer."),
    ]
    assert turns[1]["tokens"] == turns[1]["usage"]["output_tokens"], "the provider's count is used"
    assert "usage" not in turns[0], "an estimate is not marked as counted"
    prompts = [request.texts() for request in aur.server.turns]
    assert prompts[1][-3:] == ["Hello there", "First answer.", "And now?"]


@pytest.mark.req("SPAWN-03", "SPAWN-05", "SPAWN-06")
def test_the_users_message_is_on_disk_and_readable_before_the_model_is_asked(aur: Aur) -> None:
    hold = threading.Event()
    aur.server.push(Reply(text="A slow answer.", hold=hold))
    result: list[str] = []
    asking = threading.Thread(
        target=lambda: result.append(aur("spawn", "-i", "--session", "slow", stdin="Well?\n").out)
    )
    asking.start()
    try:
        aur.server.wait_for(lambda request: request.is_turn)
        assert aur.turns("slow") == [("user", "Well?")]
        listed = aur("spawn", "--list-sessions", "--json").json
        assert [(row["id"], row["message_count"], row["status"]) for row in listed] == [("slow", 1, "active")]
    finally:
        hold.set()
        asking.join(30)
    assert result == ["A slow answer.\n"] and len(aur.turns("slow")) == 2


@pytest.mark.req("SPAWN-04", "SPAWN-11")
def test_a_resumed_session_has_all_turns_in_order_in_the_context(aur: Aur) -> None:
    turns = [("user", "One?"), ("assistant", "1."), ("user", "Two?"), ("assistant", "2.")]
    aur.write("session-123", turns=turns, status="interrupted")
    before = aur.file("session-123").read_bytes().split(b"\n", 1)[1]
    aur.server.push("3.")
    done = aur("spawn", "--resume", "session-123", stdin="Three?\n")
    assert done.code == 0, done.err
    assert aur.server.turns[0].texts()[-5:] == ["One?", "1.", "Two?", "2.", "Three?"]
    assert aur.file("session-123").read_bytes().split(b"\n", 1)[1].startswith(before), "no earlier line is changed"
    assert aur.turns("session-123") == [*turns, ("user", "Three?"), ("assistant", "3.")]


@pytest.mark.req("SPAWN-04")
def test_the_error_for_an_unknown_session_lists_the_existing_ones(aur: Aur) -> None:
    aur.write("session-abc")
    done = aur("spawn", "--resume", "session-999")
    assert done.code == 1
    assert "no conversation matches 'session-999'" in done.err and "session-abc" in done.err
    assert aur("spawn", "--resume", "../etc/passwd").code == 1


@pytest.mark.req("SPAWN-04", "SPAWN-06")
def test_a_completed_session_is_resumed_with_a_warning(aur: Aur) -> None:
    aur.write("session-done", status="completed")
    done = aur("spawn", "--resume", "session-d", "One more thing")
    assert done.code == 0 and "was completed" in done.err
    assert aur.turns("session-done")[-2] == ("user", "One more thing")


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("SPAWN-05", "SPAWN-06")
def test_the_list_fits_the_screen_and_shows_the_numbers_that_resume_accepts(aur: Aur) -> None:
    aur.write("session-7k3vq9xw1t", "qa-test", "interrupted", day="2024-01-10")
    aur.write("a-session-that-somebody-gave-a-long-name-to", "a-reviewer-of-everything", day="2024-01-12")
    damaged = aur.write("session-hurt", "architect", day="2024-01-11")
    damaged.write_text(damaged.read_text(encoding="utf-8") + "{no\n", encoding="utf-8")
    for columns in (40, 80, 120):
        done = aur("spawn", "--list-sessions", env={"COLUMNS": str(columns)})
        head, *rows = done.out.splitlines()
        assert max(map(width, done.out.splitlines())) <= columns
        heads = ["#", "SESSION_ID", "AGENT", "TURN_COUNT", "CREATED_AT", "STATUS"]
        assert head.split() == heads if columns >= 80 else head.split() == ["#", "SESSION_ID", "STATUS"]
        assert [row.split()[-1] for row in rows] == ["completed", "damaged", "interrupted"]
        assert rows[2].split()[:2] == ["3", "session-7k3vq9xw1t"]
    assert aur("spawn", "--delete-session", "3", "--yes").out.startswith("Deleted session session-7k3vq9xw1t")


@pytest.mark.req("SPAWN-05", "SPAWN-06")
def test_the_list_is_newest_first_and_filtered_by_agent_and_status(aur: Aur) -> None:
    aur.write("session-a", "qa-test", day="2026-01-10")
    aur.write("session-b", "architect", "interrupted", day="2026-01-12")
    aur.write("session-c", "qa-test", "active", day="2026-01-11")
    done = aur("spawn", "--list-sessions")
    head, *rows = done.out.splitlines()
    assert head.split() == ["SESSION_ID", "AGENT", "TURN_COUNT", "CREATED_AT", "STATUS"]
    assert [row.split() for row in rows] == [
        ["session-b", "architect", "2", "2026-01-12", "10:00", "interrupted"],
        ["session-c", "qa-test", "2", "2026-01-11", "10:00", "interrupted"],
        ["session-a", "qa-test", "2", "2026-01-10", "10:00", "completed"],
    ]

    def listed(*options: str) -> list[str]:
        return [row["id"] for row in aur("spawn", "--list-sessions", "--json", *options).json]

    assert listed("--agent", "qa-test") == ["session-c", "session-a"]
    assert listed("--status", "interrupted") == ["session-b", "session-c"]
    assert listed("--status", "active") == []
    store = SpawnStore(str(aur.sessions))
    with store.open("session-c"):
        assert listed("--status", "active") == ["session-c"], "active while a process holds it"
        assert listed("--status", "active", "--agent", "architect") == []
    assert cortext("archive", "session-b", cwd=aur.folder).code == 0
    assert listed() == ["session-c", "session-a"] and listed("--archived") == ["session-b"], "hidden from lists"
    assert "--archived requires --list-sessions" in aur("spawn", "--archived", "hello").err
    fields = aur("spawn", "--list-sessions", "--json").json[0]
    assert list(fields) == list(cortext("list", "--json", cwd=aur.folder).json[0]), "one schema"


# ── deletion ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("SPAWN-07")
def test_a_deleted_session_is_not_listed_and_can_be_restored(aur: Aur) -> None:
    path = aur.write("session-123")
    original = path.read_bytes()
    done = aur("spawn", "--delete-session", "session-123")
    assert done.code == 0 and "Deleted session session-123 (2 turns)." in done.out
    assert f"It was in {path.parent}." in done.out
    assert not path.exists()
    assert aur("spawn", "--list-sessions", "--json").json == []
    assert "session-123" in aur("spawn", "--restore").out
    assert "Restored session session-123" in aur("spawn", "--restore", "session-123").out
    assert path.read_bytes() == original
    unknown = aur("spawn", "--delete-session", "session-77", "--yes")
    assert unknown.code == 1 and path.exists()


@pytest.mark.req("SPAWN-07")
def test_cleaning_deletes_sessions_that_are_strictly_older_and_not_in_use(aur: Aur) -> None:
    now = time.time()

    def write_aged(name: str, days: float) -> None:
        aur.write(name, day=clock.from_epoch(now - days * 86_400)[:10])
        path = aur.file(name)
        moment = clock.from_epoch(now - days * 86_400)
        path.write_text(
            re.sub(r"\d{4}-\d\d-\d\dT10:00:\d\dZ", moment, path.read_text(encoding="utf-8")), encoding="utf-8"
        )

    for name, days in (("old", 31), ("older", 90), ("held", 90), ("young", 29.9), ("new", 0)):
        write_aged(name, days)
    with SpawnStore(str(aur.sessions)).open("held"):
        done = aur("spawn", "--clean-sessions", "30")
    assert done.code == 0 and "Deleted 2 sessions older than 30 days in " in done.out
    assert "Kept, because they are in use: held" in done.out
    assert sorted(path.stem for path in aur.sessions.glob("*.jsonl")) == ["held", "new", "young"]
    assert aur("spawn", "--clean-sessions", "-1").code == 2
    assert aur("spawn", "--clean-sessions", "soon").code == 2
    assert "Deleted 1 session " in aur("spawn", "--clean-sessions", "30").out


@pytest.mark.req("SPAWN-08")
def test_old_sessions_expire_in_the_background_if_the_setting_says_so(aur: Aur, home: Path) -> None:
    old, new = aur.write("old", day="2020-01-01"), aur.write("new", day=clock.now()[:10])
    aur("spawn", "--list-sessions")
    assert old.exists(), "not without the setting"
    settings = home / ".config" / "cortext" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[spawner.interactive]\nsession_expiry_days = 30\n", encoding="utf-8")
    done = aur("spawn", "--list-sessions")
    assert done.code == 0 and "new" in done.out
    wait_until(lambda: not old.exists(), 30, "another process cleans")
    assert new.exists()
    assert "old" in aur("spawn", "--restore").out


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("SPAWN-09")
@pytest.mark.parametrize("broken", ['{"type": "turn", "role": "us\n', "{not json", "[1, 2]\n", '\x00\x00{"a"\n'])
def test_a_corrupt_file_is_reported_with_its_line_and_not_changed(aur: Aur, broken: str) -> None:
    path = aur.write("session-bad")
    with path.open("a", encoding="utf-8") as file:
        file.write(broken)
    original = path.read_bytes()
    done = aur("spawn", "--resume", "session-bad", stdin="Hello?\n")
    assert done.code == 3
    assert f"{path}, line 4: " in done.err and "cortext repair session-bad" in done.err
    assert "aur spawn --delete-session session-bad" in done.err and "Traceback" not in done.err
    assert path.read_bytes() == original and aur.server.turns == []
    assert "(damaged)" in aur("spawn", "--list-sessions").out


@pytest.mark.req("SPAWN-09", "STORE-06")
def test_a_torn_last_line_is_quarantined_without_a_question(aur: Aur) -> None:
    path = aur.write("session-torn", status="active")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type": "turn", "role": "assistant", "content": "I was say')
    done = aur("spawn", "--resume", "session-torn", "Go on")
    assert done.code == 0, done.err
    assert [role for role, _ in aur.turns("session-torn")] == ["user", "assistant", "user", "assistant"]
    assert "I was say" not in path.read_text(encoding="utf-8")
    assert path.with_name(path.name + ".quarantine").exists()


# ── two at once ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("SPAWN-03", "STORE-05")
def test_a_second_writer_is_told_which_process_holds_the_session(aur: Aur) -> None:
    aur.write("session-held", status="active")
    with SpawnStore(str(aur.sessions)).open("session-held"):
        done = aur("spawn", "--resume", "session-held", stdin="Me too\n")
    assert done.code == 4 and f"process {os.getpid()} on " in done.err
    assert len(aur.turns("session-held")) == 2


# ── one question ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("SPAWN-12", "SPAWN-01", "MODEL-01")
def test_one_question_is_answered_on_standard_output_and_stored(aur: Aur) -> None:
    aur.server.push("Looks **good**.", "Still good.")
    done = aur("spawn", "Review this:", "-", "--agent", "reviewer", stdin="- old\n+ new\n")
    assert (done.code, done.out, done.err) == (0, "Looks **good**.\n", "")
    assert aur.turns()[0] == ("user", "Review this: - old\n+ new")
    assert aur.lines()[0]["status"] == "completed" and aur.lines()[0]["agent"] == "reviewer"
    system = aur.server.turns[0].texts("system")
    assert len(system) == 1 and "code reviewer" in system[0]
    again = aur("spawn", "And now?", "--resume", aur.file().stem, "--json")
    assert again.json["reply"] == "Still good." and again.json["session_id"] == aur.file().stem
    assert json.loads(again.out)["partial"] is False and len(aur.turns()) == 4


@pytest.mark.req("MODEL-01", "SPAWN-12")
def test_one_question_is_answered_by_another_provider(aur: Aur) -> None:
    env = {"OPENAI_BASE_URL": f"{aur.server.url}/v1", "OPENAI_API_KEY": "k", "CORTEXT_MODEL": ""}
    done = aur("spawn", "Hello", "--model", "openai/test-model", env=env)
    assert done.code == 0 and aur.server.turns[-1].protocol == "chat"
    assert aur.lines()[0]["model"] == "openai/test-model"


@pytest.mark.req("SPAWN-12", "MODEL-01")
def test_no_session_is_created_without_a_model_an_agent_or_valid_options(aur: Aur) -> None:
    no_model = aur("spawn", "-i", env={"CORTEXT_MODEL": "", "OLLAMA_HOST": "127.0.0.1:9"})
    assert no_model.code == 8 and "No model is available yet." in no_model.err
    no_agent = aur("spawn", "-i", "--agent", "archtect")
    assert no_agent.code == 1 and "did you mean architect?" in no_agent.err and "qa-test" in no_agent.err
    for arguments in (["spawn"], ["spawn", "-i", "hello"], ["spawn", "--resume", "x", "--session", "y"], ["spwn"]):
        assert aur(*arguments).code == 2, arguments
    assert aur("spawn", "-i", "--session", "../x").code == 2
    assert not list(aur.sessions.glob("*")) if aur.sessions.exists() else True


@pytest.mark.req("SPAWN-10", "SPAWN-06")
def test_one_question_that_is_stopped_keeps_the_partial_answer(aur: Aur) -> None:
    hold = threading.Event()
    aur.server.push(Reply(text="Begun and then never ended", hold=hold))
    command = [str(SCRIPTS / "aur"), "spawn", "Well?", "--session", "stopped"]
    with subprocess.Popen(command, env={**os.environ, **aur.env}, stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        aur.server.wait_for(lambda request: request.is_turn)
        assert asking.stdout.read(5) == b"Begun", "the answer streams through a pipe too"
        asking.send_signal(signal.SIGINT)
        assert asking.wait(30) == 130
    hold.set()
    assert aur.lines("stopped")[0]["status"] == "interrupted" and aur.lines("stopped")[2]["partial"] is True


@pytest.mark.req("STORE-13")
def test_control_characters_on_standard_input_are_stored(aur: Aur) -> None:
    done = aur("spawn", "-i", "--session", "bytes", stdin="caf\u00e9 \x00 \x1b[31m\n")
    assert done.code == 0, done.err
    assert aur.lines("bytes")[1]["content"] == "caf\u00e9 \x00 \x1b[31m"
    command = [str(SCRIPTS / "aur"), "spawn", "-i", "--session", "latin"]
    odd = subprocess.run(
        command, input=b"caf\xe9\n", env={**os.environ, **aur.env}, capture_output=True, text=False, check=False
    )
    assert odd.returncode == 2 and b"standard input is not UTF-8: byte 0xe9" in odd.stderr
    listed = aur("spawn", "--list-sessions", "--json")
    assert listed.code == 0 and [(row["id"], row["message_count"]) for row in listed.json] == [("bytes", 2)]


@pytest.mark.req("MODEL-02", "SPAWN-10")
def test_a_model_that_fails_leaves_the_message_stored_and_a_clear_error(aur: Aur) -> None:
    aur.server.push(Reply.error(400, "no such thing"))
    done = aur("spawn", "Hello", "--session", "failing")
    assert done.code == 8 and "Traceback" not in done.err
    assert aur.turns("failing") == [("user", "Hello")] and aur.lines("failing")[0]["status"] == "interrupted"
    aur.server.push(Reply.cut("one two three four five six", after=3))
    cut = aur("spawn", "-i", "--session", "cutting", stdin="Hello\nAgain\n")
    assert "next:" in cut.err and cut.code == 8
    lines = aur.lines("cutting")
    assert lines[2]["partial"] is True and lines[2]["content"].startswith("one")
    [asked] = aur.server.turns[-1].texts("user")
    assert asked.startswith("Hello\n\n") and "The message above got no answer" in asked and asked.endswith("\n\nAgain")
    assert aur.server.turns[-1].texts("assistant") == []
