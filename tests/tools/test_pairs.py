"""A conversation of any of the four real programs is resumed in any of them, with all turns and tool calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.desk import NAMES, Desk
from tests.support.model_server import ModelServer, Request

from cortext.model.message import Message, thread
from cortext.model.session import Origin, Session
from cortext.safety.framing import GO_ON
from cortext.services.library.resolve import with_exact_id
from cortext.services.library.stores import Found
from cortext.services.resume.handover import NEW, OWN, Plan, carry_out, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores

COMMAND = "# A way to talk\n\nTopic: herons\n\nBe brief, and never guess."
NEXT = "What was the number, and what did the note say?"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return one desk for all pairs, so that each program holds its conversation only once."""
    with ModelServer() as server:
        yield Desk(tmp_path_factory.mktemp("desk"), server)


@pytest.fixture(scope="module")
def conversations(desk: Desk) -> dict[str, tuple[Path, list[str]]]:
    """Hold a conversation in each program; return the project and the texts of each."""
    made = {}
    for name in NAMES:
        project = desk.project(f"{name}-project")
        made[name] = (project, desk.talk(name, project))
    return made


@pytest.fixture
def stores(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """Return the stores in the environment of the desk."""
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return Stores(str(desk.home))


def _session_of(desk: Desk, stores: Stores, name: str, project: Path) -> Found:
    """Import the conversation of a program and return it."""
    done = desk.cortext("import", "--from", name, cwd=project)
    assert done.code == 0, done.err
    rows = desk.cortext("list", "--tool", name, "--json", cwd=project).json
    found = [with_exact_id(stores.all(), row["id"])[0] for row in rows if not row["id"].startswith("pair-")]
    of_project = [item for item in found if item.session.extra.get("project") == str(project)]
    assert len(of_project) == 1, [item.session for item in found]
    return of_project[0]


def _texts(messages: list[Message]) -> list[str]:
    return [message.content for message in messages if message.content]


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
@pytest.mark.parametrize("name", list(NAMES))
def test_every_message_and_tool_call_is_captured(
    desk: Desk, conversations: dict[str, tuple[Path, list[str]]], stores: Stores, name: str
) -> None:
    project, texts = conversations[name]
    found = _session_of(desk, stores, name, project)
    messages = thread(found.store.read(found.session.id))
    assert _texts(messages) == texts
    calls = [part for message in messages for part in message.parts_of("tool_call")]
    results = [part for message in messages for part in message.parts_of("tool_result")]
    assert len(calls) == len(results) == 1
    assert "cat note.txt" in str(calls[0].input)
    assert results[0].call_id == calls[0].id
    assert "the heron stands still" in results[0].output
    assert desk.cortext("import", "--from", name, "--json", cwd=project).json[0]["messages"] == 0, "idempotent"


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "SESS-004d", "SESS-003b", "SESS-003c", "SAFE-03")
@pytest.mark.parametrize("target", list(NAMES))
@pytest.mark.parametrize("source", list(NAMES))
def test_a_conversation_of_one_tool_is_resumed_in_another(
    desk: Desk, conversations: dict[str, tuple[Path, list[str]]], stores: Stores, source: str, target: str
) -> None:
    project, texts = conversations[source]
    found = _copy(stores, _session_of(desk, stores, source, project), target)
    tool = tools.native_writer(target)
    plan = make_plan(found, tool, command=COMMAND, project=str(project))
    carry_out(plan, found, tool, stores.capture(), force=True)
    assert plan.how == NEW
    # If the prompt is public, the context block is in the session and not in the arguments of the program.
    request = _continue(desk, target, GO_ON if tool.prompt_is_public else plan.prompt, plan.key, project)
    _check_request(request, plan, texts)
    _check_receipt(request, plan)
    _check_capture(desk, stores, found, plan, texts, target)


def _copy(stores: Stores, found: Found, target: str) -> Found:
    """Copy the conversation to another id, so that each pair starts with the original one."""
    store = found.store
    name = f"pair-{found.session.origin.tool}-{target}"
    store.create(
        Session(
            id=name,
            type="plan",
            title="Herons",
            summary="A number was noted and a note read.",
            status="paused",
            origin=Origin(tool=found.session.origin.tool),
            extra=found.session.extra,
        )
    )
    store.append(name, *thread(store.read(found.session.id)))
    return Found(found.named_store, store.get(name))


def _continue(desk: Desk, target: str, prompt: str, key: str, project: Path) -> Request:
    """Continue in the target without its screen, with our prompt; return the request that its model received."""
    before = len(desk.server.turns)
    desk.server.push("It was 4711, and the heron stands still.")
    done = desk.tools[target].run(f"{prompt}\n\n{NEXT}", cwd=project, resume=key)
    assert done.returncode == 0, f"{target}: {done.stderr[-3000:]}"
    requests = desk.server.turns[before:]
    assert requests, "the model was asked"
    return requests[-1]


def _check_request(request: Request, plan: Plan, texts: list[str]) -> None:
    """Check that all turns come first, in order and in their roles, then command, context block and summary."""
    turns = request.conversation
    sent = "\n".join(turn.text for turn in turns if turn.kind == "text")
    offsets = [sent.index(text) for text in texts]
    assert offsets == sorted(offsets)
    prompt = sent.index("[RESUMED CONVERSATION]")
    assert offsets[-1] < sent.index(COMMAND) < prompt < sent.index("[END RESUMED CONTEXT]") < sent.index(NEXT)
    assert "A number was noted and a note read." in sent
    for index, text in enumerate(texts):
        role = "user" if index in (0, 2, 5) else "assistant"
        turn = next(turn for turn in turns if turn.kind == "text" and text in turn.text)
        assert {"model": "assistant"}.get(turn.role, turn.role) == role, (text, turn.role)
    calls = [turn for turn in turns if turn.kind == "tool_call"]
    results = [turn for turn in turns if turn.kind == "tool_result"]
    assert len(calls) == 1 and len(results) >= 1
    assert "cat note.txt" in str(calls[0].arguments)
    assert "the heron stands still" in results[0].text
    assert turns.index(calls[0]) < turns.index(results[0])


def _check_receipt(request: Request, plan: Plan) -> None:
    """Check the receipt against the request."""
    calls = [turn for turn in request.conversation if turn.kind == "tool_call"]
    assert plan.receipt.tool_calls == len(calls)
    assert plan.receipt.messages == plan.receipt.of_messages == len(plan.carried)
    assert not plan.receipt.left_out


def _check_capture(desk: Desk, stores: Stores, found: Found, plan: Plan, texts: list[str], target: str) -> None:
    """Check that the messages after the resume, and only those, are added to the session, and that every id stays."""
    before = [message.id for message in thread(found.store.read(found.session.id))]
    done = desk.cortext("sync", "--from", target, cwd=desk.home)
    assert done.code == 0, done.err
    after = thread(found.store.read(found.session.id))
    assert [message.id for message in after][: len(before)] == before
    assert [message.content for message in after[len(before) :] if message.content] == [
        *([NEXT] if after[len(before)].role == "user" else []),
        "It was 4711, and the heron stands still.",
    ]


def _essence(messages: list[Message]) -> list[tuple[object, ...]]:
    """Return what must never change: ids, texts, tool calls and their results."""
    return [
        (
            message.id,
            message.role,
            message.content,
            [(part.id, part.name, part.input) for part in message.parts_of("tool_call")],
            [(part.call_id, part.output) for part in message.parts_of("tool_result")],
        )
        for message in messages
    ]


@pytest.mark.real_tool
@pytest.mark.req("SESS-004d", "STORE-13")
@pytest.mark.parametrize(
    ("home", "other"), [("claude", "gemini"), ("gemini", "codex"), ("codex", "opencode"), ("opencode", "claude")]
)
def test_a_round_trip_through_another_tool_keeps_ids_texts_and_calls(
    desk: Desk, conversations: dict[str, tuple[Path, list[str]]], stores: Stores, home: str, other: str
) -> None:
    project, texts = conversations[home]
    found = _copy(stores, _session_of(desk, stores, home, project), f"{other}-and-back")
    store, name = found.store, found.session.id
    before = _essence(thread(store.read(name)))
    for target in (other, home):
        found = Found(found.named_store, store.get(name))
        tool = tools.native_writer(target)
        plan = make_plan(found, tool, command=COMMAND, project=str(project))
        assert plan.how == NEW
        carry_out(plan, found, tool, stores.capture(), force=True)
        prompt = GO_ON if tool.prompt_is_public else plan.prompt
        request = _continue(desk, target, prompt, plan.key, project)
        _check_receipt(request, plan)
        assert desk.cortext("sync", "--from", target, cwd=desk.home).code == 0
        after = _essence(thread(store.read(name)))
        assert after[: len(before)] == before
        assert after[-1][2] == "It was 4711, and the heron stands still."
        before = after
    sent = "\n".join(turn.text for turn in request.conversation if turn.kind == "text")
    for text in [*texts, "It was 4711, and the heron stands still."]:
        assert text in sent


@pytest.mark.real_tool
@pytest.mark.req("SESS-004d")
@pytest.mark.parametrize("name", list(NAMES))
def test_resuming_in_its_own_tool_uses_the_same_session(
    desk: Desk, conversations: dict[str, tuple[Path, list[str]]], stores: Stores, name: str
) -> None:
    project, _ = conversations[name]
    found = _session_of(desk, stores, name, project)
    plan = make_plan(found, tools.native_writer(name), command=COMMAND, project=str(project))
    assert plan.how == OWN
    assert plan.key == found.session.origin.session_id


def test_the_desk_does_not_use_the_real_home(desk: Desk) -> None:
    assert str(desk.home) != os.path.expanduser("~")
