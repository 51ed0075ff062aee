"""What `bin/check --quick` leaves out, and what is run once more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.lanes import MARKERS

REPOSITORY = Path(__file__).parent.parent


def test_every_marked_path_exists() -> None:
    assert [path for path in MARKERS if not (REPOSITORY / path).exists()] == []


def test_only_a_real_tool_test_is_rerun_and_both_results_are_reported(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  real_tool: x\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text(
        "from tests.lanes import pytest_collection_modifyitems, pytest_terminal_summary\n", encoding="utf-8"
    )
    (tmp_path / "test_some.py").write_text(
        """
import pathlib
import pytest

def count(name):
    path = pathlib.Path(__file__).parent / name
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    return len(path.read_text())

@pytest.mark.real_tool
def test_once():
    assert count("once") == 2, "the program was slow"

@pytest.mark.real_tool
def test_always():
    assert count("always") == 0

def test_plain():
    assert count("plain") == 2
""",
        encoding="utf-8",
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert {name: len((tmp_path / name).read_text()) for name in ("once", "always", "plain")} == {
        "once": 2,
        "always": 2,
        "plain": 1,
    }
    assert "test_some.py::test_once: failed, then passed; the first time: AssertionError: the program was slow" in (
        done.stdout
    )
    assert "test_some.py::test_always: failed, then failed" in done.stdout
    assert "2 failed, 1 passed, 2 rerun" in done.stdout
