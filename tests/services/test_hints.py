"""Hints: what a prompt must share with an earlier conversation, and what leaves them silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.model import clock, tokens
from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.session import Session
from cortext.services.hints import giving, muting
from cortext.services.hints.hints import BAR, ERROR, KINDS, LONGEST_TOKENS, Hint, Hinter, text_of
from cortext.services.hints.signs import errors_in, kernel, phrase_of, question_terms
from cortext.services.library.listing import Row
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext

pytestmark = pytest.mark.req("FIND-09")
FAILED = "ModuleNotFoundError: heron_counter cannot import name 'wading_birds' from line 41"
AGAIN = "ModuleNotFoundError: heron_counter cannot import name 'wading_birds' from line 77"
FIXED = "The cause was a circular import: heron_counter must import wading_birds lazily. It is fixed now."
ASKED = "How should the pond service authenticate its sensors against the gateway at night?"
ANSWER = "Use short-lived tokens per sensor, renewed by the gateway at dusk."
ASKED_SHORT = "Why did the deployment at the northern gate break?"
ANSWER_SHORT = "The disk was full: old counts are now deleted weekly."
DECIDED = "We decided that pond.py keeps retries per sensor, because the gateway drops bursts."


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a workspace that wants hints, with an earlier conversation in its index."""
    folder = committed_workspace(tmp_path / "w", monkeypatch)
    (folder / "pond.py").write_text("retries = 3\n", encoding="utf-8")
    monkeypatch.setenv("CORTEXT_WORKSPACE_RECALL", "prompt")
    edit = {"file_path": str(folder / "heron.py"), "old_string": "import", "new_string": "lazily"}
    store = WorkspaceStore(str(folder))
    store.create(Session(id="001-debug-herons", type="debug", title="Herons at the gate"))
    store.append(
        "001-debug-herons",
        Message(role=USER, content="Run the tests."),
        Message(role=ASSISTANT, parts=[Part(TOOL_CALL, id="1", name="Bash", input={"command": "make test"})]),
        Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id="1", output=f"Traceback\n{FAILED}", is_error=True)]),
        Message(role=ASSISTANT, parts=[Part(TOOL_CALL, id="2", name="Edit", input=edit)]),
        Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id="2", output="done")]),
        Message(role=ASSISTANT, content=FIXED),
        Message(role=USER, content=ASKED),
        Message(role=ASSISTANT, content=ANSWER),
        Message(role=USER, content=ASKED_SHORT),
        Message(role=ASSISTANT, content=ANSWER_SHORT),
        Message(role=USER, content="And the retries?"),
        Message(role=ASSISTANT, content=DECIDED),
    )
    assert cortext("search", "--exact", "herons", cwd=folder).code == 0
    return folder


def _given(talk: ClaudeTalk, prompt: str) -> str:
    done = talk.hook("UserPromptSubmit", prompt=prompt)
    assert done.code == 0, done.err
    if not done.out.strip():
        return ""
    answer = json.loads(done.out)
    context: str = answer["hookSpecificOutput"]["additionalContext"]
    assert ("a hint" in context) == ("001-debug-herons" in answer.get("systemMessage", "")), "the user sees the source"
    return context


def test_the_same_error_the_same_question_and_a_decision_give_a_hint(workspace: Path) -> None:
    talk = ClaudeTalk(workspace)
    error = _given(talk, f"I get this:\n  {AGAIN}\nWhat now?")
    assert "The same error occurred before" in error and "circular import" in error
    assert "(001-debug-herons, message 5, " in error and "heron.py is not there any more" in error
    assert len(error) < 1_200 and "a record, not an instruction" in error
    asked = _given(talk, "How should the pond service authenticate its sensors against the gateway, at night?")
    assert "Nearly the same question" in asked and ANSWER in asked
    assert ANSWER_SHORT in _given(talk, ASKED_SHORT.lower()), "four significant words, but word for word"
    decided = _given(talk, "Change the retries per sensor in pond.py")
    assert "decided about this file" in decided and "drops bursts" in decided and "pond.py was " in decided
    assert _given(talk, f"Again:\n{AGAIN}") == "", "the same hint is given once in a chat"


@pytest.mark.parametrize(
    "prompt",
    [
        "Go on.",
        "Tell me about herons, sensors and the pond.",
        "TypeError: stork_counter cannot take name 'gulls' from here",
        "How should the pond service paint its walls in spring?",
        "Rename everything in pond.py to French",
        "How should one authenticate?",
        "Why did the deployment break at the northern gate?",
    ],
)
def test_a_common_topic_alone_gives_no_hint(workspace: Path, prompt: str) -> None:
    assert _given(ClaudeTalk(workspace), prompt) == ""


def test_a_command_that_failed_before_is_known_before_it_runs_again(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(command: str, talk: ClaudeTalk) -> str:
        done = talk.hook("PreToolUse", tool_name="Bash", tool_input={"command": command})
        return str(json.loads(done.out)["hookSpecificOutput"]["additionalContext"]) if done.out else ""

    monkeypatch.setenv("CORTEXT_WORKSPACE_RECALL", "prompt-only")
    assert called("make test", ClaudeTalk(workspace)) == "", "prompts only"
    monkeypatch.setenv("CORTEXT_WORKSPACE_RECALL", "prompt")
    talk = ClaudeTalk(workspace)
    hint = called(f"cd {workspace} &&  make   test", talk)
    assert "This very command failed before" in hint and "circular import" in hint and "001-debug-herons" in hint
    assert called("make test", talk) == "", "once in a chat"
    for other in ("make tests", "make", "ls -la", ""):
        assert called(other, ClaudeTalk(workspace)) == ""
    call = Part(TOOL_CALL, id="9", name="Bash", input={"command": "make test"})
    WorkspaceStore(str(workspace)).append(
        "001-debug-herons",
        Message(role=ASSISTANT, parts=[call]),
        Message(role=TOOL, parts=[Part(TOOL_RESULT, call_id="9", output="5 passed")]),
    )
    assert called("make test", ClaudeTalk(workspace)) == "", "it worked afterwards"


def test_a_copy_of_this_very_conversation_gives_no_hint(workspace: Path) -> None:
    store = WorkspaceStore(str(workspace))
    copied = list(store.read("001-debug-herons"))
    store.create(Session(id="002-debug-fork", type="debug", title="A fork"))
    store.append("002-debug-fork", *copied)
    search = Stores(str(workspace)).search()
    search.refresh(meaning=False)
    hinter = Hinter(search.listing, search, str(workspace), leave_out=["002-debug-fork"])
    assert hinter.hint(AGAIN) is None and hinter.hint(ASKED) is None
    assert Hinter(search.listing, search, str(workspace)).hint(AGAIN) is not None


def test_without_the_setting_there_is_no_hint(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORTEXT_WORKSPACE_RECALL")
    assert _given(ClaudeTalk(workspace), AGAIN) == ""


def test_codex_gets_no_hint(workspace: Path) -> None:
    """Its hooks speak with a developer's authority."""
    payload = {"session_id": "1", "cwd": str(workspace), "hook_event_name": "UserPromptSubmit", "prompt": AGAIN}
    done = cortext("hook", "codex", cwd=workspace, stdin=json.dumps(payload))
    assert done.code == 0 and "hint" not in done.out


def test_mute_lowers_the_kind_of_the_last_hint(workspace: Path) -> None:
    talk = ClaudeTalk(workspace)
    assert "nothing to mute" in _given(talk, "/workspace.mute")
    assert "The same error" in _given(talk, AGAIN)
    said = _given(talk, "/workspace.mute")
    assert "The last hint came from 001-debug-herons" in said and "(error)" in said
    assert talk.hook("UserPromptExpansion", command_name="workspace.mute", prompt="/workspace.mute").out == "", "once"
    other = ClaudeTalk(workspace)
    assert _given(other, AGAIN) == "" and "Nearly the same question" in _given(other, ASKED), "only that kind"
    assert "as at first" in _given(talk, "/workspace.mute undo"), "although the turn before has not ended"
    assert "The same error" in _given(other, AGAIN)


@pytest.mark.parametrize("kind", KINDS)
def test_a_muted_kind_is_given_as_the_confirmation_says(kind: str) -> None:
    best = 0.9  # of an error with a changed file, or a decision with five words in common
    said = giving.mute("/w", kind, "first", "001-debug-herons", "")
    assert "only if they fit very well" in said and best * muting.load("/w").weights[kind] >= BAR
    said = giving.mute("/w", kind, "second", "001-debug-herons", "")
    assert "no longer" in said and muting.load("/w").weights[kind] < BAR
    assert muting.load("/w").hints == ["first", "second"], "which are not given again"
    giving.mute("/w", "", "", "", "undo")
    assert muting.load("/w") == muting.Muted()


def test_related_conversations_come_only_on_request_and_at_most_three(workspace: Path) -> None:
    store = WorkspaceStore(str(workspace))
    for number in range(2, 6):
        name = f"00{number}-debug-pond"
        store.create(Session(id=name, type="debug", title=f"Pond {number}"))
        store.append(name, Message(role=USER, content=f"The pond gateway drops its sensors, case {number}."))
    talk = ClaudeTalk(workspace)
    assert talk.hook("SessionStart", source="startup").out == ""
    assert "Nothing was asked in this chat yet" in _given(talk, "/workspace.related")
    talk.hook("Stop", stop_hook_active=False)
    talk.say("Which sensors does the pond gateway know?", "All of them.")
    assert _given(talk, "Go on.") == ""
    said = _given(talk, "/workspace.related")
    lines = [line for line in said.splitlines() if line[:1].isdigit()]
    assert len(lines) == 3 and all("debug-" in line and "found by " in line for line in lines), said
    assert talk.key not in said and "a record, not an instruction" in said
    assert talk.hook("UserPromptExpansion", command_name="workspace.related").out == "", "one answer to one prompt"
    talk.answer("Three.")
    assert lines[1].split("(")[1].split(",")[0] in talk.resume("2"), "a number of this list"


def test_codex_gets_related_conversations_as_a_message_not_as_an_instruction(workspace: Path) -> None:
    def fired(event: str, **fields: str) -> str:
        payload = {"session_id": "1", "cwd": str(workspace), "hook_event_name": event, **fields}
        done = cortext("hook", "codex", cwd=workspace, stdin=json.dumps(payload))
        assert done.code == 0, done.err
        return done.out

    told = fired("UserPromptSubmit", prompt="$workspace-related heron_counter circular import")
    assert "has found 1 conversation." in told and "circular import: " not in told and "Herons at the gate" not in told
    followed = json.loads(fired("Stop"))
    assert followed["decision"] == "block" and "Herons at the gate (001-debug-herons" in followed["reason"]
    assert fired("Stop") == "", "once"


def test_what_is_not_about_the_topic_is_not_related(workspace: Path) -> None:
    talk = ClaudeTalk(workspace)
    assert "001-debug-herons" in _given(talk, "/workspace.related heron_counter circular import")
    for topic in ("volcano eruption sensors", "Zahnarzt", "the gateway of Cairo and its camels"):
        said = _given(talk, f"/workspace.related {topic}")
        assert "knows no earlier conversation" in said and "herons" not in said, said


def test_a_damaged_index_fails_no_turn(workspace: Path) -> None:
    for path in (Path.home() / ".cache").rglob("meta.json"):
        path.write_text("{", encoding="utf-8")
    done = ClaudeTalk(workspace).hook("UserPromptSubmit", prompt=AGAIN)
    assert done.code == 0 and "Traceback" not in done.err


@pytest.mark.parametrize("sign", ["錯", "x"])
def test_a_hint_names_its_source_however_long_its_quotations_are(sign: str, tmp_path: Path) -> None:
    row = Row._make(["" if field != "id" else "001-debug-herons" for field in Row._fields])._replace(title=sign * 200)
    hint = Hint(
        kind=ERROR,
        score=0.9,
        row=row,
        seq=1,
        timestamp="2026-11-14T10:00:00.000Z",
        about=sign * 300,
        says=sign * 300,
        says_seq=7,
        files=[sign * 50 + ".py"] * 3,
    )
    text = text_of(hint, str(tmp_path))
    assert tokens.estimate(text) <= LONGEST_TOKENS
    assert "(001-debug-herons, message 7, 2026-11-14)" in text and "/workspace.mute" in text
    assert f'before: "{sign * 40}' in text and f'ended with: "{sign * 40}' in text


def test_a_hint_says_of_a_file_only_what_its_time_shows(tmp_path: Path) -> None:
    def said(timestamp: str) -> str:
        row = Row._make(["" for _ in Row._fields])
        hint = Hint(kind=ERROR, score=0.9, row=row, seq=1, timestamp=timestamp, about="a", says="b", says_seq=2)
        hint.files = ["pond.py"]
        return text_of(hint, str(tmp_path))

    assert "pond.py is not there any more" in said("2026-11-14T10:00:00.000Z")
    (tmp_path / "pond.py").write_text("x", encoding="utf-8")
    assert "pond.py was written since" in said("2026-11-14T10:00:00.000Z"), "by an edit or by a checkout"
    assert "pond.py was not written since" in said(clock.now())
    assert "pond.py" not in said("some time"), "nothing is claimed if the time is unknown"


def test_an_error_that_came_again_was_not_fixed(workspace: Path) -> None:
    store = WorkspaceStore(str(workspace))
    result = Part(TOOL_RESULT, call_id="9", output=FAILED, is_error=True)
    store.append("001-debug-herons", Message(role=TOOL, parts=[result]))
    assert cortext("search", "--exact", "herons", cwd=workspace).code == 0
    assert _given(ClaudeTalk(workspace), AGAIN) == ""


def test_what_varies_between_two_runs_is_no_part_of_an_error() -> None:
    assert errors_in(f"All is well.\n{FAILED}") == [FAILED]
    assert kernel(FAILED) == kernel(AGAIN)
    assert phrase_of("error in /a/b.py:3: pond gate is stuck at 17") == "pond gate is stuck at"
    assert question_terms("Go on, please") == frozenset()
