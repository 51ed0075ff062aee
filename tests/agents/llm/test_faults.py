"""Everything that can go wrong with a provider, injected on loopback: our error, and nothing said twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from cortext.agents.llm import provider as provider_module
from cortext.agents.llm.connection import Fault, ModelLimits, RequestFailure, retry_after
from cortext.agents.llm.provider import Provider
from cortext.distribution import install_command
from cortext.errors import ModelBusy, ModelCut, ModelRefused, ModelUnreachable, NoModel
from tests.agents.llm.kit import KEY, LOOK_UP, PROVIDERS, QUICK, Outcome, ask, model
from tests.support.model_server import ModelServer, Reply, ToolCall

pytestmark = pytest.mark.req("MODEL-02")
EACH = pytest.mark.parametrize("provider", PROVIDERS)
TOLD = Reply(text="One two three.", thinking="hm hm", tool_calls=(ToolCall("look_up", {"word": "x"}),))
LONGEST_STREAM = 16


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[ModelServer, dict[str, Provider]]]:
    """One server and one model of each provider for all tests here: a client costs more than a request."""
    with ModelServer() as running:
        yield running, {name: model(name, running) for name in PROVIDERS}


@pytest.mark.parametrize("kind", ["cut_after", "end_after", "garbage_after", "error_after"])
@EACH
def test_a_stream_broken_anywhere_says_nothing_twice(
    provider: str, kind: str, models: tuple[ModelServer, dict[str, Provider]]
) -> None:
    server, made = models
    talk = ask("Go", tools=[LOOK_UP])
    server.forget()
    server.push(TOLD)
    whole = Outcome(made[provider], talk)
    assert whole.done is not None
    seen = set()

    for place in range(LONGEST_STREAM):
        server.forget()
        server.push(replace_reply(TOLD, kind, place), TOLD)
        outcome = Outcome(made[provider], talk)
        asked = len(server.turns)
        if outcome.error is None:
            # Either the fault came after the end of the answer, or before its first text and there was a retry.
            assert (outcome.text, outcome.thinking) == (whole.text, whole.thinking), f"at {place}"
            assert [call.name for call in outcome.calls] == ["look.up"]
            assert outcome.done is not None
            assert (asked == 2) == bool(outcome.notes)
            seen.add("again" if asked == 2 else "whole")
        else:
            assert isinstance(outcome.error, ModelCut), f"at {place}: {outcome.error!r}"
            assert asked == 1, "once a word was said, nothing is asked again"
            assert whole.text.startswith(outcome.text) and whole.thinking.startswith(outcome.thinking)
            assert outcome.calls == [] and outcome.done is None
            seen.add("cut")

    assert "cut" in seen and "whole" in seen
    assert ("again" in seen) == (kind != "garbage_after"), "what cannot be understood is not retried"


def replace_reply(reply: Reply, kind: str, place: int) -> Reply:
    from dataclasses import replace as changed

    return changed(reply, **{kind: place})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cut_after", "garbage_after"])
@EACH
def test_a_broken_complete_answer_is_an_error(provider: str, kind: str, server: ModelServer) -> None:
    server.push(replace_reply(Reply(text="One two three."), kind, 0))

    outcome = Outcome(model(provider, server, replace(QUICK, streaming=False, retries=0)), ask("Go"))

    assert isinstance(outcome.error, ModelCut | ModelUnreachable)
    assert outcome.said == []


STATUSES = [
    (400, ModelRefused, 1),
    (401, ModelRefused, 1),
    (403, ModelRefused, 1),
    (404, ModelRefused, 1),
    (413, ModelRefused, 1),
    (422, ModelRefused, 1),
    (408, ModelUnreachable, 3),
    (429, ModelBusy, 3),
    (500, ModelBusy, 3),
    (502, ModelBusy, 3),
    (503, ModelBusy, 3),
    (504, ModelUnreachable, 3),
    (529, ModelBusy, 3),
]


@EACH
def test_every_status_becomes_our_error(provider: str, models: tuple[ModelServer, dict[str, Provider]]) -> None:
    server, _ = models
    asked = model(provider, server, replace(QUICK, retries=2))
    for status, kind, times in STATUSES:
        server.forget()
        server.push(*[Reply.error(status, f"told to fail, key {KEY}")] * 3)

        outcome = Outcome(asked, ask("Go"))

        assert type(outcome.error) is kind, f"{status}: {outcome.error!r}"
        assert len(server.turns) == times, f"{status}"
        assert len(outcome.notes) == times - 1 and outcome.said == []
        assert outcome.error.kept and outcome.error.hint and f"{provider}/test-model" in outcome.error.message
        for text in (*outcome.notes, *outcome.error.as_dict().values(), repr(outcome.error)):
            assert KEY not in text, f"{status}: the key is in {text!r}"


@EACH
def test_a_rate_limit_is_waited_for_with_a_note(provider: str, server: ModelServer) -> None:
    server.push(Reply(status=429, text="slow down", retry_after="0"), Reply.error(503), "Here I am.")

    outcome = Outcome(model(provider, server), ask("Go"))

    assert outcome.text == "Here I am." and outcome.error is None
    assert ["rate limit" in note or "overloaded" in note for note in outcome.notes] == [True, True]
    assert "(1 of 3)" in outcome.notes[0] and "(2 of 3)" in outcome.notes[1]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])  # Ollama has no such header
def test_a_wait_that_is_too_long_is_an_error(provider: str, server: ModelServer) -> None:
    server.push(Reply(status=429, text="come back later", retry_after="3600"))

    outcome = Outcome(model(provider, server), ask("Go"))

    assert isinstance(outcome.error, ModelBusy) and "3600 s" in outcome.error.hint
    assert len(server.turns) == 1


@pytest.mark.parametrize("words", ["You exceeded your current quota (insufficient_quota)", "credit balance is too low"])
def test_an_empty_account_is_not_retried(words: str, server: ModelServer) -> None:
    server.push(Reply.error(429, words))

    outcome = Outcome(model("openai", server), ask("Go"))

    assert isinstance(outcome.error, ModelRefused) and len(server.turns) == 1


def test_a_web_page_instead_of_an_answer_is_an_error(server: ModelServer) -> None:
    """An address without its /v1 often leads to a web page, with a status of 200."""
    asked = model("openai", server, replace(QUICK, streaming=False, retries=0))
    events = asked._events(ask("Go"), iter(["<html>Welcome</html>"]))

    with pytest.raises(RequestFailure) as caught:
        list(events)

    assert "address" in caught.value.error.hint


@EACH
def test_an_unreachable_server_is_an_error(provider: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refused at once
        outcome = Outcome(model(provider, f"http://127.0.0.1:{taken.getsockname()[1]}"), ask("Go"))

    assert isinstance(outcome.error, ModelUnreachable) and outcome.notes == []
    assert "127.0.0.1" in outcome.error.message
    if provider == "ollama":
        assert "ollama serve" in outcome.error.hint


@EACH
def test_a_silent_server_is_given_up(provider: str, server: ModelServer) -> None:
    asked = model(provider, server, ModelLimits(silence=0.3, pause=0.01))
    never = threading.Event()
    server.push(Reply(text="One two.", hold=never, hold_at=0))
    before = Outcome(asked, ask("Go"))
    server.push(Reply(text="One two three four five.", hold=never, hold_at=3))
    amid = Outcome(asked, ask("Go"))

    assert isinstance(before.error, ModelUnreachable) and "0.3 s" in before.error.message
    assert isinstance(amid.error, ModelCut) and amid.text and "One two three four five.".startswith(amid.text)
    assert len(server.turns) == 2


@EACH
def test_a_closed_keep_alive_connection_is_reopened(provider: str) -> None:
    """A server that restarted between two turns costs a retry at most, never an error."""
    with ModelServer() as first:
        asked = model(provider, first)
        assert Outcome(asked, ask("Go")).error is None
        first._http.break_connections()
        assert Outcome(asked, ask("Go")).error is None


@pytest.mark.parametrize("url", ["not an address", "http://[half", "ftp://127.0.0.1", "http://127.0.0.1:99999"])
@EACH
def test_an_invalid_address_is_an_error(provider: str, url: str) -> None:
    asked = model(provider, url)
    asked.warm()

    outcome = Outcome(asked, ask("Go"))

    assert outcome.error is not None and outcome.error.hint and outcome.notes == []


def test_a_missing_library_says_how_to_install_it() -> None:
    with pytest.raises(NoModel) as caught:
        provider_module.library("openai/x", "no_such_library")

    assert install_command("models") in caught.value.hint


def test_ollama_says_how_to_pull_a_model(server: ModelServer) -> None:
    server.push(Reply.error(404, "model 'test-model' not found"))

    outcome = Outcome(model("ollama", server), ask("Go"))

    assert isinstance(outcome.error, ModelRefused) and outcome.error.hint == "fetch it with: ollama pull test-model"


def test_a_server_s_message_is_short_and_contains_no_secret() -> None:
    fault = Fault("openai/x", place="https://me:pass@host/v1", secret=KEY)
    other = "sk-ant-api03-" + "a1B2" * 24

    words = fault.words(f"bad {KEY}\n and\t{other} " + "x" * 1_000)

    assert KEY not in words and other not in words and "\n" not in words and len(words) <= 400
    assert fault.place == "https://host/v1"


def test_retry_after_is_a_number_or_a_date() -> None:
    later = retry_after("Fri, 31 Dec 2100 23:59:59 GMT")

    assert [retry_after(value) for value in (None, "", "soon", "2.5", "-1")] == [None, None, None, 2.5, 0.0]
    assert later is not None and later > 1e6
