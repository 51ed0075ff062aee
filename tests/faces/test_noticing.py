"""The next query notices what another program changed, however many sessions there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.index.refresh import FEW
from cortext.store.files.workspace import WorkspaceStore
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext


def session(work: Path, number: int) -> Path:
    """Write a conversation as another program would; return the path of its log."""
    folder = work / "conversations" / f"2026-01-{number % 28 + 1:02d}" / f"{number:03d}-brainstorm-topic" / ".session"
    folder.mkdir(parents=True)
    when = f"2026-01-{number % 28 + 1:02d}T10:00:00.000Z"
    fields = {"version": "1.0", "conversation_id": folder.parent.name, "conversation_type": "brainstorm"}
    fields |= {"title": f"Topic {number}", "status": "paused", "created_at": when, "last_active": when}
    (folder / "session.json").write_text(json.dumps(fields))
    log = folder / "messages.jsonl"
    log.write_text(line(f"words of {number}", when, 0))
    return log


def line(words: str, when: str, number: int) -> str:
    fields = {"role": "user", "content": words, "timestamp": when, "tokens": 3, "id": f"m{number}", "seq": number}
    return json.dumps(fields) + "\n"


@pytest.mark.req("FLOW-08", "FIND-03")
def test_a_line_appended_by_another_program_is_found_at_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".workspace").mkdir(parents=True)
    logs = [session(work, number) for number in range(1, FEW + 21)]
    env = {"HOME": str(tmp_path)}
    before = cortext("list", "--json", cwd=work, env=env)
    assert before.code == 0 and len(before.json) == len(logs), before.err
    oldest = min(before.json, key=lambda row: row["last_active"])
    log = Path(oldest["path"]) / ".session" / "messages.jsonl"
    with log.open("a", encoding="utf-8") as file:
        file.write(line("the quincunx of oaks", "2026-01-02T11:00:00.000Z", 1))
    rows = {row["id"]: row for row in cortext("list", "--json", cwd=work, env=env).json}
    assert rows[oldest["id"]]["message_count"] == 2
    with log.open("a", encoding="utf-8") as file:
        file.write(line("a murmuration over it", "2026-01-02T11:01:00.000Z", 2))
    found = cortext("search", "murmuration", "--json", cwd=work, env=env)
    assert found.code == 0 and oldest["id"] in found.out, found.out + found.err


@pytest.mark.req("FLOW-08", "FIND-03")
def test_a_title_and_status_changed_by_another_program_are_shown(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".workspace").mkdir(parents=True)
    for number in range(1, FEW + 51):
        session(work, number)
    env = {"HOME": str(tmp_path)}
    before = cortext("list", "--json", cwd=work, env=env)
    assert before.code == 0 and len(before.json) == FEW + 50, before.err
    oldest = min(before.json, key=lambda row: row["last_active"])
    file = Path(oldest["path"]) / ".session" / "session.json"
    fields = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(fields | {"title": "The quincunx", "status": "completed"}), encoding="utf-8")  # in place
    rows = {row["id"]: row for row in cortext("list", "--json", cwd=work, env=env).json}
    assert (rows[oldest["id"]]["title"], rows[oldest["id"]]["status"]) == ("The quincunx", "completed")
    replaced = file.with_name("session.json.new")
    replaced.write_text(json.dumps(fields | {"title": "A murmuration"}), encoding="utf-8")
    replaced.rename(file)  # as most editors do
    found = cortext("search", "murmuration", "--exact", "--json", cwd=work, env=env)
    assert found.code == 0 and oldest["id"] in found.out, found.out + found.err
    assert not cortext("search", "quincunx", "--exact", "--json", cwd=work, env=env).json


@pytest.mark.req("FLOW-08", "FIND-03")
def test_a_session_added_to_a_plain_folder_is_found_at_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".workspace").mkdir(parents=True)
    for number in range(1, FEW + 21):
        session(work, number)
    plain = work / "conversations" / "2026-01-05" / "900-brainstorm-plain"
    plain.mkdir()
    (plain / "brainstorm.md").write_text("# Only notes, so far\n", encoding="utf-8")
    env = {"HOME": str(tmp_path)}

    def listed() -> set[str]:
        done = cortext("list", "--json", cwd=work, env=env)
        assert done.code == 0, done.err
        return {row["id"] for row in done.json}

    assert len(listed()) == FEW + 20
    made = session(work, 901).parent  # written elsewhere, then moved into place
    made.rename(plain / ".session")
    made.parent.rmdir()
    assert plain.name in listed()
    # Moved out and back: only the folder itself shows the change.
    (plain / ".session").rename(tmp_path / "aside")
    assert plain.name not in listed()
    (tmp_path / "aside").rename(plain / ".session")
    assert plain.name in listed()
    # Written in place, file by file, with a list in between.
    other = work / "conversations" / "2026-01-06" / "902-brainstorm-slow"
    other.mkdir()
    assert other.name not in listed()
    (other / ".session").mkdir()
    assert other.name not in listed()
    (other / ".session" / "messages.jsonl").write_text(line("slowly", "2026-01-06T10:00:00Z", 0), encoding="utf-8")
    assert other.name in listed()


@pytest.mark.req("FLOW-01", "FLOW-08")
def test_a_resume_carries_what_a_killed_tool_wrote_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed program runs no hook: only its transcript has the last messages."""
    work = committed_workspace(tmp_path / "work", monkeypatch)
    talk = ClaudeTalk(work)
    talk.prompt("/workspace.brainstorm Herons at the pond")
    talk.answer("How many are there?")
    talk.write("I counted seven herons.", "Seven is a colony.")
    printed = cortext("resume", "001", "--print", cwd=work)
    assert "I counted seven herons." in printed.out and "Seven is a colony." in printed.out

    talk.write("Two flew away.", "Five are left.")
    planned = cortext("resume", "001", "--dry-run", cwd=work)
    assert "its own session, as it is" in planned.out and "6 of 6 messages" in planned.out, planned.out

    talk.write("One came back.", "Then there are six.")
    answer = ClaudeTalk(work).resume("001")
    assert "Then there are six." in answer


@pytest.mark.req("FLOW-03", "FLOW-08")
def test_a_resume_says_if_the_last_messages_could_not_be_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = committed_workspace(tmp_path / "work", monkeypatch)
    talk = ClaudeTalk(work)
    talk.prompt("/workspace.brainstorm Herons at the pond")
    talk.answer("How many are there?")
    talk.write("I counted seven herons.", "Seven is a colony.")
    (log,) = work.glob("conversations/*/*/.session/messages.jsonl")
    with WorkspaceStore(str(work)).open(log.parent.parent.name):
        printed = cortext("resume", "001", "--print", cwd=work, env={"CORTEXT_STORE_LOCK_TIMEOUT": "0.1"})
    assert printed.code == 0 and "How many are there?" in printed.out, printed.err
    assert "seven herons" not in printed.out and "the latest messages may be missing" in printed.err
