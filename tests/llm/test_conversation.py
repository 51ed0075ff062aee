"""Any messages at all, in the order that every provider demands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from cortext.errors import UsageError
from cortext.llm import anthropic_api, gemini_api, ollama_api, openai_api
from cortext.llm.base import Request
from cortext.llm.calls import Calls
from cortext.llm.cli_prompt import prompt
from cortext.llm.conversation import GO_ON, Turn, turns
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
from tests.llm.kit import PROVIDERS, model
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
talks = some.lists(messages, max_size=8)


def body(provider: str, request: Request) -> dict[str, Any]:
    """What would be sent, as the server would read it."""
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
@given(talks)
def test_any_talk_obeys_the_rules_of_every_provider(talk: list[Message]) -> None:
    request = Request(messages=talk)
    try:
        told = turns(request)
    except UsageError:
        assert not any(message.text.strip() for message in talk if not message.partial)
        return

    assert told[0].role == USER and told[-1].role == USER
    for provider in PROVIDERS:
        assert broken_rules(provider, body(provider, request)) == [], provider
    assert turns(request) == told, "the same messages are always told the same way"
    assert prompt(request)[:1] != "/"


def test_rules_can_be_broken() -> None:
    """The rules themselves: a talk that is sent as it stands is refused by all of them."""
    call = {"id": "x y", "function": {"name": "a.b", "arguments": "[]"}}
    chat = [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "user", "content": " "}]
    blocks = [{"type": "tool_use", "id": "x y", "name": "a.b", "input": []}]
    parts = [{"functionCall": {"name": "a.b"}}]

    assert len(broken_rules("openai", {"messages": chat})) >= 5
    assert len(broken_rules("ollama", {"messages": chat})) >= 3
    assert len(broken_rules("anthropic", {"messages": [{"role": "assistant", "content": blocks}]})) >= 6
    assert len(broken_rules("gemini", {"contents": [{"role": "model", "parts": parts}]})) >= 3


def told(*talk: Message) -> list[Turn]:
    return turns(Request(messages=list(talk)))


def call(key: str, name: str = "look") -> Message:
    return Message(role=ASSISTANT, parts=[Part(TOOL_CALL, id=key, name=name, input={"key": key})])


def result(key: str, output: str) -> Message:
    return Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id=key, output=output)])


def test_result_that_came_late_stands_behind_its_call() -> None:
    user = Message(role=USER, content="wait")

    first, assistant, after, *rest = told(
        Message(role=USER, content="go"), call("a"), user, Message(role=ASSISTANT, content="yes"), result("a", "late")
    )

    assert (first.text, assistant.calls[0].input, after.answers[0].output) == ("go", {"key": "a"}, "late")
    assert after.text == "wait" and rest[0].text == "yes"


def test_call_without_a_result_says_so() -> None:
    *_, last = told(Message(role=USER, content="go"), call("a"), Message(role=USER, content="stop"))

    assert (last.answers[0].output, last.answers[0].is_error, last.text) == (NOT_RECORDED, True, "stop")


def test_result_without_a_call_is_kept_as_words() -> None:
    (only,) = told(Message(role=USER, content="go"), result("nobody", "lost words"))

    assert only.answers == [] and "lost words" in only.text


@pytest.mark.req("SAFE-06")
def test_call_nested_too_deep_is_left_out_and_the_talk_goes_on() -> None:
    deep: Any = {"end": 1}
    for _ in range(20_000):
        deep = [deep]
    talk = [Message(role=USER, content="go"), Message(role=ASSISTANT, parts=[Part(TOOL_CALL, id="a", input=deep)])]

    _, assistant, _ = told(*talk)

    assert assistant.calls[0].input == {"input": TOO_DEEP}
    for provider in PROVIDERS:
        assert broken_rules(provider, body(provider, Request(messages=talk))) == []


def test_same_id_twice_is_two_calls() -> None:
    talk = told(Message(role=USER, content="go"), call("1"), result("1", "one"), call("1"), result("1", "two"))

    assert [answer.output for turn in talk for answer in turn.answers] == ["one", "two"]
    assert len({made.id for turn in talk for made in turn.calls}) == 2


def test_talk_that_ends_with_the_assistant_asks_it_to_go_on() -> None:
    assert told(Message(role=USER, content="go"), Message(role=ASSISTANT, content="I"))[-1].text == GO_ON


def test_nothing_to_ask_is_an_error() -> None:
    with pytest.raises(UsageError):
        told(Message(role=USER, content=" "))


@pytest.mark.parametrize(
    ("name", "clean"),
    [("look.up", "look_up"), ("mcp__a-b", "mcp__a-b"), ("", "tool"), ("9x", "tool_9x"), ("ü" * 99, "_" * 64)],
)
def test_names_are_made_fit(name: str, clean: str) -> None:
    assert tool_name(name) == clean


FIELDS = ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "usage", "index"]
FIELDS += ["type", "text", "thinking", "content_block", "input", "stop_reason", "finish_reason", "partial_json", "id"]
values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
kinds = some.sampled_from(["message_start", "message", "content_block_start", "content_block_delta", "message_delta"])


@pytest.mark.parametrize("provider", ["openai", "anthropic"])  # the libraries of the others check the shape themselves
@settings(max_examples=50)
@given(chunks=some.lists(some.dictionaries(some.sampled_from(FIELDS), values, max_size=4), max_size=3), kind=kinds)
def test_answer_of_any_shape_is_no_crash(provider: str, chunks: list[dict[str, Any]], kind: str) -> None:
    from cortext.llm.faults import Failed

    asked = model(provider, "http://127.0.0.1:9")
    request = Request(messages=[Message(role=USER, content="go")])
    try:
        list(asked._events(request, iter([{**chunk, "type": kind} for chunk in chunks])))
    except Failed:
        pass  # "unfinished": the right answer to most of these


def test_pieces_of_calls_are_put_together() -> None:
    calls = Calls({"look_up": "look.up"})
    calls.add(0, "a", "look_up", '{"wo')
    calls.add(1, "b", "other", "")
    calls.add(0, "", "", 'rd": 1}')
    calls.add(0, "c", "look_up", "[1]")  # some servers count every call as the first

    made = calls.made()

    assert [(one.id, one.name, one.input, one.broken) for one in made] == [
        ("a", "look.up", {"word": 1}, ""),
        ("b", "other", {}, ""),
        ("c", "look.up", {}, "[1]"),
    ]
