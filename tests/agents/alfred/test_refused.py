"""Refused updates: strangers, forgeries, duplicates, oversized messages, file names with paths."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.telegram.incoming import Address, Refused, read
from cortext.agents.telegram.logs import WithoutToken
from cortext.testing.table import every_row
from tests.agents.alfred.kit import Bot, Parrot, environment, messages_of, sessions_of
from tests.support.telegram_server import TOKEN, TelegramServer

ME, STRANGER = 4711, 666


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as server:
        yield server


@pytest.fixture
def env(home: Path, model: Parrot, telegram: TelegramServer) -> dict[str, str]:
    return environment(home, model, telegram)


def _everything(home: Path) -> str:
    """Return everything that was stored, as one text."""
    data = home / ".local" / "share" / "alfred"
    files = [path for path in data.rglob("*") if path.is_file()]
    return "\n".join([*(str(path) for path in files), *(path.read_text("utf-8", "replace") for path in files)])


@pytest.mark.req("CHAT-13")
def test_only_listed_users_are_served(home: Path, env: dict[str, str], model: Parrot, telegram: TelegramServer) -> None:
    with Bot(env, telegram, "--verbose") as bot:
        telegram.say(STRANGER, "let me in, zanzibar")
        telegram.say(-100200, "zanzibar from a group", user=STRANGER)
        telegram.say(STRANGER, "/new zanzibar")
        for size in (1_000_000, 30_000):  # never from Telegram itself, whose limit is 4,096
            telegram.say(ME, "x" * size + "zanzibar")
        telegram.push({"update_id": 7000, "message": {"chat": {"id": "zanzibar"}, "text": "zanzibar"}})
        telegram.push({"update_id": 7001, "message": "zanzibar"})
        telegram.say(ME, "this one counts")
        telegram.wait_for(lambda: telegram.said(ME) and "Created" in telegram.said(ME)[-1])
        reply = "This is a private assistant. Your user id is 666: its owner can add it to the list."
        assert telegram.said(STRANGER) == [reply]  # once, not for every message
        assert telegram.said(-100200) == []
        log = bot.logged()
    assert "refused: user 666 is not on the list" in log
    assert "refused: an update of more than half a megabyte" in log
    assert "refused: a message of 30,008 characters" in log
    assert log.count("refused: a message without a chat") == 1
    assert log.count("refused: a message that is not an object") == 1
    assert "zanzibar" not in _everything(home)
    assert len(model.turns) == 1
    assert [path.name for path in sessions_of(home).iterdir() if not path.name.startswith(".")] == ["tg_4711"]
    assert TOKEN.partition(":")[2] not in log


@pytest.mark.req("CHAT-13")
def test_with_an_empty_list_every_user_is_told_the_id(
    home: Path, env: dict[str, str], model: Parrot, telegram: TelegramServer
) -> None:
    with Bot(env, telegram, allowed="") as bot:
        telegram.say(ME, "hello")
        telegram.wait_for(lambda: telegram.said(ME))
        assert "Your user id is 4711" in telegram.said(ME)[0]
        assert 'allowed_users = "4711"' in telegram.said(ME)[0]
        assert "every user is refused" in bot.logged()
    assert model.turns == []
    assert not sessions_of(home).exists()


def test_an_unknown_token_is_not_shown(env: dict[str, str], telegram: TelegramServer) -> None:
    secret = "987654:AAH-this-is-not-the-right-token-at-all-000"
    bot = Bot({**env, "TELEGRAM_BOT_TOKEN": secret}, telegram, "--verbose")
    bot.start(wait=False)
    assert bot.process is not None
    assert bot.process.wait(20) == 7
    assert "unknown bot token" in bot.logged()
    assert secret.partition(":")[2] not in bot.logged()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.req("CHAT-13")
def test_a_webhook_accepts_only_requests_with_the_secret(
    home: Path, env: dict[str, str], model: Parrot, telegram: TelegramServer
) -> None:
    port = _free_port()
    listen = ("--webhook", f"http://127.0.0.1:{port}/hook", "--listen", f"127.0.0.1:{port}")
    with Bot(env, telegram, *listen) as bot:
        update = telegram.next_update(ME, "by webhook")
        assert len(telegram.webhook["secret_token"]) >= 32
        for secret in ("", "guess", telegram.webhook["secret_token"][:-1]):
            assert telegram.deliver(telegram.next_update(ME, "forged"), secret=secret) == 403
        assert telegram.deliver(b"not json") == 400
        assert telegram.deliver(b"[" * 100_000) == 400
        assert telegram.deliver(b'{"update_id": 1, "message": {"text": "' + b"x" * 1_000_000 + b'"}}') in (0, 400, 413)
        assert telegram.deliver(update) == 200
        telegram.wait_for(lambda: telegram.said(ME) and "Created" in telegram.said(ME)[-1])
        # Telegram repeats what it thinks was not received; an attacker might, too.
        assert telegram.deliver(update) == 200
        bot.wait_for_log("was taken before")
    with bot:
        assert telegram.deliver(update) == 200  # also after a restart
        assert telegram.deliver(telegram.next_update(ME, "and on")) == 200
        telegram.wait_for(lambda: telegram.said(ME)[-1] == "Answer to and on")
    assert len(telegram.said(ME)) == 2
    assert [line["content"] for line in messages_of(home, "tg_4711") if line["role"] == "user"] == [
        "by webhook",
        "and on",
    ]
    assert "forged" not in _everything(home)
    assert bot.logged().count("refused: a call to the webhook from 127.0.0.1 (403)") == 3


@every_row(
    ("name", "kept"),
    [
        ("../../passwd", ".._.._passwd"),
        ("/etc/passwd", "_etc_passwd"),
        ("a\\b\0.txt", "a_b.txt"),
        ("photo\u202egpj.exe", "photogpj.exe"),
        ("\u200freport.pdf", "report.pdf"),
        (" two  words.txt \n", "two words.txt"),
        ("half \ud83d a pair", "half a pair"),
        ("..", ""),
        ("", ""),
        (7, ""),
        ("z" * 300 + ".pdf", "z" * 115 + "….pdf"),
    ],
)
def test_a_file_name_is_cleaned_not_refused(name: object, kept: str) -> None:
    message = {"message_id": 1, "chat": {"id": 5}, "from": {"id": 5}, "document": {"file_id": "F", "file_name": name}}
    media = read({"update_id": 1, "message": message}, longest=100).media
    assert media is not None
    assert (media.name, media.ref) == (kept, "telegram:F")


def test_chat_ids_become_names_by_one_rule() -> None:
    assert Address(4711).name == "tg_4711"
    assert Address(-1001234567890).name == "tg_n1001234567890"
    assert Address(-1001234567890, 7).name == "tg_n1001234567890_t7"
    names = {Address(chat, thread).name for chat in (-12, 12, -1, 1, 2) for thread in (None, 1, 2, 12)}
    assert len(names) == 20


@every_row(
    "update",
    [
        None,
        [],
        "x",
        {},
        {"update_id": "1"},
        {"update_id": True},
        {"update_id": 1 << 60},
        {"update_id": 1, "message": {}},
        {"update_id": 1, "message": {"message_id": 1, "chat": {"id": 0}}},
        {"update_id": 1, "message": {"message_id": 1, "chat": {"id": 5}, "text": ["x"]}},
        {"update_id": 1, "message": {"message_id": "../x", "chat": {"id": 5}, "text": "x"}},
        {"update_id": 1, "deleted_business_messages": {"chat": {"id": 5}, "message_ids": "all"}},
    ],
)
def test_a_malformed_update_is_refused(update: object) -> None:
    with pytest.raises(Refused):
        read(update, longest=100)


def test_replies_in_a_group_are_not_topics() -> None:
    message = {"message_id": 1, "chat": {"id": -5}, "from": {"id": 4711}, "text": "x", "message_thread_id": 9}
    assert read({"update_id": 1, "message": message}, longest=10).address == Address(-5)
    message["is_topic_message"] = True
    assert read({"update_id": 1, "message": message}, longest=10).address == Address(-5, 9)
    # What is meant for another bot in the group is not ours.
    message["text"] = "/new@other_bot"
    assert read({"update_id": 1, "message": message}, longest=20, bot_name="alfred_bot").kind == "nothing"
    message["text"] = "@Alfred_bot hello"
    assert read({"update_id": 1, "message": message}, longest=20, bot_name="alfred_bot").text == "hello"


def test_a_forwarded_command_is_not_executed() -> None:
    message = {
        "message_id": 1,
        "chat": {"id": 5},
        "from": {"id": 5},
        "text": "/delete",
        "forward_origin": {"type": "user"},
    }
    incoming = read({"update_id": 1, "message": message}, longest=100)
    assert (incoming.kind, incoming.text, incoming.forwarded) == ("words", "/delete", True)


def test_the_message_replied_to_is_quoted() -> None:
    original = {"message_id": 1, "text": "the second option " * 40}
    message = {"message_id": 2, "chat": {"id": 5}, "from": {"id": 5}, "text": "why this?", "reply_to_message": original}
    incoming = read({"update_id": 1, "message": message}, longest=100)
    assert incoming.text == "why this?"
    assert incoming.quotes.startswith("the second option the second option") and incoming.quotes.endswith("…")
    assert len(incoming.quotes) < 240
    message["text"] = "/session"
    assert read({"update_id": 1, "message": message}, longest=100).text == "/session"


def test_no_line_of_the_log_contains_the_token() -> None:
    formatter = WithoutToken(TOKEN)
    try:
        raise ValueError(f"The token `{TOKEN}` was rejected at https://api.telegram.org/bot{TOKEN}/getMe\x1b[2J")
    except ValueError as error:
        raised = (type(error), error, error.__traceback__)
        record = logging.LogRecord("x", logging.ERROR, "", 0, "calling %s", (f"/bot{TOKEN}/getUpdates",), raised)
    for _ in range(2):  # the record caches the traceback: it must not come back unmasked
        line = formatter.format(record)
        assert "Traceback" in line
        assert TOKEN not in line
        assert TOKEN.partition(":")[2] not in line
        assert "\x1b" not in line
    assert "<token>" in formatter.clean(TOKEN.replace(":", "%3A"))
    other = "123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-abc"  # of another bot, in a library's message
    assert formatter.clean(f"x {other} y") == "x <token> y"


def test_files_are_private(home: Path, env: dict[str, str], telegram: TelegramServer) -> None:
    before = os.umask(0)
    try:
        with Bot(env, telegram):
            telegram.say(ME, "hello")
            telegram.wait_for(lambda: telegram.said(ME))
    finally:
        os.umask(before)
    data = home / ".local" / "share" / "alfred"
    assert all(path.stat().st_mode & 0o077 == 0 for path in data.rglob("*"))
