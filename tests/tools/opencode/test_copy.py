"""Copying a session to a document, and restoring it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.opencode import stand_in
from tests.tools.opencode.corpus import Corpus, call, dump, thinking

from cortext.errors import DamagedData, SessionNotFound
from cortext.model.message import Message
from cortext.tools.base import Transcript
from cortext.tools.opencode.adapter import OpenCode


@pytest.fixture
def tool(tmp_path: Path) -> OpenCode:
    stand_in.install(tmp_path / "bin")
    return OpenCode(str(tmp_path), {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})


@pytest.fixture
def corpus(tool: OpenCode) -> Iterator[Corpus]:
    database = Corpus(Path(tool.folders.database))
    database.session(revert=dump({"messageID": "msg_none"}), metadata='{"a":1}')
    database.user("Read note.txt")
    database.assistant(thinking("hm"), "Let me look.", call("bash", {"command": "cat"}, "the heron\n"))
    database.session("ses_child", parent="ses_one")
    database.user("Find it", session="ses_child")
    database.assistant("Found.", session="ses_child")
    yield database
    database.close()


def only(tool: OpenCode) -> Transcript:
    (transcript,) = tool.transcripts()
    return transcript


def read(tool: OpenCode, transcript: Transcript | None) -> list[Message]:
    assert transcript is not None
    return list(tool.read(transcript))


@pytest.mark.req("TOOL-03")
def test_a_copy_is_a_document_with_the_same_messages(tool: OpenCode, corpus: Corpus, tmp_path: Path) -> None:
    copy = tmp_path / "native"

    tool.copy(only(tool), str(copy))

    document = json.loads(copy.read_text(encoding="utf-8"))
    assert (document["info"]["id"], document["info"]["metadata"]) == ("ses_one", {"a": 1})
    assert document["info"]["revert"] == {"messageID": "msg_none"}
    # Byte for byte as in the database, with the ids that it has in columns.
    for row in corpus.rows():
        assert row[1:] in copy.read_bytes()
    assert document["messages"][0]["parts"][0] == {
        "id": "prt_000001",
        "sessionID": "ses_one",
        "messageID": "msg_000001",
        "type": "text",
        "text": "Read note.txt",
    }
    kept = tool.transcript_at(str(copy))
    assert kept is not None
    assert (kept.key, kept.project, kept.size) == ("ses_one", "/work/place", copy.stat().st_size)
    assert read(tool, kept) == read(tool, only(tool))


def test_an_export_has_the_same_messages(tool: OpenCode, corpus: Corpus, tmp_path: Path) -> None:
    copy, exported = tmp_path / "native", tmp_path / "export.json"
    tool.copy(only(tool), str(copy))
    document = json.loads(copy.read_text(encoding="utf-8"))
    export = {"info": document["info"], "messages": document["messages"]}
    exported.write_text(json.dumps(export, indent=2, ensure_ascii=False), encoding="utf-8")

    found = read(tool, tool.transcript_at(str(exported)))

    assert found == [message for message in read(tool, only(tool)) if not message.aside]
    tool.copy(Transcript(tool="opencode", key="ses_one", path=str(exported)), str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == exported.read_bytes()


@pytest.mark.req("TOOL-03")
def test_a_copy_that_is_up_to_date_is_not_rewritten(tool: OpenCode, corpus: Corpus, tmp_path: Path) -> None:
    copy = tmp_path / "native"
    tool.copy(only(tool), str(copy))
    first = copy.stat()
    tool.copy(only(tool), str(copy))
    assert copy.stat().st_ino == first.st_ino

    corpus.user("More")
    tool.copy(only(tool), str(copy))

    assert copy.stat().st_ino != first.st_ino
    assert read(tool, tool.transcript_at(str(copy)))[-1].content == "More"


@pytest.mark.req("TOOL-03")
def test_a_lost_session_is_restored_from_its_copy(tool: OpenCode, corpus: Corpus, tmp_path: Path) -> None:
    copy = tmp_path / "native"
    tool.copy(only(tool), str(copy))
    before = read(tool, only(tool))
    for table in ("part", "message", "session"):
        corpus.database.execute(f"DELETE FROM {table}")
    assert list(tool.transcripts()) == []

    # The stand-in stores texts and calls only; the test with the real program covers thinking.
    assert tool.put_back(str(copy), project=str(tmp_path)) == "ses_one"

    after = read(tool, only(tool))
    assert [(one.id, one.role, one.text, one.aside) for one in after] == [
        (one.id, one.role, one.text, one.aside) for one in before
    ]
    assert tool.put_back(str(copy), project=str(tmp_path)) == "ses_one"  # nothing was lost, so nothing is imported


@pytest.mark.req("TOOL-04")
def test_damaged_rows_are_kept_in_the_copy(tool: OpenCode, corpus: Corpus, tmp_path: Path) -> None:
    corpus.message('{"role":"user","tim')
    corpus.part("msg_000001", "[]")
    copy = tmp_path / "native"

    tool.copy(only(tool), str(copy))

    damaged = json.loads(copy.read_text(encoding="utf-8"))["damaged"]
    assert sorted(item["data"] for item in damaged) == ["[]", '{"role":"user","tim']


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize("form", ["copy", "export"])
def test_a_damaged_document_returns_its_complete_messages(
    tool: OpenCode, corpus: Corpus, tmp_path: Path, form: str
) -> None:
    copy = tmp_path / "native"
    tool.copy(only(tool), str(copy))
    if form == "export":
        document = json.loads(copy.read_text(encoding="utf-8"))
        export = {"info": document["info"], "messages": document["messages"]}
        copy.write_text(json.dumps(export, indent=2), encoding="utf-8")
    kept = tool.transcript_at(str(copy))
    assert kept is not None
    data = copy.read_bytes()
    copy.write_bytes(data[: data.index(b"Let me look.")])

    reading = tool.read(kept)

    assert [message.content for message in reading] == ["Read note.txt"]
    assert reading.counts.damaged["document"] == 1
    assert reading.about.title == "A talk"


@pytest.mark.req("TOOL-04")
def test_a_file_that_is_not_a_session_is_refused(tool: OpenCode, corpus: Corpus, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    for content in ("", "{}", "[]", '{"info":{"id":"x"},"messages":[]}', "x" * 100, '{"info":{"id"'):
        other.write_text(content, encoding="utf-8")
        assert tool.transcript_at(str(other)) is None
    with pytest.raises(DamagedData, match="not a session"):
        tool.put_back(str(other), project=str(tmp_path))
    with pytest.raises(SessionNotFound, match="ses_gone"):
        tool.copy(Transcript(tool="opencode", key="ses_gone", path=tool.folders.database), str(other))
