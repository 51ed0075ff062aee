"""Several users of one bot, and groups: who knows what, and who is answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.agents.telegram.incoming import read
from cortext.errors import NotFound
from cortext.model.ids import chat_name, chat_of, chat_prefix
from cortext.testing.table import every_row
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import Bot, Parrot, alfred, environment, messages_of, sessions_of
from tests.support.model_server import Reply
from tests.support.telegram_server import BOT, NAME, TelegramServer

ANN, BOB = 4712, 815
GROUP = -100777
SECRETS = ("zeppelin", "heron", "walrus")  # said at the desk, by Ann, by Bob


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as server:
        yield server


def _ask(telegram: TelegramServer, chat: int, text: str, *, user: int = 0) -> str:
    before = len(telegram.said(chat))
    telegram.say(chat, text, user=user or abs(chat))
    telegram.wait_for(lambda: len(telegram.said(chat)) > before)
    if not text.startswith("/"):
        telegram.wait_for(lambda: text.split()[-1] in telegram.said(chat)[-1])
    return telegram.said(chat)[-1]


def test_the_chat_of_a_session_is_read_from_its_id() -> None:
    assert [chat_of(chat_name(*place)) for place in ((4711,), (-100, None), (-100, 7))] == [
        "tg_4711",
        "tg_n100",
        "tg_n100",
    ]
    assert chat_of(f"{chat_prefix('tg_n100')}abc") == "tg_n100"
    assert chat_of("cont_tg_4711_012-plan") == "tg_4711"
    for name in ("sess_7k3vq9xw1t", "sess_0123456789", "cont_012-plan", "012-plan", "cli", "", "tg_x"):
        assert chat_of(name) == ""


@pytest.mark.req("CHAT-06", "CHAT-13")
def test_a_user_of_the_phone_knows_nothing_of_the_desk_and_of_others(
    home: Path, model: Parrot, telegram: TelegramServer
) -> None:
    env = environment(home, model, telegram)
    alfred(env, "--new", "the zeppelin of the desk")
    desk = next(path.name for path in sessions_of(home).glob("sess_*"))
    alfred(env, "memory", "add", "Likes the zeppelin")
    with Bot(env, telegram, allowed=f"{ANN} {BOB}"):
        _ask(telegram, ANN, "the heron of Ann")
        _ask(telegram, ANN, "/remember Ann feeds the heron")
        _ask(telegram, ANN, "/new")
        _ask(telegram, ANN, "more of the heron")
        _ask(telegram, BOB, "the walrus of Bob")
        asked = len(model.turns)
        for command in ("/sessions all", "/sessions shared", "/memory", "/search zeppelin heron walrus", "/forget"):
            answer = _ask(telegram, BOB, command)
            assert "zeppelin" not in answer.replace("/search zeppelin", "").partition("contains")[0]
            assert "of Ann" not in answer and "feeds" not in answer and "of the desk" not in answer, answer
        assert "walrus" in _ask(telegram, BOB, "/search walrus")
        for name in ("tg_4712", desk, "heron", "zeppelin", "2", "feeds"):
            for command in ("/resume", "/delete", "/restore", "/forget"):
                answer = _ask(telegram, BOB, f"{command} {name}")
                assert answer.startswith("⚠") and "of Ann" not in answer, (command, name, answer)
        assert len(model.turns) == asked
        # The model's own tools know no more, nor does the prompt.
        for tool, arguments in (
            ("search_sessions", {"query": "heron zeppelin walrus"}),
            ("search_memories", {"query": "heron zeppelin"}),
        ):
            model.push(Reply.call(tool, **arguments))
            _ask(telegram, BOB, f"look for it with {tool}")
        sent = "\n".join(str(request.body) for request in model.turns[asked:])
        assert "of Ann" not in sent and "feeds" not in sent and "of the desk" not in sent and "Likes" not in sent
        # What is his own, he finds: sessions that /new began, and his memory.
        assert "More of the heron" in _ask(telegram, ANN, "/sessions")
        assert "feeds" in _ask(telegram, ANN, "/memory")
        assert "Resumed session tg_4712" in _ask(telegram, ANN, "/resume tg_4712")
        _ask(telegram, BOB, "/remember ann feeds the heron.")
        assert "heron" in _ask(telegram, BOB, "/memory"), "the same fact of another user is not a known one"
    listed = alfred(env, "/sessions").out
    assert desk in listed and "tg_4712" in listed and "tg_815" in listed, "the desk lists every session"


@pytest.mark.req("CHAT-13")
def test_the_owners_chat_knows_the_desk_but_not_other_users(desk: Desk) -> None:
    desk.say("the zeppelin of the desk")
    desk.say("the heron of Ann", chat="tg_4712")
    desk.do("/remember Likes the zeppelin")
    desk.do("/remember Feeds the heron", chat="tg_4712")
    assert [row[4] for row in desk.do("/sessions", chat="tg_4711").rows] == [
        row[4] for row in desk.do("/sessions").rows if row[0] != "tg_4712"
    ]
    assert [hit.id for hit in desk.do("/search heron", chat="tg_4711").hits if hit.id == "tg_4712"] == []
    assert "zeppelin" in desk.do("/memory", chat="tg_4711").text
    assert "heron" not in desk.do("/memory", chat="tg_4711").text
    with pytest.raises(NotFound):
        desk.do("/resume tg_4712", chat="tg_4711")
    # The prompt of each has its own facts.
    contexts = {
        name: desk.assistant.context(name).view.system for name in ("tg_4712", desk.assistant.sessions.active("cli"))
    }
    assert ["heron" in contexts["tg_4712"], "zeppelin" in contexts["tg_4712"]] == [True, False]
    assert sorted("heron" in text for text in contexts.values()) == [False, True]


def test_an_invalid_list_of_desk_chats_is_refused(home: Path, model: Parrot, telegram: TelegramServer) -> None:
    env = {**environment(home, model, telegram), "CORTEXT_TELEGRAM_DESK_CHATS": "me"}
    refused = alfred(env, "telegram")
    assert refused.code == 7 and "invalid telegram.desk_chats" in refused.err


def _message(text: str, **more: object) -> dict[str, object]:
    return {
        "update_id": 1,
        "message": {"message_id": 1, "chat": {"id": GROUP}, "from": {"id": ANN}, "text": text, **more},
    }


@every_row(
    ("message", "is_addressed"),
    [
        (_message("hello everybody"), False),
        (_message("mail to x@alfred_test_bot.example"), False),
        (_message("/sessions"), True),
        (_message("😀 @Alfred_Test_Bot?", entities=[{"type": "mention", "offset": 3, "length": 16}]), True),
        (_message("@alfred_test_bots?", entities=[{"type": "mention", "offset": 0, "length": 17}]), False),
        (_message("Alfred?", entities=[{"type": "text_mention", "offset": 0, "length": 6, "user": {"id": BOT}}]), True),
        (_message("Bob?", entities=[{"type": "text_mention", "offset": 0, "length": 3, "user": {"id": BOB}}]), False),
        (_message("odd", entities=[{"type": "mention", "offset": -5, "length": "x"}, 7]), False),
        (_message("yes", reply_to_message={"message_id": 1, "from": {"id": BOT}}), True),
        (_message("yes", reply_to_message={"message_id": 1, "from": {"id": BOB}}), False),
        (_message("yes", reply_to_message={"message_id": 1, "from": {"id": BOT}, "forum_topic_created": {}}), False),
    ],
)  # fmt: skip
def test_a_message_in_a_group_is_for_the_bot_if_it_names_it(message: dict[str, object], is_addressed: bool) -> None:
    assert read(message, longest=100, bot_name=NAME, bot=BOT).addressed is is_addressed


@pytest.mark.req("CHAT-13")
def test_in_a_group_the_bot_answers_only_what_is_meant_for_it(
    home: Path, model: Parrot, telegram: TelegramServer
) -> None:
    env = environment(home, model, telegram)
    with Bot(env, telegram, allowed=str(ANN)) as bot:
        telegram.say(GROUP, "did you see the walrus?", user=ANN)
        telegram.say(GROUP, f"@{NAME} who am I?", user=BOB)  # not on the list
        answer = _ask(telegram, GROUP, f"@{NAME} hello", user=ANN)
        assert answer.startswith("Answer to hello")
        telegram.reply(telegram.sent(GROUP)[0], "and again", user=ANN)
        telegram.wait_for(lambda: "and again" in telegram.said(GROUP)[-1])
        assert len(telegram.said(GROUP)) == 2, "strangers are not answered in a group"
        assert "refused: user 815 is not on the list" in bot.logged()
        assert bot.stop() == 0
    assert "walrus" not in str(messages_of(home, chat_name(GROUP)))
    with Bot({**env, "CORTEXT_TELEGRAM_GROUPS": "all"}, telegram, allowed=str(ANN)):
        assert "walrus" in _ask(telegram, GROUP, "did you see the walrus?", user=ANN)


def test_a_stranger_learns_no_path_of_this_machine(home: Path, model: Parrot, telegram: TelegramServer) -> None:
    with Bot(environment(home, model, telegram), telegram, allowed="") as bot:
        told = _ask(telegram, BOB, "/start")
        assert "Your user id is 815" in told and str(home) not in told and "/" not in told.replace("/start", "")
        assert str(home) in bot.logged()
