"""After the first turn of a resume, the tool's session is compared with what was handed over."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from cortext.config import folders
from cortext.model import clock
from cortext.model.session import FirstTurn
from cortext.services.capture import first_turns
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.handover import carry_out, take_back
from cortext.services.resume.planning import OWN, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.support.cli import cortext

KEY = "0f3c9d2e-1111-4222-8333-444455556660"
SAID = [("user", "How many herons?"), ("assistant", "Seventeen."), ("user", "And storks?"), ("assistant", "Three.")]
NEXT = [("user", "And cranes?"), ("assistant", "None.")]
_FIRST = "the first line"


@pytest.fixture
def file(home: Path, tmp_path: Path) -> Path:
    """Return a transcript of Claude Code with four messages, which is imported."""
    path = home / ".claude" / "projects" / re.sub("[^A-Za-z0-9]", "-", str(tmp_path)) / f"{KEY}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(_lines(tmp_path, SAID), encoding="utf-8")
    assert cortext("import", cwd=tmp_path).code == 0
    return path


def _leave(file: Path, left: str | None, *, is_old: bool = True) -> None:
    """Leave this of the transcript, None: not even the file; a while ago, or just now."""
    if left is None:
        file.unlink()
    else:
        text = file.read_text(encoding="utf-8").splitlines(keepends=True)[0] if left == _FIRST else left
        file.write_text(text, encoding="utf-8")
    if is_old:
        _set_back(file if left is not None else file.parent)


def _set_back(path: Path) -> None:
    moment = time.time() - 60
    os.utime(path, (moment, moment))


def _lines(project: Path, said: list[tuple[str, str]], start: int = 0) -> str:
    lines = []
    for number, (role, text) in enumerate(said, start):
        content = text if role == "user" else [{"type": "text", "text": text}]
        record = {"type": role, "uuid": f"m{number}", "parentUuid": f"m{number - 1}" if number > start else None}
        where = {"sessionId": KEY, "cwd": str(project), "timestamp": f"2026-08-01T10:00:{number:02}.000Z"}
        message = {"role": role, "content": content, "id": f"a{number}", "model": "m"}
        lines.append(json.dumps({**record, **where, "message": message}) + "\n")
    return "".join(lines)


def _hand_over(project: Path, *, rewrite: bool = False, take_it_back: bool = False) -> str:
    """Resume the conversation in Claude Code; return the id of the session there."""
    stores, tool = Stores(str(project)), tools.native_writer("claude")
    named_store = stores.home_store()
    (session,) = named_store.store.sessions()
    found = StoredConversation(named_store, session)
    plan = make_plan(found, tool, project=str(project), rewrite=rewrite)
    assert rewrite or plan.how == OWN
    capture = stores.capture()
    carry_out(plan, found, tool, capture)
    if take_it_back:
        take_back(plan, tool, capture)
    return plan.key


def _checked(project: Path) -> dict[str, object] | None:
    shown: dict[str, object] | None = cortext("show", "1", "--json", cwd=project).json.get("first_turn")
    return shown


@pytest.mark.req("TRUE-02")
def test_a_session_that_is_still_whole_is_marked_as_checked(file: Path, tmp_path: Path) -> None:
    _hand_over(tmp_path)
    assert Path(first_turns.copy_of("claude", KEY)).read_bytes() == file.read_bytes()
    assert cortext("sync", cwd=tmp_path).code == 0
    assert _checked(tmp_path) is None, "nothing was said yet"
    file.write_text(_lines(tmp_path, [*SAID, *NEXT]), encoding="utf-8")
    assert cortext("sync", cwd=tmp_path).code == 0
    checked = _checked(tmp_path)
    assert checked is not None and (checked["tool"], checked["messages"], checked["held"]) == ("claude", 4, 4)
    assert "still holds 4 of 4 after the first turn" in cortext("show", "1", cwd=tmp_path).out
    assert cortext("doctor", cwd=tmp_path).code == 0
    assert not any(Path(folders.state(), "handed-over").iterdir()), "the copy is not needed any more"


@pytest.mark.req("TRUE-02", "FLOW-03")
def test_a_session_that_was_shortened_is_told_until_it_is_put_back(file: Path, tmp_path: Path) -> None:
    _hand_over(tmp_path)
    before = file.read_bytes()
    file.write_text(_lines(tmp_path, NEXT, start=8), encoding="utf-8")
    told = "the session in Claude Code held only 0 of 4 after the first turn"
    synced = cortext("sync", cwd=tmp_path)
    assert told in synced.err and f"cortext restore claude-{KEY} --into claude" in synced.err
    assert Path(first_turns.copy_of("claude", KEY)).read_bytes() == before
    assert told in cortext("list", cwd=tmp_path).err
    assert told in cortext("show", "1", cwd=tmp_path).out
    doctor = cortext("doctor", cwd=tmp_path)
    assert doctor.code == 3 and told in " ".join(doctor.out.split())

    short = file.read_bytes()
    assert cortext("restore", f"claude-{KEY}", "--into", "claude", cwd=tmp_path).code == 0
    (written,) = (path for path in file.parents[1].rglob("*.jsonl") if path != file)
    assert all(text in written.read_text(encoding="utf-8") for _, text in SAID)
    assert file.read_bytes() == short, "the file of the tool is not changed"
    assert told not in cortext("list", cwd=tmp_path).err
    assert cortext("doctor", cwd=tmp_path).code == 0


@pytest.mark.req("TRUE-02")
def test_a_hook_shows_at_once_that_the_session_was_shortened(file: Path, tmp_path: Path) -> None:
    key = _hand_over(tmp_path, rewrite=True)
    (written,) = (path for path in file.parents[1].rglob("*.jsonl") if path.stem == key)
    lines = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    written.write_text(_lines(tmp_path, NEXT, start=8).replace(KEY, key), encoding="utf-8")
    event = {"hook_event_name": "Stop", "session_id": key, "transcript_path": str(written), "cwd": str(tmp_path)}
    answered = cortext("hook", "claude", cwd=tmp_path, stdin=json.dumps(event))
    assert len(lines) >= 4
    assert "held only 0 of 4" in json.loads(answered.out)["systemMessage"]


@pytest.mark.req("TRUE-02")
def test_a_compaction_or_a_rewind_is_no_loss(file: Path, tmp_path: Path) -> None:
    _hand_over(tmp_path)
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "c", "sessionId": KEY, "cwd": str(tmp_path)}
    rest = json.dumps({**boundary, "parentUuid": None, "timestamp": "2026-08-01T10:01:00.000Z"}) + "\n"
    rest += _lines(tmp_path, NEXT, start=8)  # its first message follows none, as after going back to the beginning
    file.write_text(_lines(tmp_path, SAID) + rest, encoding="utf-8")
    assert cortext("sync", cwd=tmp_path).err == ""
    checked = _checked(tmp_path)
    assert checked is not None and (checked["messages"], checked["held"]) == (4, 4)


@pytest.mark.req("TRUE-02")
def test_a_loss_beside_a_damaged_line_is_told(file: Path, tmp_path: Path) -> None:
    _hand_over(tmp_path)
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text(lines[0] + '{"type":"user","mess\n' + _lines(tmp_path, NEXT, start=8), encoding="utf-8")
    assert "held only 1 of 4 after the first turn" in cortext("sync", cwd=tmp_path).err


@pytest.mark.req("TRUE-02")
def test_a_whole_session_with_a_damaged_line_is_not_marked_as_checked(file: Path, tmp_path: Path) -> None:
    _hand_over(tmp_path)
    file.write_text(_lines(tmp_path, SAID) + "{\n" + _lines(tmp_path, NEXT, start=4), encoding="utf-8")
    assert "held only" not in cortext("sync", cwd=tmp_path).err
    assert _checked(tmp_path) is None


@pytest.mark.req("TRUE-02", "FLOW-03")
@pytest.mark.parametrize("left", ["", _FIRST, None], ids=["empty", "shorter", "gone"])
@pytest.mark.parametrize("command", ["sync", "list", "doctor"])
def test_a_loss_without_an_answer_is_told(file: Path, tmp_path: Path, command: str, left: str | None) -> None:
    _hand_over(tmp_path)
    _leave(file, left)
    told = f"held only {int(left == _FIRST)} of 4 when it had been opened, and nothing in it says why"
    done = cortext(command, cwd=tmp_path)
    assert (
        told in " ".join((done.out + done.err).split()) and f"restore claude-{KEY} --into claude" in done.out + done.err
    )
    assert cortext("sync", cwd=tmp_path).code == 0
    checked = _checked(tmp_path)
    assert checked is not None and checked["answered"] is False

    restored = cortext("restore", f"claude-{KEY}", "--into", "claude", "--json", cwd=tmp_path)
    assert restored.code == 0, restored.err
    (written,) = file.parents[1].rglob(f"{restored.json['key']}.jsonl")
    assert all(text in written.read_text(encoding="utf-8") for _, text in SAID)
    assert cortext("doctor", cwd=tmp_path).code == 0


@pytest.mark.req("TRUE-02")
@pytest.mark.parametrize("left", ["", _FIRST, None], ids=["empty", "shorter", "gone"])
def test_a_session_that_is_being_written_is_not_judged_yet(file: Path, tmp_path: Path, left: str | None) -> None:
    _hand_over(tmp_path)
    before = file.read_text(encoding="utf-8")
    _leave(file, left, is_old=False)
    assert "held only" not in cortext("sync", cwd=tmp_path).err
    file.write_text(before, encoding="utf-8")
    _set_back(file)
    assert "held only" not in cortext("sync", cwd=tmp_path).err + cortext("list", cwd=tmp_path).err


@pytest.mark.req("TRUE-02")
def test_a_smaller_file_with_the_same_messages_is_no_loss(file: Path, tmp_path: Path) -> None:
    _hand_over(tmp_path)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    kept = [{name: value for name, value in line.items() if name != "cwd"} for line in lines]
    before = file.stat().st_size
    _leave(file, "".join(json.dumps(line) + "\n" for line in kept))
    assert file.stat().st_size < before
    assert "held only" not in cortext("sync", cwd=tmp_path).err + cortext("list", cwd=tmp_path).err


@pytest.mark.req("TRUE-02")
def test_a_session_that_nobody_continued_may_be_deleted_later(file: Path, tmp_path: Path) -> None:
    """Claude Code deletes what is older than a month."""
    _hand_over(tmp_path)
    _leave(file, None)
    (path,) = Path(folders.state(), "handed-over").glob("*/record.json")
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps({**record, "at": clock.from_epoch(time.time() - 100_000)}), encoding="utf-8")
    assert "held only" not in cortext("sync", cwd=tmp_path).err + cortext("list", cwd=tmp_path).err


@pytest.mark.req("TRUE-02")
@pytest.mark.parametrize(("text", "held"), [("Three. Or four.", 4), ("[gone]", 3)], ids=["continued", "replaced"])
def test_only_a_continued_last_message_counts_as_held(file: Path, tmp_path: Path, text: str, held: int) -> None:
    _hand_over(tmp_path)
    file.write_text(_lines(tmp_path, [*SAID[:3], ("assistant", text), *NEXT]), encoding="utf-8")
    assert (f"held only {held} of 4" in cortext("sync", cwd=tmp_path).err) == (held < 4)
    checked = _checked(tmp_path)
    assert checked is not None and checked["held"] == held


@pytest.mark.req("TRUE-02", "FLOW-03")
def test_a_tool_that_was_not_started_leaves_no_record(file: Path, tmp_path: Path) -> None:
    _hand_over(tmp_path, take_it_back=True)
    assert not any(Path(folders.state(), "handed-over").iterdir())


def test_the_result_says_what_was_seen_and_no_more() -> None:
    result = FirstTurn(tool="codex", key="k", messages=25, held=25, at="2026-11-18T22:00:00Z")
    assert result.sentence("Codex") == "the session in Codex still holds 25 of 25 after the first turn"
    assert not result.is_short
