"""The worker: summaries of idle sessions, missing vectors, and the archiving of long sessions."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortext.agents.assistant.context import HEADINGS, headline, missing_headings, with_facts
from cortext.agents.assistant.worker import ChatWorker
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.session import PAUSED
from cortext.services.library.backfill import EMBEDDING, embed, without_vector
from cortext.services.library.stores import NamedStore
from cortext.services.workspace.lifecycle import save
from cortext.wiring.stores import embedder
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import Parrot, alfred, environment, lines_of, sessions_of
from tests.support.cli import cortext
from tests.support.model_server import Reply

HOUR = 3600.0


def unpack(record: dict[str, Any]) -> Any:
    """Return the vector of a record as a numpy array."""
    return np.frombuffer(base64.b64decode(record["int8"]), np.int8).astype(np.float32) * np.float32(record["scale"])


def _settle(worker: ChatWorker, now: float | None = None) -> int:
    """Make passes until there is nothing left to do; return the number of summaries."""
    count = 0
    for _ in range(8):
        done = worker.run(now)
        assert done.failed == {}
        count += len(done.summarised)
        if not (done.embedded or done.summarised or done.compacted):
            return count
    raise AssertionError("the worker always finds more to do")


@pytest.mark.req("CHAT-08")
def test_an_idle_session_is_summarised_once(desk: Desk, model: Parrot) -> None:
    desk.say("let us plan the trip to Kyoto")
    session = desk.assistant.sessions.active("cli")
    assert _settle(desk.worker()) == 0, "it is not idle yet"
    later = time.time() + 31 * 60
    assert _settle(desk.worker(), time.time() + 29 * 60) == 0
    assert _settle(desk.worker(), later) == 1
    summary = json.loads((desk.folder(session) / "summary.json").read_text(encoding="utf-8"))
    assert missing_headings(summary["summary_text"]) == []
    wanted = {"session_id", "summary_text", "embedding", "message_count", "created_at", "last_summarized"}
    assert wanted <= set(summary)
    assert (summary["covers"], summary["message_count"], summary["by"], summary["version"]) == (2, 2, "openai/test", 1)
    assert abs(float(unpack(summary["embedding"]) @ unpack(summary["embedding"])) - 1) < 0.05
    # The summary records what it covers, so that no other worker asks the model again.
    assert len(model.summaries()) == 1
    assert _settle(desk.worker(), later + HOUR) == 0
    assert len(model.summaries()) == 1
    # An idle session can be resumed.
    store = desk.assistant.store
    assert store.peek(session).status == "idle"
    assert desk.do(f"/resume {session}").text == f"Resumed session {session} (2 messages)"
    desk.say("and then to Nara")
    assert store.peek(session).status == "active"
    assert _settle(desk.worker(), later + 2 * HOUR) == 1
    assert "previous-summary" in model.summaries()[-1], "the previous summary is part of the request"
    assert "Kyoto" not in model.summaries()[-1].partition("</previous-summary")[2]
    again = json.loads((desk.folder(session) / "summary.json").read_text(encoding="utf-8"))
    assert (again["covers"], again["version"], again["created_at"]) == (4, 2, summary["created_at"])


@pytest.mark.req("CHAT-08")
def test_a_session_command_shows_that_it_is_idle(desk: Desk) -> None:
    desk.say("hello")
    assert "idle" not in desk.do("/session").text
    _settle(desk.worker(), time.time() + HOUR)
    assert "It is idle" in desk.do("/session").text


@pytest.mark.req("CHAT-08", "FIND-01")
def test_an_idle_session_says_so_in_its_file_and_every_list_until_the_next_message(home: Path, model: Parrot) -> None:
    env = {**environment(home, model), "CORTEXT_SESSION_IDLE_MINUTES": "0"}
    assert alfred(env, "How high is the Säntis?").code == 0

    def listed(status: str) -> list[str]:
        found = cortext("list", "--status", status, "--json", env=env).json
        return [f"{row['id']} {row['status']}" for row in found]

    [session] = [path.name for path in sessions_of(home).glob("sess_*")]
    meta = sessions_of(home) / session / "meta.json"
    for question in ("And the Eiger?", ""):
        assert json.loads(meta.read_text(encoding="utf-8"))["status"] == "active"
        assert listed("active") == [f"{session} active"] and listed("idle") == []
        assert alfred(env, "worker", "--once").code == 0
        assert json.loads(meta.read_text(encoding="utf-8"))["status"] == "idle"
        assert listed("idle") == [f"{session} idle"] and listed("active") == []
        assert "It is idle: it has a summary" in alfred(env, "/session").out
        if question:
            assert alfred(env, question).out.startswith(f"Answer to {question}")


@pytest.mark.req("CHAT-05")
def test_a_vector_that_a_turn_and_the_worker_computed_is_written_once(desk: Desk) -> None:
    desk.fill("sess_a", 6)
    store, model = desk.assistant.store, embedder()
    missing = without_vector(store, "sess_a", model.name)  # both have seen the same messages without one
    assert len(missing) == 6
    for _ in ("the turn", "the worker"):
        embed(store, "sess_a", model, missing)
    lines = lines_of(desk.folder("sess_a") / "current.jsonl")
    vectors = [line["message_id"] for line in lines if line.get("type") == EMBEDDING]
    assert sorted(vectors) == sorted(message.id for message in missing)


@pytest.mark.req("CHAT-08")
def test_a_summary_without_sections_or_names_is_corrected(desk: Desk, model: Parrot) -> None:
    later = time.time() + HOUR
    desk.fill("sess_a", 4)
    complete = "\n".join(f"## {heading}\nnone" for heading in HEADINGS)
    model.push("It was about retries.", complete)  # the first has no sections, so the model is asked once more
    assert _settle(desk.worker(), later) == 1
    assert "These sections are missing: Goal" in model.turns[-1].texts("user")[-1]
    text = desk.assistant.store.peek("sess_a").summary
    assert "- retry_policy.py" in text, "a name that the model left out is added"
    assert "- OPS-3" in text
    # If the model never writes the sections, the summary is extracted from the conversation.
    desk.fill("sess_b", 4)
    model.push("No.", "Still no.")
    assert _settle(desk.worker(), later) == 1
    session = desk.assistant.store.peek("sess_b")
    assert session.summary_by == "text"
    assert "retry budget" in session.summary
    assert session.summary_covers == 4


def test_after_three_failures_of_the_model_the_summary_is_extracted(desk: Desk, model: Parrot) -> None:
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


def test_without_a_model_the_summary_is_extracted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
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
    existing = "We planned the trip to Kyoto, and the herons."
    for name in ("sess_a", "sess_b", "sess_c"):
        desk.fill(name, 4)
        fields = {"session_id": name, "summary_text": existing, "embedding": None, "message_count": 4}
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

    # `cortext stop` or an agent saves the session, as in a workspace.
    store.append("sess_c", *more)
    saved = save(
        NamedStore("chats", "chat", str(sessions_of(desk.home)), store), "sess_c", PAUSED, commit=False
    ).session
    assert (saved.summary_by, saved.summary_covers) == ("text", 6), "it did not cover what was said since"
    assert saved.summary.endswith("We decided to take the train of 9:12 to Nara.")

    store.append("sess_a", *more)
    assert _settle(desk.worker(), later) == 1  # sess_a; sess_c has just got one
    asked = next(request for request in model.summaries() if existing in request)
    assert "retry budget" not in asked, "messages that it covers are not sent again"

    store.append("sess_b", *more)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CORTEXT_MODEL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/nowhere")
    alone = Desk(desk.home)
    assert _settle(alone.worker(), later) == 1
    kept = alone.assistant.store.peek("sess_b")
    assert kept.summary.startswith(existing)
    assert "9:12" in kept.summary
    assert (kept.summary_by, kept.summary_covers) == ("other", 6)


@pytest.mark.req("CHAT-05")
def test_vectors_that_a_crash_prevented_are_added(desk: Desk) -> None:
    desk.fill("sess_a", 6)  # messages without vectors, as a crash leaves them
    before = (desk.folder("sess_a") / "current.jsonl").read_bytes()
    name = embedder().name
    assert len(without_vector(desk.assistant.store, "sess_a", name)) == 6
    assert _settle(desk.worker()) == 0
    after = (desk.folder("sess_a") / "current.jsonl").read_bytes()
    assert after.startswith(before)
    lines = lines_of(desk.folder("sess_a") / "current.jsonl")
    vectors = {line["message_id"]: unpack(line) for line in lines if line.get("type") == EMBEDDING}
    assert set(vectors) == {line["id"] for line in lines if "role" in line}
    texts = [line["content"] for line in lines if "role" in line]
    exact = embedder().embed(texts)
    for vector, line in zip(exact, (line for line in lines if "role" in line), strict=True):
        assert float(vector @ vectors[line["id"]]) > 0.99  # quantisation loses little
    assert without_vector(desk.assistant.store, "sess_a", name) == []
    assert without_vector(desk.assistant.store, "sess_a", "another model") != []


@pytest.mark.req("CHAT-05")
def test_messages_that_arrive_while_vectors_are_made_are_not_lost(desk: Desk) -> None:
    desk.fill("sess_a", 40)
    stop = threading.Event()

    def run_worker() -> None:
        worker = desk.worker()
        while not stop.is_set():
            worker.run()

    thread = threading.Thread(target=run_worker)
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


def test_only_one_worker_runs_at_a_time(desk: Desk, model: Parrot) -> None:
    desk.fill("sess_a", 2)
    first, second = desk.worker(), desk.worker()
    busy = []
    real_summarise = first._summarise

    def run_second_worker(done: object, now: float) -> None:
        busy.append(second.run(now).busy)
        real_summarise(done, now)  # type: ignore[arg-type]

    first._summarise = run_second_worker  # type: ignore[method-assign]
    first.run(time.time() + HOUR)
    assert busy == [True]
    assert len(model.summaries()) == 1


@pytest.mark.req("CHAT-07", "SAFE-03")
def test_compact_archives_the_messages_that_the_summary_covers(desk: Desk, model: Parrot) -> None:
    desk.fill("sess_long", 60)
    assert desk.do("/compact").text.startswith("Archived 40 older messages")
    folder = desk.folder("sess_long")
    archived = [line for line in lines_of(folder / "archive.jsonl") if "role" in line]
    current = [line for line in lines_of(folder / "current.jsonl") if "role" in line]
    assert [line["idx"] for line in archived] == list(range(40))
    assert [line["idx"] for line in current] == list(range(20))
    assert [line["seq"] for line in (*archived, *current)] == list(range(60))
    assert desk.assistant.store.peek("sess_long").summary_covers == 60
    # The model is sent the summary and the current file, and nothing of the archive.
    desk.say("go on")
    request = model.turns[-1]
    first, *others = request.texts("user")
    assert first.startswith("[Summary of the first 40 messages")
    assert "## Goal" in first
    assert "[End of the summary. The conversation goes on:]\n\nmessage 40:" in first
    assert [text.partition(":")[0] for text in others] == [*(f"message {seq}" for seq in range(42, 60, 2)), "go on"]
    assert "Summary of" not in str(request.body["messages"][0]), "the summary is not in the system prompt"
    shown = desk.do("/context").text.splitlines()
    assert [line.split()[0] for line in shown] == ["prompt", "summary", "messages", "total"]
    assert "(22 of this session)" in shown[2]
    assert "message 3:" not in json.dumps(request.body)


@pytest.mark.req("CHAT-07")
def test_a_large_session_is_summarised_before_it_is_archived(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEXT_CHAT_COMPACT_TOKENS", "500")
    busy = Desk(desk.home)
    busy.fill("sess_busy", 60)
    done = busy.worker().run()  # the session is not idle, but too large
    assert (done.summarised, done.compacted) == (["sess_busy"], ["sess_busy"])
    session = busy.assistant.store.peek("sess_busy")
    first = next(line for line in lines_of(busy.folder("sess_busy") / "current.jsonl") if "role" in line)
    assert first["role"] == "user"
    assert first["seq"] <= session.summary_covers


def test_the_headline_of_a_summary_is_its_goal_or_its_first_line() -> None:
    assert headline("## Goal\nPlan the trip to Kyoto.\n## Decisions\nnone") == "Plan the trip to Kyoto."
    assert headline("They agreed on tea. Then more.") == "They agreed on tea. Then more."
    assert headline("") == ""


def test_a_section_with_nothing_below_its_heading_is_missing() -> None:
    text = "\n".join(f"## {heading}\nnone" for heading in HEADINGS)
    assert missing_headings(text.removesuffix("none")) == ["Next step"]
    assert missing_headings(text.replace("## Goal\nnone", "## Goal\n\n")) == ["Goal"]
    assert missing_headings(text) == []


def test_missing_facts_are_added_to_their_sections() -> None:
    text = "\n".join(f"## {heading}\nnone" for heading in HEADINGS)
    messages = [
        Message(role=ASSISTANT, content="See `deploy.sh` and node_pool_7."),
        Message(role=USER, content="Can you check the quota of node_pool_7?"),
    ]
    filled = with_facts(text, messages)
    names = filled.partition("## Files and identifiers\n")[2].partition("\n## ")[0]
    assert sorted(names.splitlines()) == ["- deploy.sh", "- node_pool_7"]
    assert "Can you check the quota of node_pool_7?" in filled.partition("## Open asks\n")[2]
    assert missing_headings(filled) == []
    assert with_facts(filled, messages) == filled
