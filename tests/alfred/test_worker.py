"""What happens while nobody waits: summaries that cover, vectors that heal, long sessions that become short."""

from __future__ import annotations

import base64
import json
import threading
import time
from typing import Any

import numpy as np
import pytest

from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.status import PAUSED
from cortext.services.assistant.backfill import EMBEDDING, lacking
from cortext.services.assistant.summary import HEADINGS, headline, missing_headings, with_facts
from cortext.services.assistant.worker import ChatWorker
from cortext.services.library.stores import NamedStore
from cortext.services.workspace.lifecycle import save
from cortext.wiring.models import embedder
from tests.alfred.conftest import Desk
from tests.alfred.kit import Parrot, lines_of, sessions_of
from tests.support.model_server import Reply

HOUR = 3600.0


def unpack(record: dict[str, Any]) -> Any:
    """The vector of such a line, as a numpy array."""
    return np.frombuffer(base64.b64decode(record["int8"]), np.int8).astype(np.float32) * np.float32(record["scale"])


def _settle(worker: ChatWorker, now: float | None = None) -> int:
    """Passes until there is nothing more to do; how many summaries were made."""
    made = 0
    for _ in range(8):
        done = worker.run(now)
        assert done.failed == {}
        made += len(done.summarised)
        if not (done.embedded or done.summarised or done.compacted):
            return made
    raise AssertionError("it never comes to rest")


@pytest.mark.req("CHAT-08")
def test_a_quiet_session_is_summed_up_once(desk: Desk, model: Parrot) -> None:
    desk.say("let us plan the trip to Kyoto")
    session = desk.assistant.sessions.active("cli")
    assert _settle(desk.worker()) == 0, "it is not quiet yet"
    later = time.time() + 31 * 60
    assert _settle(desk.worker(), time.time() + 29 * 60) == 0
    assert _settle(desk.worker(), later) == 1
    summary = json.loads((desk.folder(session) / "summary.json").read_text(encoding="utf-8"))
    assert missing_headings(summary["summary_text"]) == []
    wanted = {"session_id", "summary_text", "embedding", "message_count", "created_at", "last_summarized"}
    assert wanted <= set(summary)
    assert (summary["covers"], summary["message_count"], summary["by"], summary["version"]) == (2, 2, "openai/test", 1)
    assert abs(float(unpack(summary["embedding"]) @ unpack(summary["embedding"])) - 1) < 0.05
    # What it covers is written there: another worker, another process, and nobody asks the model again.
    assert len(model.summaries()) == 1
    assert _settle(desk.worker(), later + HOUR) == 0
    assert len(model.summaries()) == 1
    # It is idle, and as easily resumed as ever.
    store = desk.assistant.store
    assert store.peek(session).status == "active"
    assert desk.do(f"/resume {session}").text == f"Resumed session {session} (2 messages)"
    desk.say("and then to Nara")
    assert _settle(desk.worker(), later + 2 * HOUR) == 1
    assert "previous-summary" in model.summaries()[-1], "the new one is merged into the old"
    assert "Kyoto" not in model.summaries()[-1].partition("</previous-summary")[2]
    again = json.loads((desk.folder(session) / "summary.json").read_text(encoding="utf-8"))
    assert (again["covers"], again["version"], again["created_at"]) == (4, 2, summary["created_at"])


@pytest.mark.req("CHAT-08")
def test_the_session_is_shown_as_idle(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.say("hello")
    later = time.time() + HOUR
    _settle(desk.worker(), later)
    assert "idle" not in desk.do("/session").text
    monkeypatch.setattr(time, "time", lambda: later)
    assert "It is idle" in desk.do("/session").text


@pytest.mark.req("CHAT-08")
def test_code_checks_what_the_model_wrote(desk: Desk, model: Parrot) -> None:
    later = time.time() + HOUR
    desk.fill("sess_a", 4)
    whole = "\n".join(f"## {heading}\nnone" for heading in HEADINGS)
    model.push("It was about retries.", whole)  # the first has no sections: it is asked for once more
    assert _settle(desk.worker(), later) == 1
    assert "These sections are missing: Goal" in model.turns[-1].texts("user")[-1]
    text = desk.assistant.store.peek("sess_a").summary
    assert "- retry_policy.py" in text, "a name of the last messages was left out by the model, and added by code"
    assert "- OPS-3" in text
    # A model that will not keep to them: the talk's own sentences.
    desk.fill("sess_b", 4)
    model.push("No.", "Still no.")
    assert _settle(desk.worker(), later) == 1
    session = desk.assistant.store.peek("sess_b")
    assert session.summary_by == "text"
    assert "retry budget" in session.summary
    assert session.summary_covers == 4


def test_a_failing_model_is_asked_again_later_and_then_replaced_by_code(desk: Desk, model: Parrot) -> None:
    desk.fill("sess_a", 2)
    worker = desk.worker()
    later = time.time() + HOUR
    for _ in range(3):
        model.push(Reply.error(400, "no"))
        done = worker.run(later)
        assert list(done.failed) == ["sess_a"]
        assert desk.assistant.store.peek("sess_a").summary == ""
    assert worker.run(later).summarised == ["sess_a"]
    assert desk.assistant.store.peek("sess_a").summary_by == "text"


def test_without_a_model_the_summary_is_made_of_the_talk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CORTEXT_MODEL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/nowhere")
    alone = Desk(desk.home)
    alone.fill("sess_a", 4)
    assert _settle(alone.worker(), time.time() + HOUR) == 1
    session = alone.assistant.store.peek("sess_a")
    assert (session.summary_by, session.summary_covers) == ("text", 4)
    assert "we decided to keep the retry budget" in session.summary


@pytest.mark.req("CHAT-08")
def test_a_summary_of_another_program_is_kept(desk: Desk, model: Parrot, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = "We planned the trip to Kyoto, and the herons."
    for name in ("sess_a", "sess_b", "sess_c"):
        desk.fill(name, 4)
        fields = {"session_id": name, "summary_text": theirs, "embedding": None, "message_count": 4}
        moment = "2026-01-14T10:00:00Z"
        written = json.dumps({**fields, "created_at": moment, "last_summarized": moment})
        (desk.folder(name) / "summary.json").write_text(written, encoding="utf-8")
    later = time.time() + HOUR
    assert _settle(desk.worker(), later) == 0, "it covers everything"
    store = desk.assistant.store
    more = [
        Message(role=USER, content="How do we get from there to Nara?"),
        Message(role=ASSISTANT, content="We decided to take the train of 9:12 to Nara."),
    ]

    # Saved by `cortext stop` or an agent: as in a workspace.
    store.append("sess_c", *more)
    saved = save(
        NamedStore("chats", "chat", str(sessions_of(desk.home)), store), "sess_c", PAUSED, commit=False
    ).session
    assert (saved.summary, saved.summary_by, saved.summary_covers) == (theirs, "other", 4)

    store.append("sess_a", *more)
    assert _settle(desk.worker(), later) == 2  # also the one that was just saved
    asked = next(words for words in model.summaries() if theirs in words)
    assert "retry budget" not in asked, "what it covers is not read again"

    store.append("sess_b", *more)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CORTEXT_MODEL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/nowhere")
    alone = Desk(desk.home)
    assert _settle(alone.worker(), later) == 1
    kept = alone.assistant.store.peek("sess_b")
    assert kept.summary.startswith(theirs)
    assert "9:12" in kept.summary
    assert (kept.summary_by, kept.summary_covers) == ("other", 6)


@pytest.mark.req("CHAT-05")
def test_a_crash_before_the_vector_is_healed(desk: Desk) -> None:
    desk.fill("sess_a", 6)  # stored, and then the process died
    before = (desk.folder("sess_a") / "current.jsonl").read_bytes()
    name = embedder().name
    assert len(lacking(desk.assistant.store, "sess_a", name)) == 6
    assert _settle(desk.worker()) == 0
    after = (desk.folder("sess_a") / "current.jsonl").read_bytes()
    assert after.startswith(before)
    lines = lines_of(desk.folder("sess_a") / "current.jsonl")
    vectors = {line["message_id"]: unpack(line) for line in lines if line.get("type") == EMBEDDING}
    assert set(vectors) == {line["id"] for line in lines if "role" in line}
    texts = [line["content"] for line in lines if "role" in line]
    true = embedder().embed(texts)
    for vector, line in zip(true, (line for line in lines if "role" in line), strict=True):
        assert float(vector @ vectors[line["id"]]) > 0.99  # what was stored is what was meant
    assert lacking(desk.assistant.store, "sess_a", name) == []
    assert lacking(desk.assistant.store, "sess_a", "another model") != []


@pytest.mark.req("CHAT-05")
def test_words_that_come_while_vectors_are_made_are_not_lost(desk: Desk) -> None:
    desk.fill("sess_a", 40)
    stop = threading.Event()

    def look_after() -> None:
        worker = desk.worker()
        while not stop.is_set():
            worker.run()

    thread = threading.Thread(target=look_after)
    thread.start()
    try:
        for number in range(150):
            desk.assistant.store.append("sess_a", Message(role=USER, content=f"meanwhile {number}"))
    finally:
        stop.set()
        thread.join()
    _settle(desk.worker())
    lines = lines_of(desk.folder("sess_a") / "current.jsonl")
    messages = [line for line in lines if "role" in line]
    assert [line["seq"] for line in messages] == list(range(190))
    assert [line["content"] for line in messages[40:]] == [f"meanwhile {number}" for number in range(150)]
    assert {line["message_id"] for line in lines if line.get("type") == EMBEDDING} == {line["id"] for line in messages}


def test_one_worker_at_a_time(desk: Desk, model: Parrot) -> None:
    desk.fill("sess_a", 2)
    first, second = desk.worker(), desk.worker()
    seen = []
    asked = first._summarise

    def in_between(done: object, now: float) -> None:
        seen.append(second.run(now).busy)
        asked(done, now)  # type: ignore[arg-type]

    first._summarise = in_between  # type: ignore[method-assign]
    first.run(time.time() + HOUR)
    assert seen == [True]
    assert len(model.summaries()) == 1


@pytest.mark.req("CHAT-07", "SAFE-03")
def test_a_long_session_becomes_short_behind_its_summary(desk: Desk, model: Parrot) -> None:
    desk.fill("sess_long", 60)
    assert desk.do("/compact").text.startswith("40 older messages moved to the archive")
    folder = desk.folder("sess_long")
    archived = [line for line in lines_of(folder / "archive.jsonl") if "role" in line]
    current = [line for line in lines_of(folder / "current.jsonl") if "role" in line]
    assert [line["idx"] for line in archived] == list(range(40))
    assert [line["idx"] for line in current] == list(range(20))
    assert [line["seq"] for line in (*archived, *current)] == list(range(60))
    assert desk.assistant.store.peek("sess_long").summary_covers == 60
    # The model sees the summary and the current file, and nothing of the archive.
    desk.say("go on")
    request = model.turns[-1]
    first, *others = request.texts("user")
    assert first.startswith("[Summary of the first 40 messages")
    assert "## Goal" in first
    assert "[End of the summary. The conversation goes on:]\n\nmessage 40:" in first
    assert [text.partition(":")[0] for text in others] == [*(f"message {place}" for place in range(42, 60, 2)), "go on"]
    assert "Summary of" not in str(request.body["messages"][0]), "what was said is no text of the system"
    shown = desk.do("/context").text.splitlines()
    assert [line.split()[0] for line in shown] == ["prompt", "summary", "messages", "together"]
    assert "(22 of this session)" in shown[2]
    assert "message 3:" not in json.dumps(request.body)


@pytest.mark.req("CHAT-07")
def test_nothing_moves_that_no_summary_covers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEXT_CHAT_COMPACT_TOKENS", "500")
    busy = Desk(desk.home)
    busy.fill("sess_busy", 60)
    done = busy.worker().run()  # it is not quiet, but too large: summed up first, then shortened
    assert (done.summarised, done.compacted) == (["sess_busy"], ["sess_busy"])
    session = busy.assistant.store.peek("sess_busy")
    first = next(line for line in lines_of(busy.folder("sess_busy") / "current.jsonl") if "role" in line)
    assert first["role"] == "user"
    assert first["seq"] <= session.summary_covers


def test_a_summary_in_one_line() -> None:
    assert headline("## Goal\nPlan the trip to Kyoto.\n## Decisions\nnone") == "Plan the trip to Kyoto."
    assert headline("They agreed on tea. Then more.") == "They agreed on tea. Then more."
    assert headline("") == ""


def test_facts_are_added_to_their_sections() -> None:
    text = "\n".join(f"## {heading}\nnone" for heading in HEADINGS)
    talk = [
        Message(role=ASSISTANT, content="See `deploy.sh` and node_pool_7."),
        Message(role=USER, content="Can you check the quota of node_pool_7?"),
    ]
    filled = with_facts(text, talk)
    names = filled.partition("## Files and identifiers\n")[2].partition("\n## ")[0]
    assert sorted(names.splitlines()) == ["- deploy.sh", "- node_pool_7"]
    assert "Can you check the quota of node_pool_7?" in filled.partition("## Open asks\n")[2]
    assert missing_headings(filled) == []
    assert with_facts(filled, talk) == filled
