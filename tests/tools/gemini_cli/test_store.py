"""Finding transcripts, one per session, and copying and restoring them byte for byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.tools.gemini_cli.corpus import KEY, Chat, everyday

from cortext.errors import DamagedData, UnsafePath
from cortext.services.capture.copies import copies_of
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.gemini_cli.store import project_hash
from cortext.wiring.stores import Stores


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".gemini" / "tmp" / "boats" / "chats"
    folder.mkdir(parents=True)
    (folder.parent / ".project_root").write_text(str(tmp_path / "boats"), encoding="utf-8")
    return folder


@pytest.fixture
def tool(tmp_path: Path) -> GeminiCli:
    return GeminiCli(environ={"HOME": str(tmp_path / "home"), "PATH": ""})


def stub(key: str = KEY) -> bytes:
    """Return the file that Gemini CLI creates when it resumes a session in a later minute."""
    return Chat(key).begin().data


@pytest.mark.req("TOOL-01", "TOOL-03")
def test_transcripts_are_listed_with_their_projects(tool: GeminiCli, chats: Path, tmp_path: Path) -> None:
    path = everyday().save(chats)
    older = tmp_path / "home" / ".gemini" / "tmp" / project_hash("/work/old") / "chats"
    older.mkdir(parents=True)
    document = {"sessionId": "0ld00000-1", "projectHash": project_hash("/work/old"), "messages": []}
    (older / "session-2026-01-15T10-00-0ld00000.json").write_text(json.dumps(document, indent=2), encoding="utf-8")
    registry = {"projects": {"/work/old": "old"}}
    (tmp_path / "home" / ".gemini" / "projects.json").write_text(json.dumps(registry), encoding="utf-8")
    (chats / "logs.json").write_text("[]", encoding="utf-8")
    (chats / "session-2026-01-01T00-00-ffffffff.jsonl").write_text("not a transcript", encoding="utf-8")

    found = {transcript.key: transcript for transcript in tool.transcripts()}

    # A damaged file with the name of a transcript is listed: reading it reports the damage.
    assert set(found) == {KEY, "0ld00000-1", "session-2026-01-01T00-00-ffffffff"}
    assert (found[KEY].path, found[KEY].project) == (str(path), str(tmp_path / "boats"))
    assert (found[KEY].size, found[KEY].changed) == (path.stat().st_size, path.stat().st_mtime_ns)
    assert found["0ld00000-1"].project == "/work/old"
    boats = {transcript.key for transcript in tool.transcripts(str(tmp_path / "boats"))}
    assert boats == {KEY, "session-2026-01-01T00-00-ffffffff"}
    assert [transcript.key for transcript in tool.transcripts("/work/old")] == ["0ld00000-1"]
    assert list(tool.transcripts("/nowhere")) == []


@pytest.mark.req("TOOL-03")
def test_the_stub_of_a_resumed_session_is_skipped(tool: GeminiCli, chats: Path) -> None:
    path = everyday().save(chats)
    later = chats / f"session-2026-11-15T03-00-{KEY[:8]}.jsonl"
    later.write_bytes(stub())
    os.utime(later, (2e9, 2e9))

    (found,) = tool.transcripts()
    assert found.path == str(path)
    at_stub = tool.transcript_at(str(later))
    assert at_stub is not None and (at_stub.path, at_stub.key) == (str(path), KEY)


def test_an_older_document_continued_as_lines_is_one_session(tool: GeminiCli, chats: Path) -> None:
    path = everyday().save(chats)
    old = path.with_suffix(".json")
    old.write_text(
        json.dumps({"sessionId": KEY, "projectHash": "", "messages": [{"id": "m"}]}, indent=2), encoding="utf-8"
    )

    assert [transcript.path for transcript in tool.transcripts()] == [str(path)]


def test_two_sessions_whose_ids_share_a_prefix_are_both_listed(tool: GeminiCli, chats: Path) -> None:
    everyday().save(chats)
    other = KEY[:8] + "-0000-4000-8000-000000000000"
    (chats / f"session-2026-11-15T04-00-{KEY[:8]}.jsonl").write_bytes(stub(other))

    assert {transcript.key for transcript in tool.transcripts()} == {KEY, other}


@pytest.mark.req("STORE-13")
def test_side_agents_belong_to_their_session(tool: GeminiCli, chats: Path) -> None:
    path = everyday().save(chats)
    agent = Chat("agent-1").begin()
    agent.lines[0] = agent.lines[0].replace(b'"kind":"main"', b'"kind":"subagent"')
    agent.user("look for herons")
    (chats / KEY).mkdir()
    (chats / KEY / "agent-1.jsonl").write_bytes(agent.data)

    (found,) = tool.transcripts()

    assert found.size == path.stat().st_size + len(agent.data)
    assert [message.content for message in tool.read(found) if message.aside] == ["look for herons"]
    assert tool.transcript_at(str(chats / KEY / "agent-1.jsonl")) is None


@pytest.mark.req("TOOL-03")
def test_side_agents_are_copied_and_restored_with_their_session(tool: GeminiCli, chats: Path, tmp_path: Path) -> None:
    path = everyday().save(chats)
    agent = Chat("agent-1").begin()
    agent.user("look for herons")
    (chats / KEY).mkdir()
    (chats / KEY / "agent-1.jsonl").write_bytes(agent.data)
    (transcript,) = tool.transcripts()
    copy = tmp_path / "kept" / "native"

    tool.copy(transcript, str(copy))
    kept = tool.transcript_at(str(copy))
    assert kept is not None and list(tool.read(kept)) == list(tool.read(transcript))
    (chats / KEY / "agent-1.jsonl").unlink()
    path.unlink()
    tool.put_back(str(copy), project=str(tmp_path / "boats"))

    assert (chats / KEY / "agent-1.jsonl").read_bytes() == agent.data


@pytest.mark.req("TOOL-03")
def test_a_copy_elsewhere_is_recognised_by_its_contents(tool: GeminiCli, tmp_path: Path) -> None:
    copy = tmp_path / "native"
    copy.write_bytes(everyday().data)

    found = tool.transcript_at(str(copy))

    assert found is not None and (found.key, found.path) == (KEY, str(copy))
    for data in (b"", b"{}", b'{"sessionId":"x"}', b'{"text":"' + b" " * 900 + b'","sessionId":"a","projectHash":"b"}'):
        copy.write_bytes(data)
        assert tool.transcript_at(str(copy)) is None
    os.mkfifo(tmp_path / "pipe")
    assert tool.transcript_at(str(tmp_path / "pipe")) is None
    assert tool.transcript_at(str(tmp_path)) is None
    assert tool.transcript_at(str(tmp_path / "missing")) is None


@pytest.mark.req("TOOL-03")
@pytest.mark.parametrize("form", ["lines", "document"])
def test_a_session_is_copied_and_restored_byte_for_byte(
    tool: GeminiCli, chats: Path, tmp_path: Path, form: str
) -> None:
    path = everyday().save(chats)
    if form == "document":
        path.unlink()
        path = path.with_suffix(".json")
        value = {
            "sessionId": KEY,
            "projectHash": "",
            "startTime": "2026-11-15T02:10:00.000Z",
            "messages": [{"id": "m"}],
        }
        path.write_text(json.dumps(value, indent=2), encoding="utf-8")
    data = path.read_bytes()
    (transcript,) = tool.transcripts()
    copy = tmp_path / "copy"
    tool.copy(transcript, str(copy))
    assert copy.read_bytes() == data

    project = str(tmp_path / "boats")
    assert tool.put_back(str(copy), project=project) == KEY
    assert len(list(chats.iterdir())) == 1, "nothing was lost, so nothing is written"
    path.unlink()  # as Gemini CLI deletes it
    assert tool.put_back(str(copy), project=project) == KEY

    (again,) = tool.transcripts(project)
    assert (again.key, Path(again.path).read_bytes()) == (KEY, data)
    assert Path(again.path).suffix == path.suffix


def test_a_session_is_restored_beside_its_stub(tool: GeminiCli, chats: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(everyday().data)
    (chats / f"session-2026-11-15T02-00-{KEY[:8]}.jsonl").write_bytes(stub())

    tool.put_back(str(copy), project=str(tmp_path / "boats"))

    (found,) = tool.transcripts()
    assert Path(found.path).read_bytes() == copy.read_bytes()
    assert len(list(chats.iterdir())) == 2


@pytest.mark.req("TOOL-03", "TOOL-08")
def test_a_stub_does_not_take_the_place_of_the_copy(tool: GeminiCli, chats: Path, tmp_path: Path) -> None:
    path = everyday().save(chats)
    capture = Stores(str(tmp_path)).capture()
    (transcript,) = tool.transcripts()
    session = capture.capture(tool, transcript).session_id
    path.unlink()  # as Gemini CLI deletes it
    (chats / f"session-2026-11-15T02-00-{KEY[:8]}.jsonl").write_bytes(stub())
    (left,) = tool.transcripts()
    assert left.key == KEY

    capture.capture(tool, left)

    copies = copies_of(capture.home.store.get(session).path)
    assert [Path(copy).read_bytes() for copy in copies] == [stub(), everyday().data]


@pytest.mark.req("SAFE-03")
def test_a_copy_with_an_unsafe_id_is_refused(tool: GeminiCli, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(Chat("../../../../evil").begin().data)
    with pytest.raises(UnsafePath):
        tool.put_back(str(copy), project=str(tmp_path))
    copy.write_text("something else", encoding="utf-8")
    with pytest.raises(DamagedData):
        tool.put_back(str(copy), project=str(tmp_path))
    assert not (tmp_path / "home").exists()


def test_the_home_folder_can_be_set_by_a_variable(tmp_path: Path) -> None:
    chats = tmp_path / "other" / ".gemini" / "tmp" / "x" / "chats"
    chats.mkdir(parents=True)
    everyday().save(chats)
    environ = {"HOME": str(tmp_path / "home"), "GEMINI_CLI_HOME": str(tmp_path / "other"), "PATH": ""}

    assert len(list(GeminiCli(environ=environ).transcripts())) == 1
    assert list(GeminiCli(str(tmp_path / "third"), environ).transcripts()) == []


def test_the_version_comes_from_the_package_or_the_program(tmp_path: Path) -> None:
    assert GeminiCli(environ={"HOME": str(tmp_path), "PATH": str(tmp_path)}).detect() is None
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho noise\necho 0.61.0\n", encoding="utf-8")
    program.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PATH": f"{program.parent}:/usr/bin:/bin"}

    reported = GeminiCli(environ=environ).detect()
    assert reported is not None and (reported.program, reported.version, reported.tested) == (
        str(program),
        "0.61.0",
        True,
    )

    package = {"name": "@google/gemini-cli", "version": "0.99.0"}
    (program.parent / "package.json").write_text(json.dumps(package), encoding="utf-8")
    os.utime(program, (1, 1))
    packaged = GeminiCli(environ=environ).detect()
    assert packaged is not None and (packaged.version, packaged.tested) == ("0.99.0", False)
