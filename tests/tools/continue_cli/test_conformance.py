"""The adapter for Continue passes the conformance suite, with items as Continue writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import cortext

from cortext.errors import ConfigError
from cortext.model import tokens
from cortext.model.session import Session
from cortext.services.resume.packet import context_block
from cortext.services.resume.planning import NEW, OWN
from cortext.testing import Samples, ToolConformance
from cortext.tools.base import Hooks, Installer, NativeWriter, TranscriptReading
from cortext.tools.continue_cli.adapter import Continue

pytestmark = pytest.mark.req("LIB-02", "TOOL-03", "TOOL-04", "SESS-001d", "SESS-004d", "STORE-13")

KEY = "1549a9a7-5858-4318-87af-31fba120f374"
PROJECT = "/work/boats"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "model": "test-model", "cost_cents": 0}
PICTURE = "data:image/png;base64,iVBORw0KGgo="
Json = dict[str, Any]


def said(text: Any, **fields: Any) -> Json:
    """Return what the user said."""
    return {"message": {"role": "user", "content": text}, "contextItems": [], "editorState": text, **fields}


def answered(text: str, *calls: Json) -> Json:
    """Return an answer of the model with finished calls."""
    message: Json = {"role": "assistant", "content": text, "usage": USAGE}
    if not calls:
        return {"message": message, "contextItems": []}
    message["toolCalls"] = [state["toolCall"] for state in calls]
    return {"message": message, "contextItems": [], "toolCallStates": list(calls)}


def call(key: str, name: str, arguments: str, status: str = "", output: str | None = None) -> Json:
    """Return a call with its state."""
    function = {"name": name, "arguments": arguments}
    state: Json = {
        "toolCallId": key,
        "toolCall": {"id": key, "type": "function", "function": function},
        "status": status,
    }
    if output is not None:
        state["output"] = [{"content": output, "name": "Tool Result", "description": "Tool execution result"}]
    return state


ITEMS: list[Json] = [
    said("How many boats? 答え 🦤"),
    answered(
        "Let me look.",
        call("c1", "Bash", '{"command": "ls"}', "done", "a green boat\n"),
        call("c2", "Read", '{"filepath": "/x"}', "errored", "Error executing tool Read: no such file"),
    ),
    answered("One boat."),
    said(
        [{"type": "text", "text": "And here?"}, {"type": "imageUrl", "imageUrl": {"url": PICTURE}}],
        contextItems=[{"name": "note.txt", "description": "note.txt", "content": "the heron", "id": {}}],
    ),
    answered("", call("c3", "Bash", "not JSON", "canceled", "Cancelled by user")),
    {"message": {"role": "thinking", "content": "Hm."}, "contextItems": []},
    answered("Two."),
]
MESSAGES = (
    ("user", "How many boats? 答え 🦤"),
    ("assistant", "Let me look."),
    ("tool", "a green boat\n"),
    ("tool", "Error executing tool Read: no such file"),
    ("assistant", "One boat."),
    ("user", "And here?"),
    ("assistant", ""),
    ("tool", "Cancelled by user"),
    ("assistant", ""),
    ("assistant", "Two."),
)


def document(items: list[Json], **fields: Any) -> str:
    """Return a document as Continue writes it."""
    head = {"sessionId": KEY, "title": "Boats", "workspaceDirectory": PROJECT}
    return json.dumps({**head, "history": items, **fields}, indent=2, ensure_ascii=False)


def save(home: Path, text: str) -> Path:
    """Store a document where Continue does."""
    path = home / ".continue" / "sessions" / f"{KEY}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.with_name("sessions.json").write_text("[]", encoding="utf-8")
    return path


class ContinueSamples(Samples):
    project = PROJECT
    records = len(ITEMS)
    messages = MESSAGES
    invalid_cursors = ({"items": 3}, {"items": "x", "last": []}, {"items": 3, "last": [1, None]}, {"last": ["a"]})
    unknown = (b'{"message": {"role": "hologram", "content": "x"}}', b"{}")
    broken = (b'{"message": {"role": "user", "content": 7}}', b'{"message": {"role": "user"}, "toolCallStates": 7}')

    def tool(self, home: Path) -> NativeWriter:
        return Continue(home=str(home), environ={"PATH": "/nowhere"})

    def save(self, home: Path, records: int | None = None) -> None:
        save(home, document(ITEMS[:records]))

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        mark = "the place of the record"
        text = document([*ITEMS[:index], {mark: 1}, *ITEMS[index:]])
        path = save(home, "")
        placeholder = '{\n      "' + mark + '": 1\n    }'
        path.write_bytes(text.encode().replace(placeholder.encode(), record))


class TestContinue(ToolConformance):
    samples = ContinueSamples()

    def test_the_tool_is_started_in_the_project_with_that_session(self, writer: NativeWriter, project: Path) -> None:
        """The program opens the session whose file changed last, and a prompt would make it forget what is in it."""
        written = writer.write([], project=str(project), note="Begin.")
        later = writer.write([], project=str(project), note="Another.")
        os.utime(later.path)

        launch = writer.launch(written.key, project=str(project), prompt="Go on.", model="some/model")

        assert launch.cwd == str(project)
        assert launch.argv[1:] == ["--resume", "--model", "some/model"]
        assert Path(written.path).stat().st_mtime > Path(later.path).stat().st_mtime


def test_it_installs_nothing() -> None:
    """Continue runs no hooks and reads no settings of a project, so `cortext init` does not offer it."""
    tool = Continue(home="/nowhere", environ={})
    assert not isinstance(tool, Installer | Hooks)


def read(home: Path, cursor: Json | None = None) -> tuple[TranscriptReading, list[Any]]:
    tool = Continue(home=str(home), environ={})
    (transcript,) = tool.transcripts()
    reading = tool.read(transcript, cursor)
    return reading, list(reading)


def test_title_model_tokens_and_tools_are_read(tmp_path: Path) -> None:
    save(tmp_path, document(ITEMS, workspaceDirectory="file:///work/my%20boats"))
    reading, messages = read(tmp_path)
    assert (reading.about.title, reading.about.model, reading.about.tools) == ("Boats", "test-model", ["Bash", "Read"])
    assert reading.about.project == "/work/my boats"
    assert (messages[1].usage, messages[1].tokens, messages[1].model) == (USAGE, 5, "test-model")
    assert [part.input for part in messages[1].parts_of("tool_call")] == [{"command": "ls"}, {"filepath": "/x"}]
    assert [message.parts[0].is_error for message in messages if message.role == "tool"] == [False, True, True]
    (image,) = messages[5].parts_of("image")
    (attached,) = messages[5].parts_of("file")
    assert (image.media_type, attached.name, attached.text) == ("image/png", "note.txt", "the heron")
    save(tmp_path, document(ITEMS, title="Untitled Session"))
    assert read(tmp_path)[0].about.title == ""


def test_a_document_that_was_cut_keeps_its_complete_items(tmp_path: Path) -> None:
    text = document(ITEMS)
    for cut in (*range(text.index('"history": [') + 12, len(text) - 4, 97), len(text) - 4):
        save(tmp_path, text[:cut])
        reading, messages = read(tmp_path)
        found = [(message.role, message.text) for message in messages]
        assert found == list(MESSAGES)[: len(found)]
        assert (reading.counts.damaged, reading.cursor) == ({"incomplete document": 1}, None)
    assert len(found) == len(MESSAGES)


def test_after_an_edit_the_next_message_follows_the_one_before_it(tmp_path: Path) -> None:
    save(tmp_path, document(ITEMS))
    reading, messages = read(tmp_path)
    save(tmp_path, document([*ITEMS[:3], said("Never mind."), answered("Fine.")]))

    _, more = read(tmp_path, reading.cursor)

    assert [(message.content, message.parent) for message in more] == [("Never mind.", messages[4].id), ("Fine.", "")]


def test_a_compacted_session_has_a_summary_and_is_not_opened_as_it_is(tmp_path: Path) -> None:
    save(tmp_path, document(ITEMS))
    cursor = read(tmp_path)[0].cursor
    summary = {**answered("They counted."), "conversationSummary": "They counted."}
    save(tmp_path, document([summary, said("And now?")]))
    tool = Continue(home=str(tmp_path), environ={})
    reading, messages = read(tmp_path, cursor)
    assert [message.content for message in messages] == ["And now?"]
    assert reading.about.summary == "They counted."
    assert tool.withheld(next(tool.transcripts())) is None


def test_a_call_that_is_still_running_is_read_again_when_it_has_ended(tmp_path: Path) -> None:
    save(tmp_path, document([ITEMS[0], answered("", call("c9", "Bash", "{}", "calling"))]))
    reading, before = read(tmp_path)
    tool = Continue(home=str(tmp_path), environ={})
    withheld = tool.withheld(next(tool.transcripts()))
    assert withheld is not None and sum(withheld.changed.values()) == 1
    save(tmp_path, document([ITEMS[0], answered("", call("c9", "Bash", "{}", "done", "ok")), answered("Done.")]))
    _, after = read(tmp_path, reading.cursor)
    assert [message.role for message in before] == ["user", "assistant"]
    assert [(message.role, message.text) for message in after] == [
        ("assistant", ""),
        ("tool", "ok"),
        ("assistant", "Done."),
    ]
    assert after[0].id == before[1].id


def test_half_a_surrogate_pair_costs_only_itself(tmp_path: Path) -> None:
    save(tmp_path, document([said("half X here"), answered("Fine.")]).replace("X", "\\ud83d"))
    reading, messages = read(tmp_path)
    assert [message.content for message in messages] == ["half \ufffd here", "Fine."]
    assert reading.counts.damaged == {}


def test_a_new_session_is_listed_and_a_discarded_one_is_not(tmp_path: Path) -> None:
    before = [{"sessionId": "mine", "title": "ü", "dateCreated": "1", "more": [1.5]}]
    sessions = save(tmp_path, document(ITEMS)).with_name("sessions.json")
    sessions.write_text(json.dumps(before, indent=2, ensure_ascii=False), encoding="utf-8")
    text = sessions.read_bytes()
    tool = Continue(home=str(tmp_path), environ={})

    written = tool.write(list(read(tmp_path)[1]), project=PROJECT, title="Boats")

    *others, entry = json.loads(sessions.read_bytes())
    assert others == before
    assert (entry["sessionId"], entry["title"], entry["messageCount"]) == (written.key, "Boats", 4)
    assert entry["workspaceDirectory"] == PROJECT
    tool.discard(written, project=PROJECT)
    assert sessions.read_bytes() == text


def test_a_session_that_is_put_back_is_listed_again(tmp_path: Path) -> None:
    path = save(tmp_path, document(ITEMS))
    tool = Continue(home=str(tmp_path), environ={})
    tool.copy(next(tool.transcripts()), str(tmp_path / "kept"))
    path.unlink()
    tool.put_back(str(tmp_path / "kept"), project=PROJECT)
    (entry,) = json.loads(path.with_name("sessions.json").read_bytes())
    assert (entry["sessionId"], entry["title"], entry["messageCount"]) == (KEY, "Boats", 4)


def test_a_list_that_cannot_be_read_is_named_and_left_alone(tmp_path: Path) -> None:
    sessions = save(tmp_path, document(ITEMS)).with_name("sessions.json")
    for text in ("[", "{}"):
        sessions.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=r"sessions\.json"):
            Continue(home=str(tmp_path), environ={}).write([], project=PROJECT, note="Begin.")
        assert sessions.read_text(encoding="utf-8") == text
        assert len(list(sessions.parent.iterdir())) == 2, "nothing was written"


@pytest.mark.req("FLOW-06")
def test_the_receipt_says_that_its_own_session_is_opened_without_the_context_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "boats"
    project.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    save(tmp_path, document(ITEMS[:3], workspaceDirectory=str(project)))
    assert cortext("import", "--from", "continue", cwd=project).code == 0
    name = cortext("list", "--json", cwd=project).json[0]["id"]
    resume = ("resume", name, "--ai", "continue", "--dry-run", "--json")

    own, rewritten = cortext(*resume, cwd=project).json, cortext(*resume, "--rewrite", cwd=project).json

    assert (own["how"], rewritten["how"]) == (OWN, NEW)
    assert any("takes no first prompt" in line and "--rewrite" in line for line in own["warnings"])
    assert not any("takes no first prompt" in line for line in rewritten["warnings"])
    assert own["argv"][1:] == rewritten["argv"][1:] == ["--resume"]
    block = context_block(Session(id="1"), messages=5, native=True, nameless=True)
    assert rewritten["receipt"]["tokens"] - own["receipt"]["tokens"] >= tokens.estimate(block), "no prompt is counted"
