"""`cortext restore --into`, without the programs: what is put back, when it is written anew, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faces.test_rescue import KEYS, claude_session, gemini_session
from tests.support.cli import cortext

SESSION = f"claude-{KEYS[0]}"


def _restore(folder: Path, *words: str) -> dict[str, Any]:
    done = cortext("restore", "--json", "--into", *words, cwd=folder)
    assert done.code == 0, done.err
    value: dict[str, Any] = done.json
    return value


def _claude_files(home: Path) -> list[Path]:
    return sorted((home / ".claude" / "projects").glob("*/*.jsonl"))


@pytest.mark.req("TOOL-08")
def test_a_deleted_file_comes_back_byte_for_byte_where_the_tool_looks_for_it(home: Path, tmp_path: Path) -> None:
    path = claude_session(home, 0, days_ago=1)
    record = json.loads(path.read_text("utf-8")) | {"cwd": str(tmp_path)}
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    before = path.read_bytes()
    assert cortext("import", cwd=tmp_path).code == 0
    path.unlink()

    planned = _restore(tmp_path, "claude", SESSION, "--dry-run")
    assert _claude_files(home) == []
    done = _restore(tmp_path, "claude", SESSION)
    assert "in its place" in planned["note"] and not done["note"]
    assert (done, done["key"], done["why"]) == (planned | {"note": ""}, KEYS[0], "")
    (found,) = _claude_files(home)
    assert found.read_bytes() == before
    assert found.parent.name == "".join(char if char.isalnum() else "-" for char in str(tmp_path))
    assert _restore(tmp_path, "claude", SESSION)["how"].startswith("nothing to do")
    assert cortext("sync", "--json", cwd=tmp_path).json[0]["messages"] == 0


@pytest.mark.req("TOOL-08")
def test_the_session_of_gemini_cli_is_not_expired_again(home: Path, tmp_path: Path) -> None:
    path = gemini_session(home, 0, days_ago=45, project=str(tmp_path))
    before = path.read_bytes()
    assert cortext("import", cwd=tmp_path).code == 0
    path.unlink()

    session = cortext("list", "--json", cwd=tmp_path).json[0]["id"]
    assert _restore(tmp_path, "gemini", session)["why"] == ""
    assert path.read_bytes().startswith(before)
    assert cortext("rescue", "--dry-run", "--json", cwd=tmp_path).json["endangered"] == []
    assert cortext("sync", "--json", cwd=tmp_path).json[0]["messages"] == 0


@pytest.mark.req("TOOL-08")
def test_a_file_that_its_tool_emptied_is_not_changed_and_comes_back_once_it_is_gone(home: Path, tmp_path: Path) -> None:
    path = claude_session(home, 0, days_ago=1)
    path.write_text(path.read_text("utf-8").replace("/work/pond", str(tmp_path)), encoding="utf-8")
    before = path.read_bytes()
    assert cortext("import", cwd=tmp_path).code == 0
    path.write_bytes(b"")

    assert "a damaged file in its place" in _restore(tmp_path, "claude", SESSION, "--dry-run")["note"]
    done = _restore(tmp_path, "claude", SESSION)
    assert "Claude Code has a file of session" in done["why"] and done["key"] != KEYS[0]
    (written,) = (found for found in _claude_files(home) if found != path)
    assert (path.read_bytes(), b"herons" in written.read_bytes()) == (b"", True)
    written.unlink()
    path.unlink()

    assert _restore(tmp_path, "claude", SESSION)["why"] == ""
    assert [found.read_bytes() for found in _claude_files(home)] == [before]


@pytest.mark.req("TOOL-08")
def test_a_conversation_of_another_tool_is_written_once_and_recognised(home: Path, tmp_path: Path) -> None:
    claude_session(home, 0, days_ago=1)
    assert cortext("import", cwd=tmp_path).code == 0

    done = cortext("restore", "--into", "codex", SESSION, cwd=tmp_path)
    assert "it was not held in Codex" in done.out
    assert "carried    1 of 1 messages" in done.out
    assert _restore(tmp_path, "codex", SESSION)["how"].startswith("nothing to do")
    assert cortext("sync", cwd=tmp_path).code == 0
    assert [row["message_count"] for row in cortext("list", "--json", cwd=tmp_path).json] == [1]


@pytest.mark.req("TOOL-08")
def test_without_a_copy_the_messages_are_written(home: Path, tmp_path: Path) -> None:
    path = claude_session(home, 0, days_ago=1)
    path.write_text(path.read_text("utf-8").replace("/work/pond", str(tmp_path)), encoding="utf-8")
    assert cortext("import", cwd=tmp_path).code == 0
    path.unlink()
    for copy in home.glob(f".local/share/cortext/home/**/{SESSION}/.session/native"):
        copy.unlink()

    done = _restore(tmp_path, "claude", SESSION)
    assert done["why"] == "there is no copy of the tool's own file"
    (found,) = _claude_files(home)
    assert found.stem == done["key"] != KEYS[0]


@pytest.mark.req("TOOL-08")
def test_if_its_folder_is_gone_a_session_of_this_folder_is_written(home: Path, tmp_path: Path) -> None:
    claude_session(home, 0, days_ago=1).rename(home / "elsewhere.jsonl")
    assert cortext("import", str(home / "elsewhere.jsonl"), cwd=tmp_path).code == 0

    done = _restore(tmp_path, "claude", SESSION)
    assert (done["why"], done["project"]) == ("it was held in /work/pond", str(tmp_path))
    assert "does not exist" in done["note"]


@pytest.mark.req("TOOL-08")
def test_what_cannot_be_put_back_is_refused(home: Path, tmp_path: Path) -> None:
    nameless = cortext("restore", "--into", "claude", cwd=tmp_path)
    assert (nameless.code, "needs a conversation" in nameless.err) == (2, True)
    assert cortext("restore", "--into", "claude", "nobody", cwd=tmp_path).code == 1
    assert cortext("restore", "--into", "nothing", "014", cwd=tmp_path).code == 2
    assert cortext("init", "--ai", "claude", cwd=tmp_path).code == 0
    assert cortext("new", "plan", "Herons", cwd=tmp_path).code == 0
    empty = cortext("restore", "--into", "claude", "001", cwd=tmp_path)
    assert (empty.code, "has no messages" in empty.err) == (2, True)
