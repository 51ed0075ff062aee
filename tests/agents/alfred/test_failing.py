"""Errors as a chat shows them: what helps there stays, what belongs to the machine does not leave it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.llm.connection import Fault
from cortext.agents.telegram.withheld import error_text
from cortext.errors import CortextError, DamagedData, ModelError, NotFound
from cortext.testing.table import every_row
from tests.agents.alfred.kit import Bot, Parrot, environment
from tests.support.model_server import Reply
from tests.support.telegram_server import TelegramServer

ME = 4711
KEY = "sk-" + "proj-abcdefgh12345678"
RETRY = "\nYour message is kept; /retry asks again."


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as server:
        yield server


def _told(status: int, said: str = "") -> str:
    error: ModelError = Fault("openai/GPT-4o", key_hint="set OPENAI_API_KEY", secret=KEY).status(status, said).error
    return error_text(error)


@pytest.mark.parametrize(("status", "what"), [(500, "server error"), (502, "server error"), (429, "rate limit")])
def test_a_passing_error_keeps_the_part_of_the_hint_that_helps(status: int, what: str) -> None:
    expected = f"⚠ openai/GPT-4o: {what}: try later\nwait a little and send it again{RETRY}"
    assert _told(status, "try later") == expected


@every_row(
    "said",
    [
        f"Incorrect API key provided: {KEY[:8]}*****5678. See https://platform.example.com/api-keys",
        f"Incorrect API key provided: {KEY}",
        "Incorrect API key provided: gsk_abc...wxyz",
        "blocked by http://10.0.0.7:8080/v1?token=abcd and gateway.corp.internal:8443",
        "cannot read /home/annika/.config/models/key.pem or ~/.ssh/id_rsa",
        r"cannot read C:\Users\annika\models\key.pem",
        "account annika@example.com",
    ],
)
@every_row("status", [400, 401, 403, 404, 429, 500, 503])
def test_no_address_key_or_path_of_an_error_goes_to_a_chat(status: int, said: str) -> None:
    told = _told(status, said)
    for secret in (
        "sk-",
        "5678",
        "gsk_",
        "wxyz",
        "http",
        "10.0.0.7",
        "8443",
        "corp",
        "annika",
        "key.pem",
        "OPENAI_API",
    ):
        assert secret not in told, told
    assert told.startswith("⚠ openai/GPT-4o: ")


def test_what_only_the_machine_can_mend_says_so() -> None:
    assert (
        _told(401, "no")
        == f"⚠ openai/GPT-4o: the key was not accepted\nThis has to be fixed on the command line.{RETRY}"
    )
    lost: CortextError = Fault("ollama/llama3:70b", place="http://127.0.0.1:11434/v1").no_connection("refused").error
    assert error_text(lost) == f"⚠ ollama/llama3:70b: no connection: refused\nsend it again{RETRY}"
    assert error_text(NotFound("no session x", hint="/sessions lists the sessions")) == (
        "⚠ No session x\n/sessions lists the sessions"
    )
    damaged = DamagedData("/home/ann/chats/tg_1/current.jsonl is damaged", hint="run `cortext repair tg_1` first")
    assert error_text(damaged) == "⚠ (path) is damaged\nThis has to be fixed on the command line."


def test_a_chat_is_told_of_an_overload_and_lists_stop_in_its_help(
    home: Path, model: Parrot, telegram: TelegramServer
) -> None:
    env = {**environment(home, model, telegram), "CORTEXT_MODEL_RETRIES": "0"}
    with Bot(env, telegram):
        model.push(Reply(status=503))
        telegram.say(ME, "hello")
        telegram.wait_for(lambda: telegram.said(ME))
        assert "wait a little and send it again" in telegram.said(ME)[0]
        assert "command line" not in telegram.said(ME)[0]
        telegram.say(ME, "/help")
        telegram.wait_for(lambda: len(telegram.said(ME)) == 2)
        assert "/stop – stop the answer that is being written" in telegram.said(ME)[1]


def test_a_bot_without_a_model_says_so_when_it_starts(home: Path, telegram: TelegramServer) -> None:
    with Bot(environment(home, None, telegram), telegram) as bot:
        bot.wait_for_log("messages are kept, but cannot be answered yet: No model is available")
