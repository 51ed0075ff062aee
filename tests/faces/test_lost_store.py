"""A removed home store, or another one, gets again what the tools still have; what was deleted does not come back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faces.test_rescue import KEYS, claude_session
from tests.support.cli import cortext

SESSION = f"claude-{KEYS[0]}"


def _imported(folder: Path, env: dict[str, str] | None = None) -> list[str]:
    """Import, and return the ids of all sessions."""
    assert cortext("import", cwd=folder, env=env).code == 0
    return [session["id"] for session in cortext("list", "--json", cwd=folder, env=env).json]


@pytest.mark.req("STORE-01")
def test_a_removed_home_store_is_filled_again(home: Path, tmp_path: Path) -> None:
    claude_session(home, 0, days_ago=1)
    assert _imported(tmp_path) == [SESSION]
    shutil.rmtree(home / ".local" / "share" / "cortext")  # the cache still knows what was in it
    assert _imported(tmp_path) == [SESSION]
    assert cortext("import", "--json", cwd=tmp_path).json[0]["unchanged"] == 1


@pytest.mark.req("STORE-01")
def test_another_data_folder_gets_everything(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claude_session(home, 0, days_ago=1)
    assert _imported(tmp_path) == [SESSION]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert _imported(tmp_path) == [SESSION]
    monkeypatch.delenv("XDG_DATA_HOME")
    assert _imported(tmp_path) == [SESSION]


@pytest.mark.req("STORE-01")
def test_a_deleted_session_is_not_imported_again(home: Path, tmp_path: Path) -> None:
    claude_session(home, 0, days_ago=1)
    assert _imported(tmp_path) == [SESSION]
    assert cortext("delete", SESSION, cwd=tmp_path).code == 0
    assert _imported(tmp_path) == []
