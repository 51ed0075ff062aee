"""A conversation of one of four real programs is resumed in another one, with all turns and tool calls.

Those of the other programs are in `tests/tools/real_flow.py`; `python -m tests.tools.matrix` runs every pair.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.desk import NAMES, Desk
from tests.support.launching import Launched, captured_again, launched
from tests.support.model_server import ModelServer
from tests.support.pairs import (
    ANSWER,
    COMMAND,
    Said,
    copied,
    hold,
    imported,
    outcomes,
)

from cortext.model.message import Message, attachments_in
from cortext.model.threads import thread
from cortext.services.library.resolve import with_exact_id
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.planning import NEW, OWN, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores

FOUR = list(NAMES)
# To another program and back: these also show that the first program's conversation arrives in the other one.
ROUND_TRIPS = [("claude", "gemini"), ("gemini", "codex"), ("codex", "opencode"), ("opencode", "claude")]
# Claude's conversation is resumed in each of the others by its own tests.
PAIRS = [("gemini", "qwen"), ("opencode", "pi"), ("codex", "kimi")]
REPEATED = [pair for pair in itertools.product(FOUR, FOUR) if pair not in (*PAIRS, *ROUND_TRIPS)]

Conversations = Callable[[str], tuple[Path, list[Said]]]
Originals = Callable[[str], StoredConversation]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Return one desk for all pairs, so that each program holds its conversation only once."""
    with ModelServer() as server:
        yield Desk(tmp_path_factory.mktemp("desk"), server, [*FOUR, *(target for _, target in PAIRS)])


@pytest.fixture(scope="module")
def conversation(desk: Desk) -> Conversations:
    """Return a function that holds a conversation in a program, once, and returns the project and the texts."""
    held: dict[str, tuple[Path, list[Said]]] = {}

    def hold_once(name: str) -> tuple[Path, list[Said]]:
        if name not in held:
            project = desk.project(f"{name}-project")
            held[name] = (project, hold(desk, name, project))
        return held[name]

    return hold_once


@pytest.fixture
def stores(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """Return the stores in the environment of the desk."""
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)
    return Stores(str(desk.home))


@pytest.fixture(scope="module")
def imported_ids() -> dict[str, str]:
    """Return the ids of the conversations that were imported already, by the name of their program."""
    return {}


@pytest.fixture
def original(desk: Desk, conversation: Conversations, stores: Stores, imported_ids: dict[str, str]) -> Originals:
    """Return a function that imports the conversation of a program, once."""

    def import_once(name: str) -> StoredConversation:
        if name not in imported_ids:
            imported_ids[name] = imported(desk, stores, name, conversation(name)[0]).session.id
        return with_exact_id(stores.all(), imported_ids[name])[0]

    return import_once


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "SESS-001d", "STORE-13")
@pytest.mark.parametrize("name", FOUR)
def test_every_message_and_tool_call_is_captured(
    desk: Desk, conversation: Conversations, stores: Stores, name: str
) -> None:
    project, said = conversation(name)
    found = imported(desk, stores, name, project)
    messages = thread(found.store.read(found.session.id))
    spoken = [message for message in messages if message.content and not attachments_in([message])]
    assert [message.role for message in spoken] == [role for role, _ in said]
    for message, (_, text) in zip(spoken, said, strict=True):
        # Gemini CLI adds the contents of a file that the user names to the user's message.
        assert message.content.partition("\n--- Content from referenced files ---")[0] == text
    assert len(outcomes(desk, messages)) == 3
    assert desk.cortext("import", "--from", name, "--json", cwd=project).json[0]["messages"] == 0, "idempotent"


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "TOOL-06", "SESS-004d", "SESS-003b", "SESS-003c", "SAFE-03")
@pytest.mark.parametrize(
    ("source", "target"), [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.repeats) for pair in REPEATED)]
)
def test_a_conversation_of_one_tool_is_resumed_in_another(
    desk: Desk, conversation: Conversations, original: Originals, stores: Stores, source: str, target: str
) -> None:
    project, said = conversation(source)
    found = copied(original(source), target)
    _check_carried(launched(desk, stores, found, target, project), said)
    assert captured_again(desk, found, target) == []


def _check_carried(result: Launched, said: list[Said]) -> None:
    """Check that the model received the whole conversation, in a session that was written for its program."""
    assert result.plan.how == NEW
    outcome = result.outcome(said)
    assert outcome.problems == []
    assert outcome.messages == outcome.of_messages == len(result.plan.carried) and not outcome.left_out
    assert outcome.calls == outcome.of_calls == 3


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
@pytest.mark.req("TOOL-02", "TOOL-06", "SESS-004d", "SESS-003b", "SESS-003c", "SAFE-03", "STORE-13")
@pytest.mark.parametrize(("home", "other"), ROUND_TRIPS)
def test_a_round_trip_through_another_tool_keeps_ids_texts_and_calls(
    desk: Desk, conversation: Conversations, original: Originals, stores: Stores, home: str, other: str
) -> None:
    project, said = conversation(home)
    found = copied(original(home), f"{other}-and-back")
    store, name = found.store, found.session.id
    before = _essence(thread(store.read(name)))
    for target in (other, home):
        found = StoredConversation(found.named_store, store.get(name))
        _check_carried(launched(desk, stores, found, target, project), said)
        assert captured_again(desk, found, target) == []
        after = _essence(thread(store.read(name)))
        assert after[: len(before)] == before
        assert after[-1][2] == ANSWER
        said = [*said, *(Said(str(role), str(text)) for _, role, text, *_ in after[len(before) :] if text)]
        before = after


@pytest.mark.real_tool
@pytest.mark.req("SESS-004d")
@pytest.mark.parametrize("name", list(NAMES))
def test_resuming_in_its_own_tool_uses_the_same_session(
    conversation: Conversations, original: Originals, name: str
) -> None:
    project, _ = conversation(name)
    found = original(name)
    plan = make_plan(found, tools.native_writer(name), command=COMMAND, project=str(project))
    assert plan.how == OWN
    assert plan.key == found.session.origin.session_id


@pytest.mark.real_tool
def test_the_desk_does_not_use_the_real_home(desk: Desk) -> None:
    assert str(desk.home) != os.path.expanduser("~")
