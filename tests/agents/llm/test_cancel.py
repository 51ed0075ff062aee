"""Stopping a request: at once, from any thread, and noticed by the server."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from cortext.errors import ModelCut
from cortext.model.answer import AnswerText
from tests.agents.llm.kit import PROVIDERS, QUICK, Outcome, ask, model
from tests.support.model_server import ModelServer, Reply

pytestmark = pytest.mark.req("MODEL-02")
EACH = pytest.mark.parametrize("provider", PROVIDERS)
PATIENT = replace(QUICK, silence=600)  # so that no timeout of ours ends what a cancel should
LONG = "One two three four five six seven eight."


@pytest.mark.parametrize("hold_at", [0, 3])
@EACH
def test_cancel_breaks_the_connection(provider: str, hold_at: int, server: ModelServer) -> None:
    asked = model(provider, server, PATIENT)
    server.push(Reply(text=LONG, hold=threading.Event(), hold_at=hold_at))

    def stop() -> None:
        server.wait_for(lambda request: request.is_turn)
        server.wait_for_hold()
        asked.cancel()

    stopper = threading.Thread(target=stop)
    stopper.start()
    outcome = Outcome(asked, ask("Go"))
    stopper.join()

    assert isinstance(outcome.error, ModelCut) and "stopped" in outcome.error.message
    server.wait_for_hang_up()
    assert len(server.turns) == 1, "a stopped request is not retried"
    assert Outcome(asked, ask("Again")).error is None, "the model can be asked again afterwards"


@EACH
def test_closing_the_iterator_breaks_the_connection(provider: str, server: ModelServer) -> None:
    asked = model(provider, server, PATIENT)
    server.push(Reply(text=LONG, hold=threading.Event(), hold_at=4))
    events = asked.stream(ask("Go"))

    assert isinstance(next(events), AnswerText)
    events.close()  # type: ignore[attr-defined]

    server.wait_for_hang_up()
    assert Outcome(asked, ask("Again")).error is None


@EACH
def test_cancel_before_the_first_event_counts(provider: str, server: ModelServer) -> None:
    asked = model(provider, server)
    events = asked.stream(ask("Go"))
    asked.cancel()

    with pytest.raises(ModelCut):
        list(events)


def test_cancel_ends_a_wait_between_two_attempts(server: ModelServer) -> None:
    asked = model("openai", server, replace(PATIENT, pause=600, longest_pause=600))
    server.push(Reply.error(429))
    threads = []
    with pytest.raises(ModelCut):
        for _ in asked.stream(ask("Go")):  # the note about the wait
            threads.append(threading.Timer(0.05, asked.cancel))
            threads[-1].start()

    for thread in threads:
        thread.join()
    assert len(threads) == 1
