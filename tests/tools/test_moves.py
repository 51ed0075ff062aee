"""One move of a project and one lost conversation for three programs that are not among the four.

`test_moved.py` and `test_put_back.py` have more of the four; `python -m tests.tools.matrix --moves` runs all.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.matrix_moves import Case, Cases, result_of, tables
from tests.tools.matrix_page import versions

from cortext.services.workspace.installed_tools import code_of

MOVED = [("pi", "another user"), ("copilot", "worktree"), ("kimi", "another machine")]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which each program's conversation is kept for both tests."""
    return tmp_path_factory.mktemp("moves")


@pytest.mark.real_tool
@pytest.mark.req("TOOL-09", "TOOL-02", "FLOW-06")
@pytest.mark.parametrize(("tool", "move"), MOVED)
def test_a_conversation_follows_its_project_and_a_plain_copy_does_not(work: Path, tool: str, move: str) -> None:
    assert result_of(tool, move, work).problems == []


@pytest.mark.real_tool
@pytest.mark.req("TOOL-02", "TOOL-08")
@pytest.mark.parametrize("tool", [tool for tool, _ in MOVED])
def test_a_removed_conversation_is_listed_and_resumed_by_the_program_again(work: Path, tool: str) -> None:
    assert result_of(tool, "removed", work).problems == []


def _case(tool: str, name: str, **fields: object) -> Case:
    known = {"version": versions(tool)[0], "date": "2026-11-18", "code": code_of(tool), "problems": []}
    return Case(tool=tool, name=name, **{**known, **fields})  # type: ignore[arg-type]


def test_the_tables_show_what_passed_what_did_not_and_what_is_older(tmp_path: Path) -> None:
    cases = Cases(tmp_path)
    cases.put(_case("pi", "another user", said="5; not found"))
    cases.put(_case("pi", "removed", code="of before"))
    cases.put(_case("kimi", "renamed", problems=["not received: a | path"], said="0; old paths"))
    cases.put(_case("qwen", "renamed", version="0.1"))
    lines = tables(cases.all())
    assert "| pi | – | – | – | – | ✓ 5; not found | – |" in lines
    assert "| pi | ✓, *older* | – | – |" in lines
    assert "| kimi | ✗ 0; old paths | – | – | – | – | – |" in lines
    assert "| kimi | renamed | not received: a \\| path |" in lines
    assert "| qwen | – | – | – | – | – | – |" in lines, "of another version"
    assert "| continue | – | – | n/a |" in lines
