"""After the first turn of a resume, the tool's session is compared with what was handed over."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cortext.config import folders
from cortext.model.first_turn import FirstTurn
from cortext.services.capture import first_turns
from cortext.services.library.stores import Found
from cortext.services.resume.handover import OWN, carry_out, make_plan, take_back
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.support.cli import cortext

KEY = "0f3c9d2e-1111-4222-8333-444455556660"
SAID = [("user", "How many herons?"), ("assistant", "Seventeen."), ("user", "And storks?"), ("assistant", "Three.")]
NEXT = [("user", "And cranes?"), ("assistant", "None.")]


@pytest.fixture
def file(home: Path, tmp_path: Path) -> Path:
    """Return a transcript of Claude Code with four messages, which is imported."""
    path = home / ".claude" / "projects" / re.sub("[^A-Za-z0-9]", "-", str(tmp_path)) / f"{KEY}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(_lines(tmp_path, SAID), encoding="utf-8")
    assert cortext("import", cwd=tmp_path).code == 0
    return path


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
    found = Found(named_store, session)
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


@pytest.mark.req("TRUE-02", "FLOW-03")
def test_a_tool_that_was_not_started_leaves_no_record(file: Path, tmp_path: Path) -> None:
    _hand_over(tmp_path, take_it_back=True)
    assert not any(Path(folders.state(), "handed-over").iterdir())


def test_the_result_says_what_was_seen_and_no_more() -> None:
    result = FirstTurn(tool="codex", key="k", messages=25, held=25, at="2026-11-18T22:00:00Z")
    assert result.sentence("Codex") == "the session in Codex still holds 25 of 25 after the first turn"
    assert not result.is_short
