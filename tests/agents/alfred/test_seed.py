"""The scenarios of the specification of the assistant, with the real command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cortext.model import clock
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import Parrot, alfred, environment, lines_of, messages_of, sessions_of


@pytest.mark.req("CHAT-01", "CHAT-02", "CHAT-03", "CHAT-04", "CHAT-06")
def test_sessions_are_created_listed_and_resumed_on_the_command_line(home: Path, model: Parrot) -> None:
    env = environment(home, model)
    first = alfred(env, stdin="hello\nand again\n")
    assert first.code == 0, first.err
    notice = re.search(
        r"Created session (sess_\w+)\. Use /new to start fresh or /sessions to resume a past conversation\.", first.err
    )
    assert notice, first.err
    old = notice[1]
    assert first.out.count("Answer to") == 2

    second = alfred(
        env, stdin="/session\n/new\n/session\nsomething else\n/sessions\n" + f"/resume {old[:9]}\n/session\n"
    )
    assert second.code == 0, second.err
    lines = second.out.splitlines()
    # The session stays current after a restart; /new starts another one.
    assert lines[0] == f"Current session: {old} (started just now, 4 messages)"
    created = re.fullmatch(r"Created session (sess_\w+)", lines[1])
    assert created and created[1] != old
    assert lines[2] == f"Current session: {created[1]} (started just now, 0 messages)"
    assert lines[3] == "Answer to something else"
    assert re.split(r"\s{2,}", lines[4].strip()) == ["ID", "Created", "Last Active", "Messages", "Summary"]
    today = clock.now()[:10]
    rows = [re.split(r"\s{2,}", line.strip())[:4] for line in lines[5:7]]
    assert rows == [[created[1], today, "just now", "2"], [old, today, "just now", "4"]]  # most recently active first
    assert lines[7] == f"Resumed session {old} (4 messages)"
    assert lines[8] == f"Current session: {old} (started just now, 4 messages)"
    assert json.loads((sessions_of(home) / "current.json").read_text(encoding="utf-8"))["session_id"] == old


@pytest.mark.req("CHAT-06", "CHAT-07", "CHAT-10")
def test_the_model_is_sent_the_current_session_only(desk: Desk, model: Parrot) -> None:
    desk.say("the word is rhubarb")
    desk.do("/new")
    desk.say("first question here")
    desk.say("second question here")
    asked = model.turns[-1]
    assert asked.texts("user") == ["first question here", "second question here"]
    assert "Answer to first question here" in asked.texts("assistant")
    assert "rhubarb" not in json.dumps(asked.body)


@pytest.mark.req("CHAT-05", "CHAT-07")
def test_the_files_have_the_format_of_the_specification(home: Path, model: Parrot) -> None:
    env = environment(home, model)
    asked = alfred(env, "--new", "one")
    assert asked.out == "Answer to one\n"  # nothing else, so that a script can use it
    session = json.loads((sessions_of(home) / "current.json").read_text(encoding="utf-8"))["session_id"]
    folder = sessions_of(home) / session
    before = (folder / "current.jsonl").read_bytes()
    alfred(env, stdin="two\n")
    assert alfred(env, "worker", "--once").code == 0
    after = (folder / "current.jsonl").read_bytes()
    assert after.startswith(before), "a line was rewritten"
    lines = lines_of(folder / "current.jsonl")
    messages = [line for line in lines if "role" in line]
    assert [line["idx"] for line in messages] == [0, 1, 2, 3]
    assert [line["role"] for line in messages] == ["user", "assistant"] * 2
    # The embedding of each message is a separate line after it.
    for line in messages:
        (embedding,) = [other for other in lines if other.get("message_id") == line["id"]]
        assert embedding["type"] == "embedding"
        assert lines.index(embedding) > lines.index(line)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    wanted = {"session_id", "created_at", "last_active", "message_count", "current_count", "archive_count"}
    assert wanted <= set(meta)
    assert meta["session_id"] == session


@pytest.mark.req("CHAT-04", "CHAT-12")
def test_settings_are_read_from_a_toml_file(home: Path, model: Parrot) -> None:
    settings = home / ".config" / "cortext" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[session]\nsessions_dir = "{home}/data/sessions"\nidle_minutes = 45\n[chat]\nauto_create = false\n',
        encoding="utf-8",
    )
    env = environment(home, model)
    asked = alfred(env, stdin="hello\n")
    assert "There is no session yet. Use /new to start one or /sessions" in asked.err
    assert model.turns == []
    alfred(env, stdin="/new\nhello\n")
    (session,) = [path for path in (home / "data" / "sessions").iterdir() if path.name.startswith("sess_")]
    assert [line["content"] for line in lines_of(session / "current.jsonl") if "role" in line] == [
        "hello",
        "Answer to hello",
    ]
    assert alfred(env, "memory", "add", "I live in Bern").code == 0
    assert (home / "data" / "memory" / "memories.jsonl").exists()
    settings.write_text('[telegram]\ntoken = "1:2"\n', encoding="utf-8")  # secrets are not settings
    refused = alfred(env, "hello")
    assert refused.code == 7
    assert "unknown setting telegram.token" in refused.err


@pytest.mark.req("CHAT-02")
def test_an_ambiguous_prefix_is_refused_with_the_candidates(desk: Desk) -> None:
    desk.fill("sess_aaa1", 2)
    desk.fill("sess_aaa2", 4)
    with pytest.raises(Exception, match="could be: sess_aaa2, sess_aaa1"):
        desk.do("/resume sess_aaa")
    assert desk.do("/resume sess_aaa2").text == "Resumed session sess_aaa2 (4 messages)"
    assert desk.do("/resume sess_aaa1").text == "Resumed session sess_aaa1 (2 messages)"
    with pytest.raises(Exception, match="no conversation matches"):
        desk.do("/resume sess_zzz")
    assert desk.assistant.sessions.active("cli") == "sess_aaa1"


@pytest.mark.req("CHAT-06")
def test_chats_have_separate_sessions(desk: Desk, model: Parrot) -> None:
    desk.say("I am at the desk")
    desk.say("I am on the phone", chat="tg_4711")
    desk.say("I am in a group", chat="tg_n100123_t7")
    assert [request.texts("user")[-1] for request in model.turns] == [
        "I am at the desk",
        "I am on the phone",
        "I am in a group",
    ]
    assert all(len(request.texts("user")) == 1 for request in model.turns)
    # The first session of a messenger's chat has the id of the chat; each chat has one active session.
    assert desk.assistant.sessions.active("tg_4711") == "tg_4711"
    assert desk.assistant.sessions.active("tg_n100123_t7") == "tg_n100123_t7"
    created = desk.do("/new", chat="tg_4711").text.split()[-1]
    assert desk.assistant.sessions.active("tg_4711") == created
    assert desk.assistant.sessions.active("tg_n100123_t7") == "tg_n100123_t7"


@pytest.mark.req("CHAT-09")
def test_sessions_never_expire(desk: Desk) -> None:
    desk.fill("sess_old", 2)
    meta = desk.folder("sess_old") / "meta.json"
    fields = json.loads(meta.read_text(encoding="utf-8"))
    fields |= {"created_at": "2001-01-01T00:00:00Z", "last_active": "2001-01-01T00:00:00Z"}
    meta.write_text(json.dumps(fields), encoding="utf-8")
    for _ in range(3):
        desk.worker().run()
    assert len(messages_of(desk.home, "sess_old")) == 2
    assert "sess_old" in [row[0] for row in desk.do("/sessions").rows]
