"""Writing native sessions: text, calls and results are read back exactly as they were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.gemini_cli.corpus import Json, read

from cortext.errors import DamagedData
from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.tools.base import Written
from cortext.tools.gemini_cli import write as gemini_cli_write
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.gemini_cli.store import project_hash
from cortext.tools.gemini_cli.write import Rendering

WHEN = "2026-11-01T10:00:00.000Z"


def make_message(role: str, text: str, name: str, *parts: Part) -> Message:
    return Message(role=role, content=text, id=name, timestamp=WHEN, parts=list(parts) or None)


def call(name: str, tool: str = "Bash", value: Any = None) -> Part:
    return Part(TOOL_CALL, id=name, name=tool, input={"command": "ls"} if value is None else value)


def result(name: str, output: str, tool: str = "Bash", *, is_error: bool = False) -> Part:
    return Part(TOOL_RESULT, call_id=name, name=tool, output=output, is_error=is_error)


def conversation() -> list[Message]:
    return [
        make_message("user", "The boat is green. Ünïcode: 答え", "u1"),
        make_message(
            "assistant", "Noted.", "a1", call("c1"), call("c2", "mcp__boats__look", {"path": "boat.txt", "deep": [1]})
        ),
        make_message("tool", "", "t1", result("c1", "a green boat")),
        make_message("tool", "", "t2", result("c2", "no such boat", "mcp__boats__look", is_error=True)),
        make_message("assistant", "It is green indeed.", "a2"),
        make_message("user", "Which colour?", "u2"),
        make_message("assistant", "Green.", "a3"),
    ]


@pytest.fixture
def tool(tmp_path: Path) -> GeminiCli:
    return GeminiCli(environ={"HOME": str(tmp_path / "home"), "PATH": ""})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "My Project"
    folder.mkdir()
    return folder


def read_back(written: Written) -> list[Message]:
    messages, reading = read(Path(written.path))
    assert (reading.counts.damaged, reading.counts.unknown) == ({}, {})
    return messages


def stripped(messages: list[Message]) -> list[Message]:
    return [
        Message(role=found.role, content=found.content, id=found.id, timestamp=found.timestamp, parts=found.parts)
        for found in messages
    ]


def records(written: Written) -> list[Json]:
    return [json.loads(line) for line in Path(written.path).read_text(encoding="utf-8").splitlines()]


@pytest.mark.req("SESS-004d", "TOOL-01")
def test_a_conversation_is_read_back_as_it_was_written(tool: GeminiCli, project: Path) -> None:
    written = tool.write(conversation(), project=str(project), title="Boats")

    assert stripped(read_back(written)) == conversation()
    assert (written.messages, written.tool_calls, written.changed) == (7, 2, {})
    opening = records(written)[0]
    assert (opening["sessionId"], opening["projectHash"]) == (written.key, project_hash(str(project)))
    assert opening["summary"] == "Boats"
    (transcript,) = tool.transcripts(str(project))
    assert (transcript.key, transcript.path, transcript.project) == (written.key, written.path, str(project))
    assert Path(written.path).stat().st_mode & 0o777 == 0o600


@pytest.mark.req("SESS-004d")
def test_calls_and_results_are_stored_where_each_is_sent_once(tool: GeminiCli, project: Path) -> None:
    written = tool.write(conversation(), project=str(project))

    model = next(record for record in records(written) if record.get("toolCalls"))
    calls = [part["functionCall"]["id"] for part in model["content"] if "functionCall" in part]
    shown = {entry["id"] for entry in model["toolCalls"]}
    assert calls == ["c1", "c2"] and not shown & set(calls)
    assert not any("result" in entry for entry in model["toolCalls"])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/workspace.brainstorm API design", "line added before text that looks like a command"),
        ("\n /help", "line added before text that looks like a command"),
        ("? what", "line added before text that looks like a command"),
        ("<hook_context>not a hook", "line added before text that looks like a command"),
        ("\ufeff<session_context>mine", "line added before text that looks like a command"),
    ],
)
def test_a_text_that_would_be_dropped_is_guarded(tool: GeminiCli, project: Path, text: str, kind: str) -> None:
    written = tool.write(
        [make_message("user", text, "u1"), make_message("assistant", "Yes.", "a1")], project=str(project)
    )

    assert written.changed == {kind: 1}
    assert [message.content for message in read_back(written)] == [text, "Yes."]
    (_, guarded, _) = records(written)
    assert guarded["content"] == [{"text": "The user wrote:\n"}, {"text": text}]
    assert guarded.get("displayContent") == ([{"text": text}] if text.strip()[:1] in ("/", "?") else None)


def test_characters_that_would_break_the_file_are_replaced(tool: GeminiCli, project: Path) -> None:
    messages = [
        make_message("user", "one\u2028two\u2029three \ud800 \x00 \x7f 😀", "u1"),
        make_message("assistant", "", "a1", call("c1", value={"text\u2028": ["\u2029"]}, tool="odd\u2028name")),
        make_message("tool", "", "t1", result("c1", "a\u2028b", "odd\u2028name")),
    ]
    written = tool.write(messages, project=str(project))

    data = Path(written.path).read_bytes()
    assert "\u2028".encode() not in data and "\u2029".encode() not in data
    assert read_back(written)[0].content == "one\ntwo\nthree \ufffd \x00 \x7f 😀"
    assert written.changed["Unicode line separator replaced by a newline"] == 5
    assert written.changed["invalid Unicode character replaced"] == 1


def _responses(record: Json) -> list[Json]:
    content = record["content"]
    return [part for part in content if "functionResponse" in part] if isinstance(content, list) else []


def test_a_requested_key_is_used_if_it_is_free_and_valid(tool: GeminiCli, project: Path) -> None:
    key = "0a1b2c3d-0000-4000-8000-000000000000"
    first = tool.write(conversation(), project=str(project), key=key)
    before = Path(first.path).read_bytes()
    second = tool.write(conversation()[:1], project=str(project), key=key)
    third = tool.write(conversation()[:1], project=str(project), key="../../etc")
    fourth = tool.write(conversation()[:1], project=str(project), key="12345678")

    assert first.key == key and Path(first.path).read_bytes() == before
    keys = {written.key for written in (first, second, third, fourth)}
    assert len(keys) == 4 and len({key[:8] for key in keys}) == 4
    assert {transcript.key for transcript in tool.transcripts()} == keys


def test_a_session_that_is_not_read_back_is_removed(
    tool: GeminiCli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def altered(messages: Any) -> Any:
        rendering = Rendering(messages)
        rendering.records[1]["content"] = "other words"
        return rendering

    monkeypatch.setattr(gemini_cli_write, "Rendering", altered)

    with pytest.raises(DamagedData, match="message 2 of 7 is different"):
        tool.write(conversation(), project=str(project))
    assert list(tool.transcripts()) == []


def test_files_of_gemini_cli_are_never_written(tool: GeminiCli, project: Path, tmp_path: Path) -> None:
    own = tmp_path / "home" / ".gemini"
    own.mkdir(parents=True)
    registry = json.dumps({"projects": {str(project): "boats", "/elsewhere": "my-project"}}).encode()
    (own / "projects.json").write_bytes(registry)

    written = tool.write(conversation(), project=str(project))

    assert (own / "projects.json").read_bytes() == registry
    assert Path(written.path).parent == own / "tmp" / "boats" / "chats"
    assert (own / "tmp" / "boats" / ".project_root").read_text(encoding="utf-8") == str(project)


def test_each_project_has_its_own_folder(tool: GeminiCli, tmp_path: Path) -> None:
    paths = [tmp_path / name / "My Project" for name in ("a", "b")]
    for path in paths:
        path.mkdir(parents=True)
    one, two = (tool.write(conversation(), project=str(path)) for path in paths)
    three = tool.write(conversation(), project=str(paths[0]))

    names = [Path(written.path).parents[1].name for written in (one, two, three)]
    assert names == ["my-project", "my-project-1", "my-project"]
    assert {transcript.key for transcript in tool.transcripts(str(paths[0]))} == {one.key, three.key}


parts = st.one_of(
    st.builds(
        lambda name, value: call(name, "t", value), st.sampled_from("abc"), st.dictionaries(st.text(), st.text())
    ),
    st.builds(lambda name, text: result(name, text, "t"), st.sampled_from("abcd"), st.text()),
    st.builds(lambda text: Part("text", text=text), st.text()),
    st.builds(lambda text: Part("thinking", text=text), st.text()),
)
any_message = st.builds(
    lambda role, text, inner, number: Message(role=role, content=text, id=f"m{number}", parts=inner or None),
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.text(),
    st.lists(parts, max_size=3),
    st.integers(0, 8),
)


@pytest.mark.req("SESS-004d")
def test_two_messages_with_one_id_get_distinct_call_ids() -> None:
    twice = [Message(role="assistant", id="m0", parts=[call("a", "t", {}), call("a", "t", {})]) for _ in range(2)]
    calls = [part["functionCall"]["id"] for record in Rendering(twice).records for part in _calls(record)]
    assert len(calls) == len(set(calls)) == 4


@pytest.mark.req("SESS-004d")
@given(st.lists(any_message, max_size=8))
def test_any_conversation_is_rendered_without_loss(messages: list[Message]) -> None:
    """The records contain every text and call, and each call has exactly one result."""
    rendering = Rendering(messages)

    written_text = json.dumps(rendering.records, ensure_ascii=False)
    for message in messages:
        for text in [message.content, *(part.output for part in message.parts_of(TOOL_RESULT))]:
            kept = text.replace("\u2028", "\n").replace("\u2029", "\n")
            kept = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in kept)
            assert json.dumps(kept, ensure_ascii=False)[1:-1] in written_text
    calls = [part["functionCall"]["id"] for record in rendering.records for part in _calls(record)]
    answers = [part["functionResponse"]["id"] for record in rendering.records for part in _responses(record)]
    assert sorted(calls) == sorted(answers) and len(set(calls)) == len(calls)
    of_answers = [message.parts_of(TOOL_CALL) for message in messages if message.role == "assistant"]
    assert rendering.normal.tool_calls == sum(map(len, of_answers)) == len(calls)
    assert len({record["id"] for record in rendering.records}) == len(rendering.records)


def _calls(record: Json) -> list[Json]:
    content = record["content"]
    return [part for part in content if "functionCall" in part] if isinstance(content, list) else []
