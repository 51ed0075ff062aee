"""What Claude Code and Gemini CLI delete by their settings, and the warnings and the rescue before they do."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from cortext.services.capture.rescue import Rescue
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.wiring.stores import Stores
from tests.support.cli import SCRIPTS, cortext
from tests.support.screen import ShellScreen

DAY = 86_400.0
KEYS = [f"0f3c9d2e-1111-4222-8333-44445555666{number}" for number in range(8)]


def claude_session(home: Path, number: int, days_ago: float, text: str = "How many herons are there?") -> Path:
    """Write a transcript of Claude Code that was last changed so many days ago."""
    path = home / ".claude" / "projects" / "-work-pond" / f"{KEYS[number]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "type": "user",
        "uuid": f"u{number}",
        "parentUuid": None,
        "sessionId": KEYS[number],
        "cwd": "/work/pond",
        "timestamp": "2026-08-01T10:00:00.000Z",
        "message": {"role": "user", "content": text},
    }
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    os.utime(path, (time.time() - days_ago * DAY,) * 2)
    return path


def gemini_session(home: Path, number: int, days_ago: float, project: str = "/work/pond") -> Path:
    """Write a session of Gemini CLI that was last updated so many days ago, though its file is new."""
    folder = home / ".gemini" / "tmp" / "pond"
    path = folder / "chats" / f"session-2026-08-01T10-00-{KEYS[number][:7]}{number}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / ".project_root").write_text(project, encoding="utf-8")
    updated = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - days_ago * DAY))
    head = {"sessionId": f"{KEYS[number][:7]}{number}-1111-4222-8333-444455556666", "projectHash": "0" * 64}
    lines: list[dict[str, Any]] = [
        {**head, "startTime": "2026-08-01T10:00:00.000Z", "lastUpdated": "2026-08-01T10:00:00.000Z", "kind": "main"},
        {"id": "m1", "timestamp": updated, "type": "user", "content": [{"text": "How many herons are there?"}]},
        {"$set": {"lastUpdated": updated}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def settings(home: Path, tool: str, value: Any) -> Path:
    path = home / f".{tool}" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


# ── which conversations, and when ────────────────────────────────────────────────────────────────────


def _days(tool: ClaudeCode | GeminiCli) -> list[float]:
    """Return in how many days each conversation is deleted, the next first."""
    purge = tool.purge()
    return sorted(round((when - time.time()) / DAY, 1) for _, when in purge.due) if purge else []


@pytest.mark.req("TOOL-08")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, 20.0),
        ({"cleanupPeriodDays": 60}, 50.0),
        ({"cleanupPeriodDays": 3650}, None),
        ({"cleanupPeriodDays": 60.0}, 50.0),
        ({"cleanupPeriodDays": 60.5}, None),
        ({"cleanupPeriodDays": "60"}, None),
        ({"cleanupPeriodDays": True}, None),
        ({"cleanupPeriodDays": -1}, None),
        ({"cleanupPeriodDays": 0}, None),
    ],
)
def test_claude_code_deletes_by_the_time_of_the_file(home: Path, value: Any, expected: float | None) -> None:
    claude_session(home, 0, days_ago=10)
    settings(home, "claude", value)

    assert _days(ClaudeCode(str(home))) == ([expected] if expected else [])


@pytest.mark.req("TOOL-08")
@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        ({}, [10.0, 20.0]),
        ({"maxAge": "12d"}, [-8.0, 2.0]),
        ({"maxAge": "3w"}, [1.0, 11.0]),
        ({"maxAge": "1h"}, []),
        ({"maxAge": "soon"}, []),
        ({"enabled": False}, []),
    ],
)
def test_gemini_cli_deletes_by_the_time_that_the_session_names(
    home: Path, retention: Any, expected: list[float]
) -> None:
    gemini_session(home, 0, days_ago=10)
    gemini_session(home, 1, days_ago=20)
    settings(home, "gemini", {"general": {"sessionRetention": retention}})

    assert _days(GeminiCli(str(home))) == expected


@pytest.mark.req("TOOL-08")
def test_the_settings_of_a_project_and_a_count_of_sessions_are_respected(home: Path, tmp_path: Path) -> None:
    for number in range(3):
        gemini_session(home, number, days_ago=number + 1, project=str(tmp_path))
    settings(home, "gemini", {"general": {"sessionRetention": {"enabled": False}}})
    settings(tmp_path, "gemini", {"general": {"sessionRetention": {"enabled": True, "maxCount": 2}}})

    purge = GeminiCli(str(home)).purge()
    assert purge is not None
    assert sorted(when > time.time() for _, when in purge.due) == [False, True, True]


@pytest.mark.req("TOOL-08")
def test_managed_settings_win_and_are_not_said_to_be_changed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude_session(home, 0, days_ago=10)
    settings(home, "claude", {"cleanupPeriodDays": 3650})
    more = tmp_path / "etc" / "managed-settings.d"
    more.mkdir(parents=True)
    monkeypatch.setattr("cortext.tools.claude_code.settings.MANAGED", str(tmp_path / "etc"))
    (tmp_path / "etc" / "managed-settings.json").write_text('{"cleanupPeriodDays": 60}')
    assert _days(ClaudeCode(str(home))) == [50.0]
    (more / "10-shorter.json").write_text('{"cleanupPeriodDays": 12}')
    assert _days(ClaudeCode(str(home))) == [2.0]

    rescue = Rescue(Stores(str(tmp_path)).capture, [ClaudeCode(str(home))])
    (found,) = rescue.warnings
    assert found.is_managed and "(cleanupPeriodDays is 12 in the managed settings)" in found.text


@pytest.mark.req("TOOL-08")
def test_doctor_warns_if_nothing_may_be_written_at_all(home: Path, tmp_path: Path) -> None:
    claude_session(home, 0, days_ago=10)
    settings(home, "claude", {"cleanupPeriodDays": 0})

    assert "cleanupPeriodDays is 0: older versions write no transcript" in cortext("doctor", cwd=tmp_path).out


# ── warnings and rescue ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-08")
def test_doctor_and_tools_warn_before_anything_is_stored(home: Path, tmp_path: Path) -> None:
    for number, age in enumerate((21.5, 24.0, 45.0, 2.0)):
        claude_session(home, number, age)

    warning = (
        "Claude Code will delete 3 conversations within 9 days, 1 of them at its next start (cleanupPeriodDays is 30)"
    )
    doctor = cortext("doctor", cwd=tmp_path)
    assert warning in doctor.out
    assert "cortext rescue" in doctor.out
    assert warning in cortext("tools", cwd=tmp_path).out
    row = next(row for row in cortext("tools", "--json", cwd=tmp_path).json if row["name"] == "claude")
    assert (row["endangered"]["conversations"], row["endangered"]["days"]) == (3, 9)
    assert (
        next(row for row in cortext("tools", "--json", cwd=tmp_path).json if row["name"] == "codex")["endangered"]
        is None
    )


@pytest.mark.req("TOOL-08")
def test_only_what_is_not_kept_or_has_grown_is_counted(home: Path, tmp_path: Path) -> None:
    old = claude_session(home, 0, days_ago=45)
    claude_session(home, 1, days_ago=44)
    empty = home / ".claude" / "projects" / "-work-pond" / f"{KEYS[2]}.jsonl"
    empty.write_text(json.dumps({"type": "summary", "summary": "Herons", "leafUuid": "x"}) + "\n", encoding="utf-8")
    os.utime(empty, (0, 0))
    assert cortext("rescue", "--dry-run", "--json", cwd=tmp_path).json["endangered"][0]["conversations"] == 2

    assert cortext("import", cwd=tmp_path).code == 0
    assert "No conversation is about to be deleted" in cortext("rescue", "--dry-run", cwd=tmp_path).out

    record = json.loads(old.read_text(encoding="utf-8"))
    record |= {"uuid": "later", "parentUuid": "u0", "message": {"role": "user", "content": "And storks?"}}
    with old.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    os.utime(old, (time.time() - 45 * DAY,) * 2)
    assert "will delete 1 conversation at its next start" in cortext("rescue", "--dry-run", cwd=tmp_path).out


@pytest.mark.req("TOOL-08")
@pytest.mark.parametrize(
    "text", ["", "{}", '{\n\t"cleanupPeriodDays" : 14 ,\n\t"theme":"dark"}', '{"a": [1,\r\n2]}\r\n']
)
def test_rescue_imports_raises_and_undoes_byte_for_byte(home: Path, tmp_path: Path, text: str) -> None:
    claude_session(home, 0, days_ago=45)
    gemini_session(home, 1, days_ago=45)
    path = home / ".claude" / "settings.json"
    if text:
        path.write_bytes(text.encode())
    before = sorted(home.glob(".*/*.json"))

    done = cortext("rescue", "--yes", cwd=tmp_path)
    assert done.code == 0, done.err
    assert json.loads(path.read_text(encoding="utf-8"))["cleanupPeriodDays"] == 3650
    gemini = json.loads((home / ".gemini" / "settings.json").read_text(encoding="utf-8"))
    assert gemini["general"]["sessionRetention"]["enabled"] is False
    assert len(cortext("list", "--json", cwd=tmp_path).json) == 2
    again = cortext("rescue", "--yes", "--json", cwd=tmp_path).json
    assert (again["endangered"], again["settings"]) == ([], [])

    undone = cortext("rescue", "--undo", cwd=tmp_path)
    assert f"Restored {path}." in undone.out
    assert (path.read_bytes().decode() if path.exists() else "") == text
    assert sorted(home.glob(".*/*.json")) == before
    assert "Nothing to undo" in cortext("rescue", "--undo", cwd=tmp_path).out


@pytest.mark.req("TOOL-08")
def test_a_value_that_the_user_changed_since_is_not_undone(home: Path, tmp_path: Path) -> None:
    claude_session(home, 0, days_ago=45)
    path = settings(home, "claude", {"cleanupPeriodDays": 14})
    assert cortext("rescue", "--yes", cwd=tmp_path).code == 0
    path.write_text('{"cleanupPeriodDays": 90}', encoding="utf-8")

    assert cortext("rescue", "--undo", cwd=tmp_path).code == 0
    assert path.read_text(encoding="utf-8") == '{"cleanupPeriodDays": 90}'


@pytest.mark.req("TOOL-08")
def test_a_broken_settings_file_does_not_prevent_the_import(home: Path, tmp_path: Path) -> None:
    claude_session(home, 0, days_ago=45)
    path = settings(home, "claude", "{broken")

    done = cortext("rescue", "--yes", cwd=tmp_path)
    assert "settings.json cannot be used" in done.err
    assert path.read_text(encoding="utf-8") == "{broken"
    assert len(cortext("list", "--json", cwd=tmp_path).json) == 1


@pytest.mark.req("TOOL-08")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_without_a_terminal_all_is_kept_and_no_setting_raised(
    home: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    claude_session(home, 0, days_ago=45)
    path = settings(home, "claude", {"theme": "dark"})
    before = path.read_bytes()

    planned = cortext("rescue", "--dry-run", *options, cwd=tmp_path)
    assert planned.code == 0 and cortext("list", "--json", cwd=tmp_path).json == []
    done = cortext("rescue", *options, cwd=tmp_path)

    assert done.code == 0, done.err
    assert len(cortext("list", "--json", cwd=tmp_path).json) == 1
    assert path.read_bytes() == before and not list(path.parent.glob("settings.json.*"))
    assert done.json["settings_unchanged"] is True if options else "pass --yes to raise it" in done.out


@pytest.mark.req("TOOL-08")
@pytest.mark.parametrize("command", ["rescue", "doctor"])
def test_only_a_setting_needs_a_yes_and_doctor_asks_before_both(home: Path, tmp_path: Path, command: str) -> None:
    claude_session(home, 0, days_ago=45)

    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    with ShellScreen(tmp_path, [str(SCRIPTS / "cortext"), command], env, tmp_path, "160x40") as screen:
        if command == "doctor":
            screen.wait_for("Import it now? [Y/n]")
            screen.press("Enter")
        screen.wait_for("so that Claude Code deletes nothing? [y/N]")
        screen.press("Enter")
        assert screen.wait_for_end() == 0
    assert len(cortext("list", "--json", cwd=tmp_path).json) == 1
    assert not (home / ".claude" / "settings.json").exists()
