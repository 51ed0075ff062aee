"""What a session of Mistral Vibe says in its several files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tools.vibe import samples

from cortext.model.message import Message
from cortext.model.turns import essence
from cortext.tools.base import About
from cortext.tools.vibe.adapter import Vibe

pytestmark = pytest.mark.req("TOOL-03", "SESS-001d", "STORE-13")

_CALLED = {
    "role": "assistant",
    "content": [
        {"type": "reasoning", "content": samples.text("hm")},
        *samples.text("Let me look."),
        {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"raw": '{"command": "ls"}', "value": {}}},
    ],
}


def _read(home: Path) -> tuple[About, list[Message]]:
    tool = Vibe(home=str(home), environ={})
    (transcript,) = tool.transcripts()
    reading = tool.read(transcript)
    messages = list(reading)
    assert (reading.counts.damaged, reading.counts.unknown) == ({}, {})
    return reading.about, messages


def _context(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"message": message, "source": "history", "turn_index": 0} for message in messages]


def _user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": samples.text(words)}


def test_what_the_model_gets_is_matched_with_what_the_screen_shows(tmp_path: Path) -> None:
    resource = {"type": "resource", "resource": {"uri": "file:///work/pond/note.txt", "text": "the heron"}}
    context = _context(
        {"role": "user", "content": [*samples.text("Look at @note.txt"), resource]},
        _CALLED,
        samples.result("c1", "a b"),
    )
    context.append({"message": _user("AGENTS.md says so."), "source": "injected", "turn_index": 0})
    entries = [samples.entry("user", "user-1", "Look at @note.txt"), samples.entry("assistant", "a-1", "Let me look.")]
    samples.save_unified(tmp_path, [], context=context, entries=entries)

    about, messages = _read(tmp_path)

    assert (about.title, about.model, about.tools) == ("Herons", "test-model", ["bash"])
    assert about.created_at == "2026-11-17T13:11:18.628Z"
    assert [(message.id, message.content) for message in messages[:2]] == [
        ("user-1", "Look at @note.txt"),
        ("a-1", "Let me look."),
    ]
    assert messages[0].timestamp == "2026-11-17T13:11:18.991Z"
    assert [(part.ref, part.text) for part in messages[0].parts_of("file")] == [
        ("file:///work/pond/note.txt", "the heron")
    ]
    assert [part.type for part in messages[1].parts or ()] == ["thinking", "text", "tool_call"]
    assert [part.input for part in messages[1].parts_of("tool_call")] == [{"command": "ls"}]
    assert [part.output for part in messages[2].parts_of("tool_result")] == ["a b"]
    assert len(messages) == 3, "what the program added is not part of the conversation"


def test_a_called_skill_is_read_as_it_was_typed(tmp_path: Path) -> None:
    called = [
        *samples.text("/workspace-plan herons"),
        *samples.text('<skill_content name="x">\nPlan.\n</skill_content>'),
    ]
    entry = {**samples.entry("user", "rs-1", ""), "content": called}
    samples.save_unified(tmp_path, [], context=_context({"role": "user", "content": called}), entries=[entry])

    about, messages = _read(tmp_path)

    assert [(message.id, message.content) for message in messages] == [("rs-1", "/workspace-plan herons")]
    assert about.command == "/workspace.plan"


def test_the_journal_and_a_later_checkpoint_give_the_same_ids(tmp_path: Path) -> None:
    """The hook reads the journal; later, the same messages are in the chunks."""
    samples.save_unified(tmp_path, samples.JOURNAL)
    _, during = _read(tmp_path)
    context = _context(
        _user(samples.SPOKEN[0][1]),
        {
            "role": "assistant",
            "content": [
                *samples.text("Two at once."),
                samples.tool_call("c1", "cat a"),
                samples.tool_call("c2", "cat b"),
            ],
        },
        samples.result("c1", "the heron"),
        samples.result("c2", "no such file", "failure"),
        {"role": "assistant", "content": [samples.tool_call("c3", "ls")]},
        samples.result("c3", "a b"),
        {"role": "assistant", "content": samples.text("Done.")},
        _user("And storks?"),
    )
    entries = [
        samples.entry("user", "user-t1", samples.SPOKEN[0][1]),
        samples.entry("assistant", "assistant-a1", "Two at once."),
        samples.entry("assistant", "assistant-a3", "Done."),
        samples.entry("user", "user-t2", "And storks?"),
    ]
    samples.save_unified(tmp_path, [], context=context, entries=entries)

    _, after = _read(tmp_path)

    assert [message.id for message in after] == [message.id for message in during]
    assert [essence(message) for message in after] == [essence(message) for message in during]


def test_after_a_compaction_the_earlier_messages_are_those_of_the_screen(tmp_path: Path) -> None:
    words = "Here is a summary:\n\n<compaction_summary>\nThey met.\n</compaction_summary>"
    summary = {"message": _user(words), "source": "injection", "turn_index": 0}
    context = [summary, *_context(_user("And now?"))]
    entries = [
        samples.entry(role, f"e{number}", words)
        for number, (role, words) in enumerate([("user", "First."), ("assistant", "Yes."), ("user", "And now?")])
    ]
    samples.save_unified(tmp_path, [], context=context, entries=entries, compactions=1)

    about, messages = _read(tmp_path)

    assert about.summary == "They met."
    assert [(message.id, message.content) for message in messages] == [
        ("e0", "First."),
        ("e1", "Yes."),
        ("e2", "And now?"),
    ]
    tool = Vibe(home=str(tmp_path), environ={})
    assert tool.withheld(next(tool.transcripts())) is None


def _imported(home: Path) -> None:
    """Save a folder of Vibe 2, and the session that Vibe 3 made of it and continued."""
    samples.save_vibe_2(home, b"".join(line + b"\n" for line in samples.LINES))
    first, *_ = samples.MESSAGES
    called = [*samples.text("Two at once.")]
    called += [
        {"type": "tool_call", "id": key, "name": name, "arguments": {"raw": raw}}
        for key, name, raw in (("c1", "bash", '{"command": "cat a"}'), ("c2", "read", '{"path": "/nope"}'))
    ]
    context = _context(
        _user(first[1]),
        {"role": "assistant", "content": called},
        samples.result("c1", "the heron"),
        samples.result("c2", "no such file"),
        {"role": "assistant", "content": samples.text("Done.")},
        _user("And storks?"),
        {"role": "assistant", "content": samples.text("On roofs.")},
    )
    samples.save_unified(home, [], context=context, imported_from=samples.KEY)


def test_a_session_that_vibe_3_imported_is_the_same_conversation(tmp_path: Path) -> None:
    samples.save_vibe_2(tmp_path, b"".join(line + b"\n" for line in samples.LINES))
    tool = Vibe(home=str(tmp_path), environ={})
    old = tool.read(next(tool.transcripts()))
    before = [message.id for message in old]
    assert old.about.command == "/workspace.plan"

    _imported(tmp_path)

    about, messages = _read(tmp_path)
    assert [transcript.key for transcript in tool.transcripts()] == [samples.KEY]
    assert [message.id for message in messages][:-1] == before
    assert (messages[-1].content, about.title) == ("On roofs.", "Herons")
    payload = {"hook_event_name": "post_agent", "session_id": samples.UNIFIED, "cwd": samples.PROJECT}
    event = tool.hook_event(payload)
    assert event is not None and event.key == samples.KEY
    assert tool.hook_event({**payload, "parent_session_id": samples.UNIFIED}) is None, "a subagent"


def test_a_copy_contains_the_folder_that_a_session_was_imported_from(tmp_path: Path) -> None:
    _imported(tmp_path)
    tool = Vibe(home=str(tmp_path), environ={})
    (transcript,) = tool.transcripts()
    expected = [(message.id, message.text) for message in tool.read(transcript)]
    copy = str(tmp_path / "copy")
    tool.copy(transcript, copy)
    other = Vibe(home=str(tmp_path / "other"), environ={})

    assert other.put_back(copy, project=samples.PROJECT) == samples.KEY

    (restored,) = other.transcripts()
    assert [(message.id, message.text) for message in other.read(restored)] == expected
    for name in ("CURRENT", "chunks/aa.json"):
        folder = Path(".vibe/logs/session/unified") / samples.UNIFIED
        assert (tmp_path / "other" / folder / name).read_bytes() == (tmp_path / folder / name).read_bytes()


@pytest.mark.req("TRUE-01")
@pytest.mark.parametrize(
    ("settings", "refuses"),
    [
        ("", False),
        ('[[models]]\nname = "devstral"\nalias = "test"\n', False),
        ('[[models]]\nname = "devstral"\nalias = "fresh"\n', True),
        ('[[models]]\nname = "devstral"\nalias = [\n', False),
    ],
    ids=["Vibe's own models", "still there", "renamed", "not TOML"],
)
def test_a_session_whose_model_is_no_longer_configured_is_not_opened(
    tmp_path: Path, settings: str, refuses: bool
) -> None:
    path = samples.save_vibe_2(tmp_path, b"\n".join([*samples.LINES, b""]))
    meta = path.with_name("meta.json")
    meta.write_bytes(meta.read_bytes().replace(b'"model_name":', b'"active_model":"test","model_name":'))
    (tmp_path / ".vibe" / "config.toml").write_text(settings, encoding="utf-8")
    tool = Vibe(home=str(tmp_path), environ={})
    [transcript] = tool.transcripts()
    assert bool(tool.refusal(transcript)) == refuses
