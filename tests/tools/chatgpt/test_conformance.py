"""ChatGPT: the suite of all adapters with a conversation of an export, its branches, and the import of an archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import cortext
from tests.tools.exports import listing, save_zip

from cortext.model.message import BEGINNING, Message
from cortext.model.threads import thread
from cortext.testing import ReaderConformance, Samples
from cortext.tools.base import Counts, Transcript
from cortext.tools.chatgpt.adapter import ChatGpt
from cortext.tools.claude_ai.adapter import ClaudeAi
from cortext.tools.shared.exports import ExportTool

pytestmark = pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-07")

KEY = "6740c1a2-1111-8000-9000-abcdefabcdef"


def node(
    name: str, parent: str | None, role: str = "", content: Any = None, at: float | None = None, **more: Any
) -> dict[str, Any]:
    """Return a node of the tree, as it is exported."""
    message: dict[str, Any] | None = None
    if role:
        author = {"role": role, "name": more.pop("tool", None), "metadata": {}}
        body = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
        message = {"id": name, "author": author, "create_time": at, "content": body, "status": "finished_successfully"}
        message |= {"recipient": "all", "metadata": {}, "weight": 1.0, **more}
    return {"id": name, "message": message, "parent": parent, "children": []}


NODES = (
    node("root", None),
    node("sys", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
    node("about", "sys", "user", {"content_type": "user_editable_context", "user_profile": "I like birds"}),
    node(
        "u1",
        "about",
        "user",
        {
            "content_type": "multimodal_text",
            "parts": [
                {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1", "size_bytes": 9},
                "How many herons? 答え",
                {"content_type": "audio_transcription", "text": "Tell me.", "direction": "in"},
                {"content_type": "real_time_user_audio_video_asset_pointer"},
            ],
        },
        1793606400.5,
        metadata={
            "attachments": [
                {"id": "file-1", "name": "pond.png", "mime_type": "image/png"},
                {"id": "file-2", "name": "list.csv", "mime_type": "text/csv"},
            ]
        },
    ),
    node("a1", "u1", "assistant", "A first answer.", 1793606401.0),
    node("t1", "u1", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "Count."}]}),
    node("r1", "t1", "assistant", {"content_type": "reasoning_recap", "content": "Thought for 4s"}),
    node("c1", "r1", "assistant", {"content_type": "code", "language": "python", "text": "1+1"}, recipient="python"),
    node("o1", "c1", "tool", {"content_type": "execution_output", "text": "2"}, 1793606403.0, tool="python"),
    node("w1", "o1", "assistant", '{"query": "herons"}', 1793606404.0, recipient="web"),
    node("w2", "w1", "tool", {"content_type": "tether_browsing_display", "result": "found"}, tool="web"),
    node("w3", "w2", "tool", {"content_type": "tether_quote", "text": "a quote", "url": "x"}, tool="web"),
    node("a2", "w3", "assistant", "Two herons.", 1793606406.0, metadata={"model_slug": "gpt-5"}),
    node("u2", "a2", "user", "And storks?", 1793606407.0),
)
MESSAGES = (
    ("user", "How many herons? 答え\n\nTell me."),
    ("assistant", "A first answer."),
    ("assistant", ""),
    ("assistant", ""),
    ("tool", "2"),
    ("assistant", ""),
    ("tool", "found"),
    ("tool", "a quote"),
    ("assistant", "Two herons."),
    ("user", "And storks?"),
)


def conversation(nodes: list[bytes], current: str = "", key: str = KEY) -> bytes:
    """Return a conversation with these nodes, each as bytes."""
    mapping = b",".join(b'"%s": %s' % (_name(data, number), data) for number, data in enumerate(nodes))
    head = {"title": "Counting herons", "create_time": 1793606400.1, "update_time": 1793606407.0 + len(nodes)}
    tail = {"moderation_results": [], "current_node": current, "conversation_id": key, "id": key}
    return json.dumps(head)[:-1].encode() + b', "mapping": {' + mapping + b"}, " + json.dumps(tail)[1:].encode()


def _name(data: bytes, number: int) -> bytes:
    try:
        return str(json.loads(data)["id"]).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return b"extra%d" % number


class ChatGptSamples(Samples):
    records = len(NODES)
    messages = MESSAGES
    unknown = (
        json.dumps(node("x", "u2", "assistant", {"content_type": "hologram"})).encode(),
        json.dumps(node("x", "u2", "oracle", "?")).encode(),
        json.dumps(
            node("x", "u2", "user", {"content_type": "multimodal_text", "parts": [{"content_type": "smell"}]})
        ).encode(),
    )
    broken = (b'{"id": "x", "parent": null, "message": {"author": 7.5e999}}',)

    def tool(self, home: Path) -> ChatGpt:
        return listing(ChatGpt(), lambda: home / "export.zip")

    def save(self, home: Path, records: int | None = None) -> None:
        kept = NODES[:records]
        self._save(home, [json.dumps(item).encode() for item in kept], kept[-1]["id"])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        nodes = [json.dumps(item).encode() for item in NODES]
        self._save(home, [*nodes[:index], record, *nodes[index:]], "u2")

    def _save(self, home: Path, nodes: list[bytes], current: str) -> None:
        save_zip(home / "export.zip", b"[" + conversation(nodes, current) + b"]")


class TestChatGpt(ReaderConformance):
    samples = ChatGptSamples()


def read(tool: ChatGpt, transcript: Transcript) -> tuple[list[Message], Counts]:
    reading = tool.read(transcript)
    return list(reading), reading.counts


def test_the_branch_that_was_left_is_kept_beside_the_current_one(tmp_path: Path) -> None:
    ChatGptSamples().save(tmp_path)
    tool = ChatGpt()
    (found,) = tool.transcripts_in(str(tmp_path / "export.zip"))

    messages, counts = read(tool, found)

    assert [message.id for message in thread(messages)] == ["u1", "t1", "c1", "o1", "w1", "w2", "w3", "a2", "u2"]
    assert {message.id: message.parent for message in messages if message.parent} == {"t1": "u1"}
    assert [part.type for part in messages[0].parts or ()] == ["image", "text", "text", "file"]
    calls = [part for message in messages for part in message.parts_of("tool_call")]
    assert [(call.name, call.input) for call in calls] == [("python", {"input": "1+1"}), ("web", {"query": "herons"})]
    results = [part for message in messages for part in message.parts_of("tool_result")]
    assert [(result.call_id, result.name) for result in results] == [("c1", "python"), ("w1", "web"), ("w1", "web")]
    assert counts.skipped == {
        "without message": 1,
        "system message": 1,
        "user_editable_context": 1,
        "real_time_user_audio_video_asset_pointer": 1,
        "reasoning_recap": 1,
    }


def test_a_first_question_that_was_edited_starts_at_the_beginning(tmp_path: Path) -> None:
    nodes = [
        node("root", None),
        node("old", "root", "user", "Hwo many?"),
        node("olda", "old", "assistant", "What?"),
        node("new", "root", "user", "How many?"),
        node("newa", "new", "assistant", "Two."),
    ]
    (tmp_path / "conversations.json").write_bytes(
        b"[" + conversation([json.dumps(item).encode() for item in nodes], "olda") + b"]"
    )
    tool = ChatGpt()
    (found,) = tool.transcripts_in(str(tmp_path / "conversations.json"))

    messages, _ = read(tool, found)

    assert [message.text for message in thread(messages)] == ["Hwo many?", "What?"]
    assert [(message.id, message.parent) for message in messages] == [
        ("new", ""),
        ("newa", ""),
        ("old", BEGINNING),
        ("olda", ""),
    ]


def test_a_damaged_conversation_does_not_affect_the_others(tmp_path: Path) -> None:
    nodes = [json.dumps(item).encode() for item in NODES]
    first = conversation(nodes, "u2", "first")
    damaged = conversation([*nodes[:4], b'{"half": "a rec', *nodes[4:]], "u2", "second")
    third = conversation(nodes[:4], "u1", "third")
    path = tmp_path / "conversations.json"
    path.write_bytes(b"[" + b",\n".join((damaged, first, third))[:-1])
    tool = ChatGpt()

    found = {item.key: read(tool, item) for item in tool.transcripts_in(str(path))}

    assert {key: (len(messages), counts.damaged) for key, (messages, counts) in found.items()} == {
        "first": (10, {}),
        "second": (10, {"conversation": 1}),
        "third": (1, {"conversation": 1}),  # the file ends too early
    }


def test_a_tree_that_is_deep_or_has_a_loop_is_read(tmp_path: Path) -> None:
    chain = [node("n0", None, "user", "0")]
    chain += [node(f"n{number}", f"n{number - 1}", "user", str(number)) for number in range(1, 3000)]
    loop = [node("p", "q", "user", "p"), node("q", "p", "user", "q")]
    path = tmp_path / "conversations.json"
    path.write_bytes(b"[" + conversation([json.dumps(item).encode() for item in chain + loop], "n2999") + b"]")
    tool = ChatGpt()
    (found,) = tool.transcripts_in(str(path))

    messages, counts = read(tool, found)

    assert len(messages) == 3002
    assert counts.damaged == {}


def test_an_archive_is_imported_and_a_later_one_adds_what_is_new(tmp_path: Path, home: Path) -> None:
    nodes = [json.dumps(item).encode() for item in NODES]
    save_zip(
        tmp_path / "export.zip", b"[" + conversation(nodes[:-1], "a2") + b"," + conversation(nodes, "u2", "k2") + b"]"
    )
    assert cortext("import").code == 0
    done = cortext("import", str(tmp_path / "export.zip"), "--json")
    assert done.code == 0
    (report,) = done.json
    assert (report["tool"], report["created"], report["messages"]) == ("chatgpt", 2, 19)

    save_zip(tmp_path / "later.zip", b"[" + conversation(nodes, "u2") + b"]", "conversations-000.json")
    (report,) = cortext("import", str(tmp_path / "later.zip"), "--json").json
    assert (report["created"], report["updated"], report["messages"]) == (0, 1, 1)
    (report,) = cortext("import", str(tmp_path / "later.zip"), "--json").json
    assert (report["unchanged"], report["messages"]) == (1, 0)

    assert {row["title"] for row in cortext("list", "--tool", "chatgpt", "--json").json} == {"Counting herons"}
    assert "Two herons" in cortext("search", "herons").out
    planned = cortext("resume", f"chatgpt-{KEY}", "--ai", "claude", "--dry-run", "--json").json
    assert planned["receipt"]["messages"] == 8


@pytest.mark.parametrize(("kind", "field"), [(ChatGpt, "mapping"), (ClaudeAi, "chat_messages")])
def test_a_conversation_of_another_shape_is_damaged(tmp_path: Path, kind: type[ExportTool], field: str) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"conversation_id": "c", "uuid": "c", field: 7}]))
    tool = kind()
    (found,) = tool.transcripts_in(str(path))
    reading = tool.read(found)

    assert list(reading) == []
    assert reading.counts.damaged == {"conversation": 1}


def test_an_archive_that_cannot_be_unpacked_is_reported(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "export.zip"
    nodes = [json.dumps(node(f"n{number}", None, "user", str(number) * 50)).encode() for number in range(3000)]
    save_zip(path, b"[" + conversation(nodes) + b"]")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)

    done = cortext("import", str(path))

    assert done.code == 3
    assert "cannot be unpacked" in done.out
    assert "Traceback" not in done.err
