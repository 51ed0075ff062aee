"""The memory of the assistant: facts with their origin, the tools of the model, and the isolation of sessions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.alfred.commands import _show_facts
from cortext.agents.assistant.memory import Memory, MemoryTools
from cortext.agents.llm.base import CallRequest
from cortext.errors import CortextError
from cortext.store.assistant import Fact
from cortext.store.files.assistant import FileFacts
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import Parrot, alfred, environment, lines_of
from tests.support.model_server import Reply


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(FileFacts(str(tmp_path / "memory" / "memories.jsonl")))


def _file(desk: Desk) -> Path:
    return desk.home / ".local" / "share" / "alfred" / "memory" / "memories.jsonl"


@pytest.mark.req("CHAT-10")
def test_the_model_remembers_searches_and_forgets(desk: Desk, model: Parrot) -> None:
    model.push(Reply.call("remember", text="Flies from Zurich, never from Basel", kind="preference"), "Noted.")
    assert desk.say("remember that I fly from Zurich, never Basel") == "Noted."
    session = desk.assistant.sessions.active("cli")
    (fact,) = [line for line in lines_of(_file(desk)) if line["type"] == "memory"]
    message = next(iter(desk.assistant.store.read(session)))
    # The fact names its session and its message.
    assert (fact["session_id"], fact["message_id"], fact["by"]) == (session, message.id, "model")

    # In another session it is part of the prompt, and the tools find it.
    desk.do("/new")
    model.push(Reply.call("search_memories", query="which airport"), "Zurich.")
    desk.say("where do I fly from?")
    request = model.turns[-1]
    assert "Flies from Zurich, never from Basel" in str(request.body["messages"][0])
    assert [turn.text for turn in request.conversation if turn.kind == "tool_result"] == [
        f"- {fact['id']} (preference, {fact['created_at'][:10]}): Flies from Zurich, never from Basel"
    ]
    model.push(Reply.call("forget", id=fact["id"]), "Forgotten.")
    desk.say("forget that")
    assert desk.assistant.memory.all() == []
    assert lines_of(_file(desk))[0] == fact, "forgetting appends a line and changes none"
    desk.say("and now?")
    assert "Zurich" not in str(model.turns[-1].body["messages"][0])


@pytest.mark.req("CHAT-10")
def test_past_sessions_are_sent_only_if_the_model_searches(desk: Desk, model: Parrot) -> None:
    desk.say("the pergola is painted in Falun red")
    desk.do("/new")
    desk.say("the pergola question again: what colour did I mention?")
    assert "Falun" not in json.dumps(model.turns[-1].body)
    model.push(
        Reply.call("search_sessions", query="pergola colour", top_k=2, messages_per_session=1, after="2020-01-01"),
        "Falun red.",
    )
    assert desk.say("look it up") == "Falun red."
    current = desk.assistant.sessions.active("cli")
    found = next(turn.text for turn in model.turns[-1].conversation if turn.kind == "tool_result")
    assert "Falun red" in found
    assert current not in found, "the current session is among its own results"
    assert found.count("\n- ") == 1  # messages_per_session
    for arguments in ({"before": "2020-01-01"}, {"after": "2999-01-01"}):
        model.push(Reply.call("search_sessions", query="pergola colour", **arguments), "Nothing.")
        desk.say("look again")
        results = [turn.text for turn in model.turns[-1].conversation if turn.kind == "tool_result"]
        assert results[-1].startswith("In earlier conversations: Nothing was found with ")


def test_an_invalid_tool_call_is_answered_with_an_error(desk: Desk) -> None:
    tools = MemoryTools(desk.assistant.memory, desk.assistant.search, session_id="sess_x")
    for name, arguments, broken, error in (
        ("remember", {}, "", "the memory is empty"),
        ("remember", {"text": "x" * 5000}, "", "5,000 characters"),
        ("remember", {"text": "x", "kind": "rumour"}, "", "unknown kind of memory"),
        ("remember", {"text": "x", "expires": "soon"}, "", "invalid expiry date"),
        ("remember", {"text": ["x"]}, "", "the memory is empty"),
        ("remember", {"text": "my token is ghp_Zx8Qw3Rt6Yp1Lk9Nm2Vb5Hc7Jd4Sf0Ga1Te3"}, "", "contains a secret"),
        ("forget", {"id": "mem_nobody"}, "", "no memory"),
        ("search_sessions", {"query": "x", "after": "soonish"}, "", "invalid date"),
        ("delete_everything", {}, "", "unknown tool"),
        ("remember", {}, "{half", "not a JSON object"),
    ):
        part = tools.run(CallRequest(id="c", name=name, input=arguments, broken=broken))
        assert part.is_error
        assert error in part.output
        assert part.call_id == "c"
    # Some models write numbers like this.
    part = tools.run(CallRequest(id="c", name="search_memories", input={"query": "x", "top_k": "3.0"}))
    assert not part.is_error


@pytest.mark.req("CHAT-10")
def test_instructions_and_preferences_come_first_within_the_budget(memory: Memory) -> None:
    for number in range(50):
        memory.remember(f"fact number {number} about nothing in particular")
    memory.remember("Answer in German", kind="instruction")
    memory.remember("Likes short answers", kind="preference")
    text = memory.prompt_section(120)
    assert "Answer in German" in text
    assert "Likes short answers" in text
    assert "fact number 49" in text  # the newest fact
    assert "fact number 0 " not in text
    assert "more: use search_memories" in text
    assert len(text) < 120 * 4 + 200
    assert Memory.prompt_section(Memory(FileFacts("/nowhere/memories.jsonl")), 100) == ""


def test_an_expired_fact_is_not_returned(memory: Memory) -> None:
    memory.remember("On holiday", expires="2030-01-15")
    memory.remember("Lives in Bern")
    before, after = time.mktime((2030, 1, 14, 0, 0, 0, 0, 0, 0)), time.mktime((2030, 1, 17, 0, 0, 0, 0, 0, 0))
    assert [fact.text for fact in memory.all(before)] == ["On holiday", "Lives in Bern"]
    assert [fact.text for fact in memory.all(after)] == ["Lives in Bern"]


@pytest.fixture(params=["Pacific/Kiritimati", "Pacific/Pago_Pago"])  # 14 hours before UTC, 11 after it
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.req("CHAT-10")
def test_a_day_that_is_typed_and_every_day_that_is_shown_are_of_the_local_clock(
    memory: Memory, zone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fact = memory.remember("On holiday", expires="2030-01-15")
    ends = time.mktime((2030, 1, 16, 0, 0, 0, 0, 0, -1))
    assert [bool(memory.all(moment)) for moment in (ends - 60, ends + 60)] == [True, False]
    assert fact.expires_at.endswith("Z") and fact.expires_at[:10] != fact.created_at[:10], "UTC in the file"
    tools = MemoryTools(memory, lambda: pytest.fail("no conversation is searched"))
    found = tools.run(CallRequest("c", "search_memories", {"query": "holiday"}))
    assert "until 2030-01-15" in found.output
    _show_facts([fact], as_json=False)
    created, expires = re.findall(r"\d{4}-\d\d-\d\d", capsys.readouterr().out)[-2:]
    assert (created, expires) == (time.strftime("%Y-%m-%d"), "2030-01-15"), zone


def test_the_same_fact_is_stored_once(memory: Memory) -> None:
    first = memory.remember("Drinks tea.")
    assert memory.remember("  drinks   TEA ").id == first.id
    assert len(memory.all()) == 1
    memory.forget(first.id[:7])
    assert memory.remember("Drinks tea").id != first.id


def test_a_torn_line_and_unknown_lines_are_skipped_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    facts = FileFacts(str(path))
    facts.add(Fact(id="", text="whole"))
    with path.open("ab") as file:
        file.write(
            b'["not", "a fact"]\nnot json\n{"id": "mine", "text": "by hand", "kind": "rumour"}\n{"id": "torn", "te'
        )
    assert [fact.text for fact in facts.all()] == ["whole", "by hand"]
    facts.add(Fact(id="", text="after the crash"))
    assert [fact.text for fact in FileFacts(str(path)).all()] == ["whole", "by hand", "after the crash"]
    assert b'{"id": "torn", "te\n' in path.read_bytes(), "the torn line was removed"


def test_search_finds_by_words_and_by_meaning(desk: Desk) -> None:
    memory = desk.assistant.memory
    for text in ("Is allergic to peanuts", "The server is called hermes", "Deploys run every Friday"):
        memory.remember(text)
    assert memory.search("server")[0].text == "The server is called hermes"
    assert memory.search("food I must not eat")[0].text == "Is allergic to peanuts"
    assert memory.search("release schedule")[0].text == "Deploys run every Friday"
    assert memory.search("   ") == []


def test_alfred_memory_adds_lists_and_forgets(home: Path) -> None:
    env = environment(home)
    assert "Nothing is remembered" in alfred(env, "memory").out
    added = alfred(env, "memory", "add", "Prefers", "trains\x1b[31m", "--kind", "preference", "--json").json[0]
    assert added["text"] == "Prefers trains\x1b[31m"
    shown = alfred(env, "memory", "list").out
    assert added["id"] in shown
    assert "\x1b" not in shown
    assert alfred(env, "memory", "forget", "mem_nobody").code == 1
    assert "Forgotten: Prefers trains" in alfred(env, "memory", "forget", added["id"]).out


def test_a_fact_that_cannot_be_written_is_an_error(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(CortextError):
        memory.remember("this cannot be stored")
