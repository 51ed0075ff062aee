"""Begun in any of the four real programs, continued in any of them: every word and tool call crosses, as real turns."""

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
    """One desk for all pairs; each conversation is held once."""
    with ModelServer() as server:
        yield Desk(tmp_path_factory.mktemp("desk"), server)


@pytest.fixture(scope="module")
def held(desk: Desk) -> dict[str, tuple[Path, list[str]]]:
    """A conversation in each program: the project, and what was said."""
    talks = {}
    for name in NAMES:
        project = desk.project(f"{name}-project")
        talks[name] = (project, desk.talk(name, project))
    return talks


@pytest.fixture
def world(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """Our own objects, in the environment of the desk, with everything imported."""
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return Stores(str(desk.home))


def _session_of(desk: Desk, world: Stores, name: str, project: Path) -> Found:
    """The conversation that was held in a program, as `cortext import` keeps it."""
    done = desk.cortext("import", "--from", name, cwd=project)
    assert done.code == 0, done.err
    rows = desk.cortext("list", "--tool", name, "--json", cwd=project).json
    found = [with_exact_id(world.all(), row["id"])[0] for row in rows if not row["id"].startswith("pair-")]
    mine = [item for item in found if item.session.extra.get("project") == str(project)]
    assert len(mine) == 1, [item.session for item in found]
    return mine[0]


def _words(messages: list[Message]) -> list[str]:
    return [message.content for message in messages if message.content]


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
@pytest.mark.parametrize("name", list(NAMES))
def test_every_word_and_tool_call_is_captured(
    desk: Desk, held: dict[str, tuple[Path, list[str]]], world: Stores, name: str
) -> None:
    project, said = held[name]
    found = _session_of(desk, world, name, project)
    messages = thread(found.store.read(found.session.id))
    assert _words(messages) == said
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
def test_begun_in_one_continued_in_another(
    desk: Desk, held: dict[str, tuple[Path, list[str]]], world: Stores, source: str, target: str
) -> None:
    project, said = held[source]
    found = _copy(world, _session_of(desk, world, source, project), target)
    tool = tools.native_writer(target)
    plan = make_plan(found, tool, command=COMMAND, project=str(project))
    carry_out(plan, found, tool, world.capture(), force=True)
    assert plan.how == NEW
    # What tells of the conversation stands in the session; the arguments of a program are no place for it.
    request = _continue(desk, target, GO_ON if tool.prompt_is_public else plan.prompt, plan.key, project)
    _check_request(request, plan, said)
    _check_receipt(request, plan)
    _check_capture(desk, world, found, plan, said, target)


def _copy(world: Stores, found: Found, target: str) -> Found:
    """The same conversation under another id, so that each pair begins with it as it was held."""
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
    """The target goes on, headless, with our prompt; the request that its model received."""
    before = len(desk.server.turns)
    desk.server.push("It was 4711, and the heron stands still.")
    done = desk.tools[target].run(f"{prompt}\n\n{NEXT}", cwd=project, resume=key)
    assert done.returncode == 0, f"{target}: {done.stderr[-3000:]}"
    requests = desk.server.turns[before:]
    assert requests, "the model was asked"
    return requests[-1]


def _check_request(request: Request, plan: Plan, said: list[str]) -> None:
    """Command, block and summary in the new prompt; every earlier word before it, in order; calls paired."""
    turns = request.conversation
    texts = [turn.text for turn in turns if turn.kind == "text"]
    whole = "\n".join(texts)
    places = [whole.index(text) for text in said]
    assert places == sorted(places)
    prompt = whole.index("[RESUMED CONVERSATION]")
    assert places[-1] < whole.index(COMMAND) < prompt < whole.index("[END RESUMED CONTEXT]") < whole.index(NEXT)
    assert "A number was noted and a note read." in whole
    for text in said:  # real turns: what the user said stands in a turn of the user's, and so on
        role = "user" if said.index(text) in (0, 2, 5) else "assistant"
        turn = next(turn for turn in turns if turn.kind == "text" and text in turn.text)
        assert {"model": "assistant"}.get(turn.role, turn.role) == role, (text, turn.role)
    calls = [turn for turn in turns if turn.kind == "tool_call"]
    results = [turn for turn in turns if turn.kind == "tool_result"]
    assert len(calls) == 1 and len(results) >= 1
    assert "cat note.txt" in str(calls[0].arguments)
    assert "the heron stands still" in results[0].text
    assert turns.index(calls[0]) < turns.index(results[0])


def _check_receipt(request: Request, plan: Plan) -> None:
    """What the receipt says is what the request shows."""
    calls = [turn for turn in request.conversation if turn.kind == "tool_call"]
    assert plan.receipt.tool_calls == len(calls)
    assert plan.receipt.messages == plan.receipt.of_messages == len(plan.carried)
    assert not plan.receipt.left_out


def _check_capture(desk: Desk, world: Stores, found: Found, plan: Plan, said: list[str], target: str) -> None:
    """What was said after the resume is kept in the same session, and only that: every id stays."""
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
    """What must not change on any way: ids, words, calls and their results."""
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
    ("home", "abroad"), [("claude", "gemini"), ("gemini", "codex"), ("codex", "opencode"), ("opencode", "claude")]
)
def test_there_and_back_again_every_id_word_and_call_stays(
    desk: Desk, held: dict[str, tuple[Path, list[str]]], world: Stores, home: str, abroad: str
) -> None:
    project, said = held[home]
    found = _copy(world, _session_of(desk, world, home, project), f"{abroad}-and-back")
    store, name = found.store, found.session.id
    before = _essence(thread(store.read(name)))
    for target in (abroad, home):
        found = Found(found.named_store, store.get(name))
        tool = tools.native_writer(target)
        plan = make_plan(found, tool, command=COMMAND, project=str(project))
        assert plan.how == NEW
        carry_out(plan, found, tool, world.capture(), force=True)
        prompt = GO_ON if tool.prompt_is_public else plan.prompt
        request = _continue(desk, target, prompt, plan.key, project)
        _check_receipt(request, plan)
        assert desk.cortext("sync", "--from", target, cwd=desk.home).code == 0
        after = _essence(thread(store.read(name)))
        assert after[: len(before)] == before
        assert after[-1][2] == "It was 4711, and the heron stands still."
        before = after
    texts = [turn.text for turn in request.conversation if turn.kind == "text"]
    whole = "\n".join(texts)
    for text in [*said, "It was 4711, and the heron stands still."]:
        assert text in whole


@pytest.mark.real_tool
@pytest.mark.req("SESS-004d")
@pytest.mark.parametrize("name", list(NAMES))
def test_back_in_its_own_tool_it_is_the_same_session(
    desk: Desk, held: dict[str, tuple[Path, list[str]]], world: Stores, name: str
) -> None:
    project, _ = held[name]
    found = _session_of(desk, world, name, project)
    plan = make_plan(found, tools.native_writer(name), command=COMMAND, project=str(project))
    assert plan.how == OWN
    assert plan.key == found.session.origin.session_id


def test_the_desk_is_a_world_of_its_own(desk: Desk) -> None:
    assert str(desk.home) != os.path.expanduser("~")
