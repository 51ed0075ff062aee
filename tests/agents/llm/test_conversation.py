"""Any messages, arranged as every provider demands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from cortext.agents.llm import anthropic_api, gemini_api, ollama_api, openai_api
from cortext.agents.llm.base import Request
from cortext.agents.llm.cli import prompt
from cortext.agents.llm.conversation import GO_ON, ChatTurn, turns_of_request
from cortext.agents.llm.provider import CallList
from cortext.errors import UsageError
from cortext.model.message import (
    ASSISTANT,
    IMAGE,
    ROLES,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
)
from cortext.model.turns import NOT_RECORDED, TOO_DEEP, tool_name
from tests.agents.llm.kit import PROVIDERS, model
from tests.support.model_rules import broken_rules

ids = some.sampled_from(["", "a", "b", "toolu_1", "x/y z"])
texts = some.sampled_from(["", " ", "\n", "hello", "鷺 🐦", "half \ud83d", "</conversation>", "/help", "a\0b"])
inputs = some.sampled_from([None, {}, {"q": "x"}, "free text", [1, 2], 7])
parts = some.one_of(
    some.builds(Part, type=some.just(TEXT), text=texts),
    some.builds(Part, type=some.just(THINKING), text=texts),
    some.builds(Part, type=some.just(TOOL_CALL), id=ids, name=texts, input=inputs),
    some.builds(Part, type=some.just(TOOL_RESULT), call_id=ids, name=texts, output=texts, is_error=some.booleans()),
    some.builds(Part, type=some.sampled_from([IMAGE, "file", "new kind"]), ref=texts, name=texts),
)
messages = some.builds(
    Message,
    role=some.sampled_from(ROLES),
    content=texts,
    parts=some.one_of(some.none(), some.lists(parts, max_size=4)),
    partial=some.booleans(),
)
conversations = some.lists(messages, max_size=8)


def body(provider: str, request: Request) -> dict[str, Any]:
    """Return what would be sent, as the server would read it."""
    if provider == "anthropic":
        made = anthropic_api._body("m", request, 100)
    elif provider == "gemini":
        made = {"contents": gemini_api._contents(request, signed=False)}
    elif provider == "openai":
        made = {"messages": openai_api.messages(request)}
    else:
        made = {"messages": ollama_api.messages(request)}
    raw = json.dumps(made, ensure_ascii=False).encode("utf-8")
    return dict(json.loads(raw))


@pytest.mark.req("MODEL-02")
@settings(max_examples=60)
@given(conversations)
def test_any_conversation_obeys_the_rules_of_every_provider(conversation: list[Message]) -> None:
    request = Request(messages=conversation)
    try:
        found = turns_of_request(request)
    except UsageError:
        assert not any(message.text.strip() for message in conversation if not message.partial)
        return

    assert found[0].role == USER and found[-1].role == USER
    for provider in PROVIDERS:
        assert broken_rules(provider, body(provider, request)) == [], provider
    assert turns_of_request(request) == found, "the same messages always give the same turns"
    assert prompt(request)[:1] != "/"


def test_the_rules_detect_violations() -> None:
    """Every provider's rules reject a conversation that is sent unchanged."""
    call = {"id": "x y", "function": {"name": "a.b", "arguments": "[]"}}
    chat = [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "user", "content": " "}]
    blocks = [{"type": "tool_use", "id": "x y", "name": "a.b", "input": []}]
    parts = [{"functionCall": {"name": "a.b"}}]

    assert len(broken_rules("openai", {"messages": chat})) >= 5
    assert len(broken_rules("ollama", {"messages": chat})) >= 3
    assert len(broken_rules("anthropic", {"messages": [{"role": "assistant", "content": blocks}]})) >= 6
    assert len(broken_rules("gemini", {"contents": [{"role": "model", "parts": parts}]})) >= 3


def to_turns(*conversation: Message) -> list[ChatTurn]:
    return turns_of_request(Request(messages=list(conversation)))


def call(key: str, name: str = "look") -> Message:
    return Message(role=ASSISTANT, parts=[Part(TOOL_CALL, id=key, name=name, input={"key": key})])


def result(key: str, output: str) -> Message:
    return Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id=key, output=output)])


def test_a_late_result_is_moved_to_its_call() -> None:
    user = Message(role=USER, content="wait")

    first, assistant, after, *rest = to_turns(
        Message(role=USER, content="go"), call("a"), user, Message(role=ASSISTANT, content="yes"), result("a", "late")
    )

    assert (first.text, assistant.calls[0].input, after.answers[0].output) == ("go", {"key": "a"}, "late")
    assert after.text == "wait" and rest[0].text == "yes"


def test_a_call_without_a_result_gets_a_placeholder() -> None:
    *_, last = to_turns(Message(role=USER, content="go"), call("a"), Message(role=USER, content="stop"))

    assert (last.answers[0].output, last.answers[0].is_error, last.text) == (NOT_RECORDED, True, "stop")


def test_a_result_without_a_call_becomes_text() -> None:
    (only,) = to_turns(Message(role=USER, content="go"), result("nobody", "lost words"))

    assert only.answers == [] and "lost words" in only.text


@pytest.mark.req("SAFE-06")
def test_a_call_that_is_nested_too_deeply_is_left_out() -> None:
    deep: Any = {"end": 1}
    for _ in range(20_000):
        deep = [deep]
    conversation = [
        Message(role=USER, content="go"),
        Message(role=ASSISTANT, parts=[Part(TOOL_CALL, id="a", input=deep)]),
    ]

    _, assistant, _ = to_turns(*conversation)

    assert assistant.calls[0].input == {"input": TOO_DEEP}
    for provider in PROVIDERS:
        assert broken_rules(provider, body(provider, Request(messages=conversation))) == []


def test_a_repeated_call_id_is_two_calls() -> None:
    conversation = to_turns(
        Message(role=USER, content="go"), call("1"), result("1", "one"), call("1"), result("1", "two")
    )

    assert [answer.output for turn in conversation for answer in turn.answers] == ["one", "two"]
    assert len({made.id for turn in conversation for made in turn.calls}) == 2


def test_a_conversation_that_ends_with_the_assistant_is_continued() -> None:
    assert to_turns(Message(role=USER, content="go"), Message(role=ASSISTANT, content="I"))[-1].text == GO_ON


def test_an_empty_conversation_is_an_error() -> None:
    with pytest.raises(UsageError):
        to_turns(Message(role=USER, content=" "))


@pytest.mark.parametrize(
    ("name", "clean"),
    [("look.up", "look_up"), ("mcp__a-b", "mcp__a-b"), ("", "tool"), ("9x", "tool_9x"), ("ü" * 99, "_" * 64)],
)
def test_tool_names_are_made_valid(name: str, clean: str) -> None:
    assert tool_name(name) == clean


FIELDS = ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "usage", "index"]
FIELDS += ["type", "text", "thinking", "content_block", "input", "stop_reason", "finish_reason", "partial_json", "id"]
values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
kinds = some.sampled_from(["message_start", "message", "content_block_start", "content_block_delta", "message_delta"])


@pytest.mark.parametrize("provider", ["openai", "anthropic"])  # the other libraries validate the shape themselves
@settings(max_examples=50)
@given(chunks=some.lists(some.dictionaries(some.sampled_from(FIELDS), values, max_size=4), max_size=3), kind=kinds)
def test_an_answer_of_any_shape_does_not_crash(provider: str, chunks: list[dict[str, Any]], kind: str) -> None:
    from cortext.agents.llm.connection import RequestFailure

    asked = model(provider, "http://127.0.0.1:9")
    request = Request(messages=[Message(role=USER, content="go")])
    try:
        list(asked._events(request, iter([{**chunk, "type": kind} for chunk in chunks])))
    except RequestFailure:
        pass  # "unfinished" is right for most of these


def test_pieces_of_calls_are_assembled() -> None:
    calls = CallList({"look_up": "look.up"})
    calls.add(0, "a", "look_up", '{"wo')
    calls.add(1, "b", "other", "")
    calls.add(0, "", "", 'rd": 1}')
    calls.add(0, "c", "look_up", "[1]")  # some servers give every call index 0

    made = calls.made()

    assert [(one.id, one.name, one.input, one.broken) for one in made] == [
        ("a", "look.up", {"word": 1}, ""),
        ("b", "other", {}, ""),
        ("c", "look.up", {}, "[1]"),
    ]
