"""A number is assigned once: also after a delete, with an emptied trash, and on another clone."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cli import cortext, git

pytestmark = pytest.mark.req("FLOW-04")
NAMES = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Test"), ("EMAIL", "test@localhost"))
}


def _new(folder: Path, topic: str) -> str:
    done = cortext("new", "plan", topic, "--json", cwd=folder, env=NAMES)
    assert done.code == 0, done.err
    return str(done.json["id"])


def _workspace(folder: Path) -> Path:
    done = cortext("init", str(folder), "--ai", "claude", env=NAMES)
    assert done.code == 0, done.err
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a workspace")
    return folder


def test_a_deleted_number_is_never_reused_here_or_in_another_clone(tmp_path: Path) -> None:
    here = _workspace(tmp_path / "here")
    assert [_new(here, "One"), _new(here, "Two")] == ["001-plan-one", "002-plan-two"]
    assert cortext("delete", "002", cwd=here, env=NAMES).code == 0
    assert _new(here, "Three") == "003-plan-three"
    assert cortext("delete", "003", cwd=here, env=NAMES).code == 0
    shutil.rmtree(here / ".workspace" / "state" / "trash")
    assert _new(here, "Four") == "004-plan-four"
    assert cortext("fork", "001", cwd=here).code == 1, "it has no messages"

    # 004 is committed and then deleted: another clone can find it only in the history.
    assert cortext("stop", "004", cwd=here, env=NAMES).code == 0
    there = tmp_path / "there"
    git(tmp_path, "clone", "-q", str(here), str(there))
    assert cortext("delete", "004", cwd=here, env=NAMES).code == 0
    git(here, "commit", "-qam", "delete 004")
    fresh = tmp_path / "fresh"
    git(tmp_path, "clone", "-q", str(here), str(fresh))
    assert not list(fresh.glob("conversations/*/004-*"))
    assert _new(fresh, "Five") == "005-plan-five"

    # A clone that has assigned numbers already takes into account what a pull brought.
    assert _new(there, "Five") == "005-plan-five"
    assert _new(here, "Six") == "005-plan-six"
    assert cortext("stop", "005", cwd=here, env=NAMES).code == 0
    assert _new(here, "Seven") == "006-plan-seven"
    assert cortext("stop", "006", cwd=here, env=NAMES).code == 0
    assert cortext("delete", "006", cwd=here, env=NAMES).code == 0
    git(here, "commit", "-qam", "delete 006")
    git(there, "pull", "-q", "--no-rebase", "--no-edit")
    assert _new(there, "Eight") == "007-plan-eight"


def test_conversations_created_at_once_get_different_numbers(tmp_path: Path) -> None:
    here = _workspace(tmp_path / "here")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda topic: _new(here, f"Topic {topic}"), "abcd"))
    assert sorted(name[:3] for name in made) == ["001", "002", "003", "004"]


def test_a_folder_named_by_a_date_does_not_count(tmp_path: Path) -> None:
    here = _workspace(tmp_path / "here")
    (here / "conversations" / "2026-11-16" / "20261116-notes").mkdir(parents=True)
    assert _new(here, "One") == "001-plan-one"
