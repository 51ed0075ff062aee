"""Small things that people met: each played as they met it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.model.session import Change
from cortext.store.workspace import WorkspaceStore
from tests.support.cli import Ran, cortext

API = "001-brainstorm-api-design"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace for Claude Code, with one conversation."""
    folder = tmp_path / "workspace"
    assert cortext("init", str(folder), "--ai", "claude").code == 0
    assert cortext("new", "brainstorm", "API", "design", cwd=folder).code == 0
    said = [Message(role=("user", "assistant")[place % 2], content=f"Word number {place}.") for place in range(6)]
    WorkspaceStore(str(folder)).append(API, *said)
    return folder


def _metadata(workspace: Path, name: str = API) -> dict[str, Any]:
    [path] = workspace.glob(f"conversations/*/{name}/.session/session.json")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _refused(done: Ran, words: str, code: int = 2) -> None:
    assert done.code == code and done.out == "", (done.code, done.out)
    assert words in done.err and "Traceback" not in done.err, done.err


# ── a fork ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("FLOW-07")
def test_a_fork_tells_only_of_what_it_took(workspace: Path) -> None:
    store = WorkspaceStore(str(workspace))
    store.update(
        API, Change(summary="They ended with the secret plan of step six.", summary_by="agent", summary_covers=6)
    )
    store.update(API, Change(extra={"begun_by": "brainstorm API design", "theirs": 1}))
    made = cortext("fork", "001", "--at", "1", "--json", cwd=workspace).json
    fork = _metadata(workspace, made["id"])
    assert made["id"].startswith("002-") and made["message_count"] == fork["message_count"] == 2
    assert fork["status"] == "paused", "nobody talks in it yet"
    assert "secret plan" not in fork["context_summary"] and fork["summary_covers"] == 2
    assert fork["created_at"] <= fork["last_active"]
    assert fork["token_count"] > 0
    assert fork["forked_from"]["session"] == API and fork["theirs"] == 1
    assert "begun_by" not in fork and "continuation" not in fork
    whole = cortext("fork", "001", "--json", cwd=workspace).json
    assert "secret plan" in _metadata(workspace, whole["id"])["context_summary"], "nothing was left out"


# ── numbers and titles that make no sense ────────────────────────────────────────────────────────────


@pytest.mark.req("LOOK-01")
def test_numbers_that_make_no_sense_are_refused(workspace: Path) -> None:
    before = _metadata(workspace)
    for at in ("9999", "-1"):
        _refused(cortext("fork", "001", f"--at={at}", cwd=workspace), f"has no message {at}", 1)
    for words in (
        ["list", "--limit=-3"],
        ["list", "--limit", "0"],
        ["similar", "001", "--limit=-3"],
        ["search", "word", "--limit=-3"],
        ["show", "001", "--tail=-2"],
        ["prune", "001", "--keep=-5"],
        ["resume", "001", "--print", "--tokens=-1"],
    ):
        _refused(cortext(*words, cwd=workspace), "at least")
    for title in ("", "  "):
        _refused(cortext("title", "001", title, cwd=workspace), "title is empty")
    assert _metadata(workspace) == before
    assert len(list(workspace.glob("conversations/*/*"))) == 1
