"""The slash commands of the assistant, and sessions of other tools that are continued as a chat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.agents.assistant.commands import COMMANDS
from cortext.agents.assistant.memory import MemoryTools
from cortext.agents.assistant.sessions import FROM
from cortext.agents.llm.base import CallRequest
from cortext.agents.telegram.formatting import as_markdown
from cortext.errors import CortextError, NotFound, UsageError
from cortext.faces.terminal.table import width
from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import Change, Origin, Session
from cortext.services.library.stores import NamedStore
from cortext.services.workspace import order
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import Parrot, alfred, environment, messages_of


@pytest.mark.req("CHAT-14")
def test_search_title_context_export(desk: Desk) -> None:
    desk.say("my key is ghp_Zx8Qw3Rt6Yp1Lk9Nm2Vb5Hc7Jd4Sf0Ga1Te3, about the zeppelin hangar")
    session = desk.assistant.sessions.active("cli")
    (hit,) = desk.do("/search zeppelin").hits
    assert hit.id == session
    assert "zeppelin hangar" in hit.snippet and "[masked github-token" in hit.snippet
    assert "Zx8Qw3Rt6Yp1" not in f"{hit.snippet}{hit.title}{desk.do('/sessions').rows}"
    desk.say("the airship is moored at the mast")
    (other,) = desk.do("/search moored").hits
    assert any("moored" in other.snippet[start:end] for start, end in other.highlights)
    assert desk.do("/search xylophone").text == 'Nothing was found. "xylophone" occurs nowhere.'
    assert desk.do("/title The hangar").text == f"Session {session} has the title: The hangar"
    assert desk.do("/title").text == "The hangar"
    assert desk.do("/sessions").rows[0][4] == "The hangar"
    exported = desk.do("/export")
    assert exported.name == f"{session}.md"
    assert "zeppelin hangar" in exported.document
    assert "Zx8Qw3Rt6Yp1Lk9Nm2Vb5Hc7" not in exported.document
    assert "masked" in exported.text
    desk.do("/remember I am building an airship")
    shown = desk.do("/context").text.splitlines()
    assert [line.split()[0] for line in shown] == ["prompt", "memory", "messages", "total"]
    sizes = [int(line.split()[1].replace(",", "")) for line in shown]
    assert all(size > 0 for size in sizes)
    assert abs(sum(sizes[:3]) - sizes[3]) <= 3  # rounding
    assert "openai/test" in shown[-1]


@pytest.mark.req("ORDER-01")
def test_the_sessions_on_the_phone_are_filtered_by_tag_star_and_archive(desk: Desk) -> None:
    names = []
    for text in ("about birds", "about boats", "about knots"):
        desk.do("/new")
        desk.say(text)
        names.append(desk.assistant.sessions.active("cli"))
    birds, boats, knots = names
    store = NamedStore("alfred", "chat", desk.assistant.sessions.root, desk.assistant.store)
    order.set_tags(store, store.store.peek(birds), ["water"])
    for name in (birds, boats):
        order.set_star(store, store.store.peek(name))
    order.set_archived(store, store.store.peek(knots))

    def listed(words: str) -> set[str]:
        return {row[0] for row in desk.do(f"/sessions {words}").rows}

    assert listed("") == listed("all") == listed("starred") == {birds, boats} and listed("archived") == {knots}
    assert listed("#water") == listed("water starred") == {birds} and listed("#water archived") == set()
    assert desk.do("/sessions #nothing").text == "No session matches."


@pytest.mark.req("CHAT-14")
def test_a_deleted_session_can_be_restored(desk: Desk) -> None:
    desk.say("something worth keeping")
    session = desk.assistant.sessions.active("cli")
    desk.do("/title Worth keeping")
    named = f'Deleted session {session} ("Worth keeping") of this assistant.'
    assert desk.do("/delete").text == f"{named} Undo: /restore {session}"
    assert not desk.folder(session).exists()
    assert desk.do("/sessions").rows == ()
    with pytest.raises(NotFound):
        desk.do("/delete")
    desk.say("a new one begins")
    assert desk.assistant.sessions.active("cli") != session
    assert desk.do("/restore").text == f"Restored session {session} (2 messages); it is active in this chat."
    assert messages_of(desk.home, session)[0]["content"] == "something worth keeping"
    # The id of a messenger's first session stays reserved, so that it can be restored.
    desk.say("hello", chat="tg_4711")
    desk.do("/delete", chat="tg_4711")
    desk.say("hello again", chat="tg_4711")
    assert desk.assistant.sessions.active("tg_4711").startswith("sess_")
    assert "Restored session tg_4711" in desk.do("/restore tg_4711", chat="tg_4711").text


@pytest.mark.req("CHAT-14", "FIND-02")
def test_search_says_when_no_message_contains_the_words(desk: Desk, model: Parrot) -> None:
    desk.assistant.sessions.start("cli", session_id="sess_pets")
    desk.assistant.store.append("sess_pets", Message(role=USER, content="My dog barks at the cat all night."))
    notice = '"puppy", "kitten" occur nowhere. The nearest:'
    answer = desk.do("/search puppy kitten")
    assert [hit.id for hit in answer.hits] == ["sess_pets"]
    assert as_markdown(answer).startswith(f"{notice}\n\n**")
    shown = alfred(environment(desk.home, model), "/search puppy kitten")
    assert shown.out.startswith(f"{notice}\n\nsess_pets"), shown
    assert desk.do("/search barking dogs").above == ""
    assert alfred(environment(desk.home, model), "/search barking dogs").out.startswith("sess_pets")


@pytest.mark.req("CHAT-03")
@pytest.mark.parametrize("columns", [40, 80])
def test_the_list_of_sessions_shows_the_numbers_that_resume_accepts(desk: Desk, model: Parrot, columns: int) -> None:
    for name in ("sess_first00000", "sess_second0000"):
        desk.fill(name, 2)
        desk.assistant.store.update(name, Change(title="a title that is far longer than any screen of forty columns"))
    env = environment(desk.home, model)
    shown = alfred({**env, "COLUMNS": str(columns)}, "/sessions")
    head, *lines = shown.out.splitlines()
    assert max(map(width, shown.out.splitlines())) <= columns
    heads = ["#", "ID", "Created", "Last", "Active", "Messages", "Summary"]
    assert head.split() == heads if columns == 80 else set(head.split()) >= {"#", "ID", "Summary"}
    assert [line.split()[:2] for line in lines] == [["1", "sess_second0000"], ["2", "sess_first00000"]]
    assert alfred(env, "/resume 2").out.startswith("Resumed session sess_first00000")
    piped = alfred(env, "/sessions").out.splitlines()
    assert piped[0].split()[0] == "ID" and piped[1].split()[0] == "sess_second0000"
    markdown = as_markdown(desk.do("/sessions"))
    assert markdown.startswith("**1. ") and "**2. " in markdown


@pytest.fixture
def foreign(desk: Desk) -> str:
    """The id of a captured session with tool calls, which is longer than the working file of its copy."""
    store = desk.stores.home_store().store
    name = "claude-5f2c"
    store.create(
        Session(id=name, type="claude", title="Fix the flaky login", origin=Origin(tool="claude", session_id="5f2c"))
    )
    messages = [Message(role=USER, content="the login test is flaky, why?")]
    for number in range(30):
        call = Part(type=TOOL_CALL, id=f"c{number}", name="Bash", input={"command": f"pytest -k login{number}"})
        messages += [
            Message(role=ASSISTANT, content=f"Step {number}: I look at it.", parts=[call]),
            Message(role=TOOL, parts=[Part(type=TOOL_RESULT, call_id=f"c{number}", output=f"output {number}")]),
            Message(role=ASSISTANT, content=f"Finding {number}: the clock of the fixture is not frozen."),
        ]
    store.append(name, *messages)
    return name


@pytest.mark.req("CHAT-13", "STORE-06")
def test_a_chat_that_continues_a_damaged_session_says_so(desk: Desk, foreign: str) -> None:
    (log,) = desk.home.rglob(f"{foreign}/.session/messages.jsonl")
    first, _, *others = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([first, b'{"garb\n', *others]))
    resumed = desk.do(f"/resume {foreign}").text.splitlines()
    problem = f"1 place of its log cannot be read, so messages may be missing: run `cortext repair {foreign}`"
    assert resumed[-1] == f"Note: {problem}."
    assert "1 session is damaged" in desk.do("/search flaky login").above
    nothing = desk.do('/search "xylophone zzz"')
    assert "1 session is damaged" in nothing.above and "occurs nowhere" in nothing.text
    calls = MemoryTools(desk.assistant.memory, desk.assistant.search)
    found = calls.run(CallRequest("1", "search_sessions", {"query": "flaky login"})).output
    assert "1 session is damaged" in found.partition("\n")[0], found
    assert "damaged" not in desk.do("/search flaky login", chat="tg_1").above  # it may not know that session


@pytest.mark.req("CHAT-13")
def test_a_session_of_another_tool_is_found_and_continued_as_a_chat(desk: Desk, model: Parrot, foreign: str) -> None:
    before = list(desk.stores.home_store().store.read(foreign))
    (hit,) = desk.do("/search flaky login", chat="tg_4711").hits
    assert (hit.id, hit.where, hit.title) == (foreign, "claude", "Fix the flaky login")
    resumed = desk.do("/resume_claude_5f2c", chat="tg_4711").text.splitlines()  # as a messenger sends it
    assert resumed[0] == "Resumed session cont_claude-5f2c (61 messages)"
    assert foreign in resumed[1]
    assert desk.say("so what is the cause?", chat="tg_4711").startswith("Answer to")
    sent = model.turns[-1]
    assert sent.texts("assistant")[-1].endswith("Finding 29: the clock of the fixture is not frozen.")
    assert "[Summary of the first 21 messages" in sent.texts("user")[0]
    assert "tool_calls" not in json.dumps(sent.body["messages"]), "the tool calls are not copied"
    # Every text is copied, with its provenance; the original is unchanged.
    copy = messages_of(desk.home, "cont_claude-5f2c")
    assert [line["content"] for line in copy[:2]] == ["the login test is flaky, why?", "Step 0: I look at it."]
    assert len(copy) == 63
    meta = json.loads((desk.folder("cont_claude-5f2c") / "meta.json").read_text(encoding="utf-8"))
    assert meta[FROM] == {"store": "home", "tool": "claude", "session_id": foreign, "messages": 61}
    assert list(desk.stores.home_store().store.read(foreign)) == before
    # A second resume uses the same copy; a new one is made if the original has grown.
    assert "cont_claude-5f2c (63 messages)" in desk.do(f"/resume {foreign}").text
    desk.stores.home_store().store.append(foreign, Message(role=USER, content="one more thing"))
    assert "cont_claude-5f2c_2 (62 messages)" in desk.do(f"/resume {foreign}").text


def test_a_copy_that_a_crash_interrupted_is_completed(desk: Desk, foreign: str) -> None:
    meta = {"store": "home", "tool": "claude", "session_id": foreign, "messages": 61}
    desk.assistant.store.create(Session(id="cont_claude-5f2c", type="chat", extra={FROM: meta}))
    assert "(61 messages)" in desk.do(f"/resume {foreign}").text
    assert "(61 messages)" in desk.do(f"/resume {foreign}").text


def test_a_session_of_another_tool_cannot_be_deleted(desk: Desk, foreign: str) -> None:
    with pytest.raises(NotFound, match="not of this assistant"):
        desk.do(f"/delete {foreign}")
    assert desk.stores.home_store().store.get(foreign).message_count == 91


def test_unknown_and_hostile_commands_are_refused(desk: Desk) -> None:
    for line in (
        "/nope",
        "/",
        "/resume ../../etc/passwd",
        "/resume \x1b[2J",
        "/forget mem_nothing",
        "/__init__",
        "/run x",
    ):
        with pytest.raises(CortextError):
            desk.do(line)
    assert desk.do("/help").text.startswith("/new")


def test_tab_completes_commands_and_session_ids(desk: Desk, foreign: str) -> None:
    desk.fill("sess_aaa", 2)
    assert [choice.text for choice in desk.commands.complete("/res")] == ["/resume ", "/restore "]
    assert [choice.text for choice in desk.commands.complete("/resume sess")] == ["sess_aaa"]
    assert [choice.text for choice in desk.commands.complete("/resume cl")] == [foreign]
    assert desk.commands.complete("/delete cl") == []


def test_the_options_of_the_command_line(home: Path, model: Parrot) -> None:
    env = environment(home, model)
    help_text = alfred(env, "--help")
    assert help_text.code == 0
    assert "alfred telegram" in help_text.out
    assert "ExecStart=" in alfred(env, "worker", "--print-timer").out
    assert alfred(env, "worker", "--print-cron").out.startswith("*/5 * * * * /")
    no_model = alfred({**environment(home), "PATH": "/nowhere"}, "hello")
    assert no_model.code == 8
    assert "No model is available yet." in no_model.err
    assert alfred(env, "telegram").code == 7  # no token
    answer = alfred(env, "--json", "--new", "ping").json
    assert answer["reply"] == "Answer to ping"
    assert messages_of(home, answer["session_id"])[0]["content"] == "ping"


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        ("/frobnicate", "unknown command /frobnicate", "/help lists the commands"),
        ("/sesions", "unknown command /sesions", "did you mean /sessions?"),
        ("/retry it", "/retry and /continue take no arguments", "send the command on its own"),
    ],
)
def test_an_invalid_command_is_refused_with_a_hint(desk: Desk, typed: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        desk.do(typed)
    assert (refused.value.message, refused.value.kept, refused.value.hint) == (message, "nothing was sent", hint)


def test_help_lists_every_command_of_the_table(desk: Desk) -> None:
    lines = desk.do("/help").text.splitlines()
    assert len(lines) == len(list(COMMANDS)) and "/title [WORDS] – show or set the title of this session" in lines
