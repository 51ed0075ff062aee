"""Writing native sessions: messages are read back as they were written, or the session is removed."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tools.opencode import stand_in

from cortext.errors import DamagedData, NotFound, WriteFailed
from cortext.model.message import Message, Part
from cortext.tools.base import Transcript
from cortext.tools.opencode import write as opencode_write
from cortext.tools.opencode.adapter import OpenCode
from cortext.tools.opencode.live import Model
from cortext.tools.opencode.read import DocumentReading
from cortext.tools.opencode.write import Rendering, document, signature


@pytest.fixture
def tool(tmp_path: Path) -> OpenCode:
    stand_in.install(tmp_path / "bin")
    (tmp_path / "project").mkdir()
    return OpenCode(str(tmp_path), {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})


@pytest.fixture
def project(tmp_path: Path) -> str:
    return str(tmp_path / "project")


def read_back(tool: OpenCode, key: str) -> list[Message]:
    transcript = next(item for item in tool.transcripts() if item.key == key)
    return list(tool.read(transcript))


def user(text: str, identity: str = "u1", **more: Any) -> Message:
    return Message(role="user", content=text, id=identity, timestamp="2026-11-01T10:00:00.000Z", **more)


def calling(*calls: Part, identity: str = "a1", text: str = "") -> Message:
    parts = [*([Part("text", text)] if text else []), *calls]
    return Message(role="assistant", content=text, parts=parts, id=identity, model="claude-opus-5-5", tokens=7)


def answer(*results: Part, identity: str = "t1") -> Message:
    return Message(role="tool", parts=list(results), id=identity, timestamp="2026-11-01T10:00:01.000Z")


@pytest.mark.req("SESS-004d", "TOOL-01")
def test_a_conversation_is_read_back_as_it_was_written(tool: OpenCode, project: str) -> None:
    messages = [
        user("What is in note.txt?"),
        calling(Part("tool_call", id="c1", name="Bash", input={"command": "cat note.txt"}), text="Let me look."),
        answer(Part("tool_result", call_id="c1", name="Bash", output="the heron\n")),
        Message(
            role="assistant", content="A heron.", id="a2", model="anthropic/claude", timestamp="2026-11-01T10:00:02Z"
        ),
        user("And?", "u2"),
        user("Well?", "u3"),
    ]

    written = tool.write(messages, project=project, title="The heron", model="some/model")

    assert (written.messages, written.tool_calls, written.changed) == (6, 1, {})
    assert written.path == tool.folders.database
    found = read_back(tool, written.key)
    assert [(one.id, one.role, one.content) for one in found] == [(one.id, one.role, one.content) for one in messages]
    assert [one.model for one in found if one.role == "assistant"] == ["claude-opus-5-5", "anthropic/claude"]
    assert found[1].parts == messages[1].parts
    assert found[2].parts == messages[2].parts
    assert [one.timestamp for one in found][3:] == ["2026-11-01T10:00:02Z", *["2026-11-01T10:00:00.000Z"] * 2]
    preview = tool.preview(messages)
    assert (preview.messages, preview.tool_calls, preview.changed, preview.key) == (6, 1, {}, "")
    # Writing what was read back gives the same conversation.
    again = tool.write(found, project=project, title="The heron")
    assert again.key != written.key
    assert [(one.id, one.role, one.text) for one in read_back(tool, again.key)] == [
        (one.id, one.role, one.text) for one in messages
    ]


def test_results_for_calls_of_two_messages_are_split(tool: OpenCode, project: str) -> None:
    messages = [
        user("Go"),
        calling(Part("tool_call", id="c1", name="x", input={}), identity="a1"),
        calling(
            Part("tool_call", id="c2", name="x", input={}),
            Part("tool_call", id="c3", name="x", input={}),
            identity="a2",
        ),
        answer(*(Part("tool_result", call_id=f"c{number}", output=f"r{number}") for number in (1, 2, 3))),
    ]

    found = read_back(tool, tool.write(messages, project=project).key)

    assert [(one.id, one.text) for one in found][1:] == [("a1", ""), ("t1", "r1"), ("a2", ""), ("t1.2", "r2\n\nr3")]


def test_lone_surrogates_are_replaced(tool: OpenCode, project: str) -> None:
    broken = calling(Part("tool_call", id="c", name="x", input={"a": ["\udc80"], "n": float("nan")}), text="b\ud800c")

    written = tool.write([user("a\ud83d"), broken], project=project, title="t\udc00")

    assert [one.content for one in read_back(tool, written.key)] == ["a\ufffd", "b\ufffdc"]
    assert written.changed["invalid Unicode character replaced"] == 3


def test_stored_times_are_ordered_and_timestamps_kept(tool: OpenCode, project: str) -> None:
    stamps = ["2026-11-01T10:00:00.123Z", "2020-01-01T00:00:00.000Z", "", "2199-01-01T00:00:00.000Z"]
    messages = [Message(role="user", content=f"m{n}", id=f"u{n}", timestamp=stamp) for n, stamp in enumerate(stamps)]

    written = tool.write(messages, project=project)

    with closing(sqlite3.connect(tool.folders.database)) as database:
        rows = database.execute("SELECT time_created FROM message ORDER BY id").fetchall()
    assert rows == sorted(rows)
    found = read_back(tool, written.key)
    assert [one.id for one in found] == ["u0", "u1", "u2", "u3"]
    assert [one.timestamp for one in found] == [stamps[0], stamps[1], "2026-11-01T10:00:00.123Z", stamps[3]]


any_text = st.text(st.characters(codec="utf-8"), max_size=30)
parts = st.one_of(
    st.builds(lambda text: Part("text", text), any_text),
    st.builds(lambda text: Part("thinking", text), any_text),
    st.builds(
        lambda call, name: Part("tool_call", id=call, name=name, input={"n": name}), st.sampled_from("abc"), any_text
    ),
    st.builds(
        lambda call, out, bad: Part("tool_result", call_id=call, output=out, is_error=bad),
        st.sampled_from("abc"),
        any_text,
        st.booleans(),
    ),
    st.builds(lambda ref: Part("image", ref=ref, media_type="image/png"), any_text),
)
conversations = st.lists(
    st.tuples(st.sampled_from(("user", "assistant", "tool", "system")), any_text, st.lists(parts, max_size=4)),
    max_size=8,
)


@pytest.mark.req("SESS-004d")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversations)
def test_any_conversation_is_read_back_as_expected(
    tmp_path: Path, conversation: list[tuple[str, str, list[Part]]]
) -> None:
    messages = [
        Message(role=role, content=text, parts=inner or None, id=f"m{number}")
        for number, (role, text, inner) in enumerate(conversation)
    ]
    plan = Rendering(messages)
    path = tmp_path / "document.json"
    if not plan.native:
        return
    path.write_bytes(b"".join(document(plan, "ses_x", "A talk", "/place", Model("some", "model"))))

    found = list(DocumentReading(Transcript(tool="opencode", key="ses_x", path=str(path))))

    assert [signature(one) for one in found] == plan.expected
    assert plan.normal.tool_calls == sum(len(one.parts_of("tool_call")) for one in messages if one.role == "assistant")
    found_text = "\n".join(f"{one.content} {[(part.text, part.output) for part in one.parts or ()]}" for one in found)
    for one in messages:
        for text in (one.content, *(part.text + part.output for part in one.parts or () if part.type != "thinking")):
            assert text in found_text or repr(text)[1:-1] in found_text


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────


def program(tmp_path: Path, script: str) -> OpenCode:
    folder = tmp_path / "bad"
    folder.mkdir()
    path = folder / "opencode"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return OpenCode(str(tmp_path), {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")})


def test_a_failed_import_is_reported_and_cleaned_up(tmp_path: Path) -> None:
    tool = program(tmp_path, 'echo "$@" >> $LOG; case "$2" in import) echo "Missing key cost"; exit 1;; esac')

    with pytest.raises(WriteFailed, match="Missing key cost"):
        tool.write([user("Go")], project=str(tmp_path), key="ses_x")

    logged = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert logged[-1] == "--pure session delete ses_x"
    assert not Path(logged[0].split()[-1]).exists()  # the document is removed, too


def test_an_import_that_hangs_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencode_write, "IMPORT_SECONDS", 0.3)
    tool = program(tmp_path, 'case "$2" in import) sleep 60;; esac')

    with pytest.raises(WriteFailed, match="did not finish"):
        tool.write([user("Go")], project=str(tmp_path))


def test_a_session_that_is_not_read_back_is_removed(tool: OpenCode, project: str, tmp_path: Path) -> None:
    real = (tmp_path / "bin" / "opencode").read_text(encoding="utf-8")
    code = "import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); d.execute(sys.argv[2]); d.commit()"
    alter = f'"{sys.executable}" -c "{code}"'
    change = "UPDATE part SET data = replace(data, 'heron', 'crane')"
    run = real.splitlines()[1].replace("exec ", "")
    (tmp_path / "bin" / "opencode").write_text(
        f'#!/bin/sh\n{run}\n{alter} "{tool.folders.database}" "{change}"\n', encoding="utf-8"
    )

    with pytest.raises(DamagedData, match="message 1 of 1"):
        tool.write([user("the heron")], project=project)

    assert list(tool.transcripts()) == []


def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    tool = OpenCode(str(tmp_path), {"PATH": str(tmp_path)})

    with pytest.raises(NotFound, match="not installed"):
        tool.write([user("Go")], project=str(tmp_path))


def test_the_installed_version_is_detected(tool: OpenCode, tmp_path: Path) -> None:
    found = tool.detect()

    assert found is not None
    assert (found.version, found.tested, found.program) == ("1.18.18", True, str(tmp_path / "bin" / "opencode"))
