"""A message that is edited on the phone: answered as it is now, whenever the edit comes, and nothing is rewritten."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.talk.context import View
from cortext.model.ids import chat_name
from cortext.model.message import ASSISTANT, REPLACES, TOOL, USER, Message
from tests.agents.alfred.kit import Bot, Parrot, environment, messages_of, sessions_of
from tests.support.model_server import Reply
from tests.support.telegram_server import NAME, TelegramServer

ME = 4711
GROUP = -100123


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as server:
        yield server


def _say(telegram: TelegramServer, text: str, answer: str = "") -> int:
    """Send a message and wait for its answer; return the message's number."""
    telegram.say(ME, text)
    number = telegram.last_message()
    telegram.wait_for(lambda: any((answer or f"Answer to {text}") in said for said in telegram.said(ME)))
    return number


@pytest.mark.req("CHAT-13", "STORE-04")
def test_an_edited_message_replaces_its_turn_and_is_answered(
    home: Path, model: Parrot, telegram: TelegramServer
) -> None:
    with Bot(environment(home, model, telegram), telegram):
        first = _say(telegram, "about the zeppelin")
        _say(telegram, "and the heron")
        log = sessions_of(home) / "tg_4711" / "current.jsonl"
        before = log.read_bytes()
        telegram.edit(ME, first, "about the balloon")
        telegram.wait_for(lambda: telegram.said(ME)[-1] == "Answer to about the balloon")
        asked = model.turns[-1]
        assert asked.texts("user") == ["and the heron", "about the balloon"]
        assert asked.texts("assistant") == ["Answer to and the heron"]
        # Edited once more: the newest version is the one that is replaced. The same words again are no edit.
        telegram.edit(ME, first, "about the kite")
        telegram.wait_for(lambda: telegram.said(ME)[-1] == "Answer to about the kite")
        telegram.edit(ME, first, "about the kite")
        _say(telegram, "what flies?")
        assert model.turns[-1].texts("user") == ["and the heron", "about the kite", "what flies?"]
        assert len(telegram.said(ME)) == 5
    assert log.read_bytes().startswith(before), "a line was rewritten"
    lines = messages_of(home, "tg_4711")
    assert [line["idx"] for line in lines] == list(range(10))
    assert [line["content"] for line in lines if line["role"] == "user"] == [
        "about the zeppelin", "and the heron", "about the balloon", "about the kite", "what flies?",
    ]  # fmt: skip
    assert [lines[index]["extra"].get("replaces") for index in (4, 6)] == [lines[0]["id"], lines[4]["id"]]


@pytest.mark.req("CHAT-13", "STORE-04")
def test_an_edit_after_a_new_session_replaces_the_message_where_it_is(
    home: Path, model: Parrot, telegram: TelegramServer
) -> None:
    with Bot(environment(home, model, telegram), telegram):
        first = _say(telegram, "about the zeppelin")
        telegram.say(ME, "/new")
        telegram.wait_for(lambda: "sess_4711_" in telegram.said(ME)[-1])
        _say(telegram, "and the heron")
        telegram.edit(ME, first, "about the balloon")
        answer = "Answer to about the balloon\n\n(in the session of that message, tg_4711)"
        telegram.wait_for(lambda: telegram.said(ME)[-1] == answer)
        assert model.turns[-1].texts("user") == ["about the balloon"]
        _say(telegram, "what stands still?")
        assert model.turns[-1].texts("user") == ["and the heron", "what stands still?"], "the new session is active"
    lines = messages_of(home, "tg_4711")
    assert [line["content"] for line in lines if line["role"] == "user"] == ["about the zeppelin", "about the balloon"]
    assert lines[2]["extra"]["replaces"] == lines[0]["id"]


@pytest.mark.req("CHAT-13")
def test_an_edit_stops_the_answer_to_the_words_before_it(home: Path, model: Parrot, telegram: TelegramServer) -> None:
    never = threading.Event()
    bot = Bot(environment(home, model, telegram), telegram)
    with bot:
        _say(telegram, "hello")
        model.push(Reply(text="endless words about the zeppelin", hold=never, hold_at=2))
        telegram.say(ME, "the zeppelin")
        edited = telegram.last_message()
        telegram.wait_for(lambda: telegram.said(ME)[-1].startswith("endless"))
        telegram.say(ME, "and the heron")
        waiting = telegram.last_message()
        telegram.edit(ME, edited, "the zeppelin")  # no other words: the answer goes on
        telegram.edit(ME, waiting, "and the crane")  # before its turn came
        telegram.edit(ME, edited, "the balloon")
        telegram.wait_for(lambda: "Answer to the balloon" in telegram.said(ME)[-1])
        assert telegram.said(ME)[1].endswith("(stopped: you edited the message)")
        assert len(telegram.said(ME)) == 4 and telegram.said(ME)[2].endswith("and the crane")
        assert model.turns[-1].texts("user")[-2:] == ["and the crane", "the balloon"]
        telegram.say(ME, "/help")
        telegram.wait_for(lambda: "/new" in telegram.said(ME)[-1])
        telegram.edit(ME, telegram.last_message() - 1, "/delete")
        telegram.wait_for(lambda: telegram.said(ME)[-1] == "An edited command is not run. Send it as a new message.")
    stored = [line for line in messages_of(home, "tg_4711") if line["role"] == "user"]
    assert [line["content"] for line in stored] == [
        "hello", "the zeppelin", "and the heron", "and the crane", "the balloon",
    ]  # fmt: skip
    assert [line["extra"].get("replaces") for line in stored] == [
        None, None, None, stored[2]["id"], stored[1]["id"],
    ]  # fmt: skip


@pytest.mark.req("CHAT-13")
def test_an_edit_that_a_kill_interrupts_is_answered_once(home: Path, model: Parrot, telegram: TelegramServer) -> None:
    never = threading.Event()
    bot = Bot(environment(home, model, telegram), telegram)
    with bot:
        first = _say(telegram, "the zeppelin")
        model.push(Reply(text="endless words about the balloon", hold=never, hold_at=2))
        telegram.edit(ME, first, "the balloon")
        telegram.wait_for(lambda: telegram.said(ME)[-1].startswith("endless"))
        bot.kill()
    with bot:
        telegram.wait_for(lambda: telegram.said(ME)[-1] == "Answer to the balloon")
    assert len(telegram.said(ME)) == 2
    assert [line["content"] for line in messages_of(home, "tg_4711") if not line.get("partial")] == [
        "the zeppelin", "Answer to the zeppelin", "the balloon", "Answer to the balloon",
    ]  # fmt: skip


@pytest.mark.req("CHAT-13")
def test_an_edit_in_a_group_without_the_mention_is_answered(
    home: Path, model: Parrot, telegram: TelegramServer
) -> None:
    bot = Bot(environment(home, model, telegram), telegram, allowed=str(ME))
    with bot:
        telegram.say(GROUP, "the walrus", user=ME)  # not for the bot, and neither is its edit
        among = telegram.last_message()
        telegram.edit(GROUP, among, "the sea lion")
        telegram.say(GROUP, f"@{NAME} what flies", user=ME)
        asked = telegram.last_message()
        telegram.wait_for(lambda: telegram.said(GROUP)[-1:] and "Answer to what flies" in telegram.said(GROUP)[-1])
        telegram.edit(GROUP, among, "the seal")
        telegram.edit(GROUP, asked, "what swims")
        telegram.wait_for(lambda: telegram.said(GROUP)[-1] == "Answer to what swims")
        assert model.turns[-1].texts("user") == ["what swims"]
        # Also while the message is being answered.
        model.push(Reply(text="endless words", hold=threading.Event(), hold_at=2))
        telegram.say(GROUP, f"@{NAME} what runs", user=ME)
        waiting = telegram.last_message()
        telegram.wait_for(lambda: telegram.said(GROUP)[-1].startswith("endless"))
        telegram.edit(GROUP, waiting, "what crawls")
        telegram.wait_for(lambda: telegram.said(GROUP)[-1] == "Answer to what crawls")
    stored = [line for line in messages_of(home, chat_name(GROUP)) if line["role"] == "user"]
    assert [line["content"] for line in stored] == ["what flies", "what swims", "what runs", "what crawls"]
    assert [line["extra"].get("replaces") for line in stored] == [None, stored[0]["id"], None, stored[2]["id"]]


@pytest.mark.req("CHAT-13")
def test_an_edit_in_a_group_that_waits_with_its_message_is_answered(
    home: Path, model: Parrot, telegram: TelegramServer
) -> None:
    telegram.say(GROUP, f"@{NAME} what flies", user=ME)
    telegram.edit(GROUP, telegram.last_message(), "what swims")
    with Bot(environment(home, model, telegram), telegram, allowed=str(ME)):
        telegram.wait_for(lambda: any("Answer to what swims" in said for said in telegram.said(GROUP)))


def test_the_view_is_the_same_after_a_resume_and_removes_a_whole_turn() -> None:
    log = [
        Message(role=USER, content="one", id="a"),
        Message(role=ASSISTANT, content="answer one", id="b"),
        Message(role=USER, content="two", id="c"),
        Message(role=ASSISTANT, content="looks", id="d"),
        Message(role=TOOL, content="result", id="e"),
        Message(role=ASSISTANT, content="answer two", id="f"),
        Message(role=USER, content="three", id="g"),
        Message(role=USER, content="two, edited", id="h", extra={REPLACES: "c"}),
        Message(role=USER, content="of nothing", id="i", extra={REPLACES: "unknown"}),
    ]
    loaded, live = View(), View()
    loaded.load(log)
    for message in log:
        live.add(message)
    expected = ["one", "answer one", "three", "two, edited", "of nothing"]
    assert [message.content for message in loaded.messages if message.id] == expected
    assert [message.content for message in live.messages if message.id] == expected
    assert loaded.tokens == live.tokens
    fresh = View()
    fresh.load([message for message in log if message.content in expected])
    assert fresh.tokens == loaded.tokens
