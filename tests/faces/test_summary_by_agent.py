"""What an agent says of a conversation when it is stopped: asked for once, checked line by line, shown everywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext
from tests.web.served import serving

pytestmark = pytest.mark.req("SELF-01")

NAME = "001-brainstorm-api-design"
SUMMARY = "REST with OpenAPI for the internal services, and GraphQL is out. The orders service goes first."
DETAILS = {
    "goal": "One convention for seven internal services",
    "decided": ["REST with OpenAPI contracts, because GraphQL is too much machinery"],
    "open": ["Who owns the lint rules"],
    "next": "Write the contract of orders",
}


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClaudeTalk:
    """Hold a talk in a committed workspace."""
    talk = ClaudeTalk(committed_workspace(tmp_path / "w", monkeypatch))
    talk.say(
        "/workspace.brainstorm API design",
        "What should the seven internal services share? I suggest GraphQL with one gateway.",
        "No, that is too much machinery.",
        "Then REST with OpenAPI contracts that CI checks, and `lint.yaml` has the lint rules.",
        "yes, do that",
        "Noted. Who owns the lint rules is open.",
        "Which service goes first?",
        "The orders service, with 61 call paths.",
    )
    return talk


def _fields(talk: ClaudeTalk) -> dict[str, Any]:
    (path,) = talk.project.glob("conversations/*/*/.session/session.json")
    fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return fields


def _stop(talk: ClaudeTalk, *more: str) -> str:
    flags = ["--goal", DETAILS["goal"], "--decided", *DETAILS["decided"], "--open", *DETAILS["open"]]
    done = cortext("stop", NAME, "--in-tool", "--summary", SUMMARY, *map(str, flags), *more, cwd=talk.project)
    assert done.code == 0, done.err
    return " ".join(done.out.split())


def test_stopping_asks_for_it_once_in_the_turn_that_happens_anyway(talk: ClaudeTalk) -> None:
    asked = talk.prompt("/workspace.stop-conversation").out
    assert "Session saved." in asked
    assert asked.count("save_session") == 1 and f"id {NAME}" in asked
    said = _stop(talk, "--next", str(DETAILS["next"]))
    assert f"Summary: {SUMMARY}" in said
    assert "save_session" not in said, "it was just done"
    assert talk.answer("It is saved.").out == ""
    fields = _fields(talk)
    assert (fields["context_summary"], fields["summary_by"]) == (SUMMARY, "agent")
    assert fields["context_details"] == DETAILS
    assert fields["status"] == "paused"


def test_a_goodbye_asks_for_it_too(talk: ClaudeTalk) -> None:
    asked = talk.prompt("that's enough for today").out
    assert f"id {NAME}" in asked and "save_session" in asked


def test_list_block_and_file_show_the_same_words(talk: ClaudeTalk) -> None:
    _stop(talk, "--next", str(DETAILS["next"]))
    listed = " ".join(cortext("resume", cwd=talk.project).out.split())
    in_tool = cortext("resume", "--in-tool", cwd=talk.project).out
    assert f"Summary: {SUMMARY}" in listed and f"Summary: {SUMMARY}" in " ".join(in_tool.split())
    block = cortext("resume", NAME, "--print", cwd=talk.project).out.splitlines()
    start = block.index(f"Summary: {SUMMARY}")
    assert block[start + 1 : start + 5] == [
        f"Goal: {DETAILS['goal']}",
        f"Decided: {DETAILS['decided'][0]}",
        f"Open: {DETAILS['open'][0]}",
        f"Next: {DETAILS['next']}",
    ]
    shown = " ".join(cortext("show", NAME, cwd=talk.project).out.split())
    assert SUMMARY in shown and f"Decided: {DETAILS['decided'][0]}" in shown
    assert cortext("list", "--json", cwd=talk.project).json[0]["summary"] == SUMMARY


def test_the_page_shows_the_words_of_list_and_file(talk: ClaudeTalk) -> None:
    _stop(talk, "--next", str(DETAILS["next"]))
    with serving(os.environ, talk.project) as served:
        served.open()
        listed, page = served.get("/"), served.get(served.link("API design"))
    assert _fields(talk)["context_summary"] == SUMMARY
    assert SUMMARY in listed.words
    assert f"Summary {SUMMARY} Goal: {DETAILS['goal']} Decided: {DETAILS['decided'][0]}" in page.words
    assert f"Open: {DETAILS['open'][0]} Next: {DETAILS['next']}" in page.words
    assert '<h1 dir="auto">API design</h1>' in page.text


def test_a_line_that_the_talk_does_not_hold_is_dropped_whole_and_named(talk: ClaudeTalk) -> None:
    early = "The orders service goes first"
    said = _stop(talk, "--decided", early, "--open", "All 62 call paths", "--next", "Edit `rules.toml`")
    assert f'Dropped: decided (the user did not decide that): "{early}"' in said
    assert 'Dropped: open (not in the conversation: 62): "All 62 call paths"' in said
    assert 'Dropped: next (not in the conversation: rules.toml): "Edit `rules.toml`"' in said
    assert _fields(talk)["context_details"] == {name: DETAILS[name] for name in ("goal", "decided", "open")}


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        ("Postgres holds the events.", "not in the conversation: Postgres"),
        ("The rest is said. Kafka carries the events.", "not in the conversation: Kafka"),
        ("GraphQL with one gateway was chosen.", "the user did not decide that"),
        ("One. It is. Two sentences and a third one.", "more than 2 sentences"),
        ("The agent decided on REST.", "decisions are the user's"),
        (f"REST {'and so on ' * 50}", "longer than 400 characters"),
        ("Commit 53466ba2 has it.", "not in the conversation: 53466ba2"),
    ],
)
def test_a_summary_that_fails_is_replaced_by_an_extract(talk: ClaudeTalk, summary: str, why: str) -> None:
    done = cortext("stop", "--in-tool", "--summary", summary, cwd=talk.project)
    assert why in " ".join(done.out.split())
    fields = _fields(talk)
    assert fields["summary_by"] == "text"
    assert fields["context_summary"].endswith(
        "Last ask: Which service goes first? Answer: The orders service, with 61 call paths."
    )


def test_new_messages_make_it_stale_and_its_details_with_it(talk: ClaudeTalk) -> None:
    _stop(talk)
    talk.say("Which service goes second?", "The suppliers service.")
    cortext("stop", cwd=talk.project)
    fields = _fields(talk)
    assert fields["context_summary"].endswith("Last ask: Which service goes second? Answer: The suppliers service.")
    assert not fields["context_details"]


def test_what_the_agent_does_after_it_saved_makes_it_stale(talk: ClaudeTalk) -> None:
    talk.prompt("Save it, then write the contract of orders.")
    _stop(talk)
    talk.answer("It is saved.")
    cortext("stop", cwd=talk.project)
    assert _fields(talk)["context_summary"] == SUMMARY, "the answer in which it was saved"
    talk.answer("The contract of orders is written, with 61 paths.")
    cortext("stop", cwd=talk.project)
    fields = _fields(talk)
    assert fields["context_summary"].endswith("The contract of orders is written, with 61 paths.")
    assert fields["summary_by"] == "text"


def test_details_without_a_summary_that_holds_are_named(talk: ClaudeTalk) -> None:
    done = cortext("stop", "--in-tool", "--summary", "Kafka it is.", "--goal", str(DETAILS["goal"]), cwd=talk.project)
    said = " ".join(done.out.split())
    assert f'Dropped: goal (kept only beside a summary): "{DETAILS["goal"]}"' in said
    assert not _fields(talk).get("context_details")


def test_a_person_says_what_he_likes(talk: ClaudeTalk) -> None:
    done = cortext("stop", "--summary", "Kafka, after all", cwd=talk.project)
    assert "Summary: Kafka, after all" in done.out
    assert _fields(talk)["summary_by"] == "user"
