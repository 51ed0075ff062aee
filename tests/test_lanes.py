"""What `bin/check --quick` leaves out, and what is run once more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import EVERY_CASE, FIRST, MARKERS
from tests.support.ai_programs import HEAVY_TOOLS

REPOSITORY = Path(__file__).parent.parent


def test_every_marked_path_exists() -> None:
    assert [path for path in (*MARKERS, *FIRST) if not (REPOSITORY / path).exists()] == []


def test_long_files_come_first_and_a_file_stays_together(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.lanes import pytest_collection_modifyitems\n", encoding="utf-8")
    for path in ("tests/model/test_a.py", "tests/tools/test_b.py", FIRST[0]):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("def test_2():\n    pass\n\ndef test_1():\n    pass\n", encoding="utf-8")
    done = _run_pytest(tmp_path, "--collect-only", "-q", f"--rootdir={tmp_path}")
    order = [line for line in done.stdout.splitlines() if "::" in line]
    files = (FIRST[0], "tests/tools/test_b.py", "tests/model/test_a.py")
    assert order == [f"{path}::{name}" for path in files for name in ("test_2", "test_1")]


def _run_pytest(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(REPOSITORY), **variables}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False
    )


@pytest.mark.parametrize(("marker", "variable"), [("heavy_tool", HEAVY_TOOLS), ("repeats", EVERY_CASE)])
def test_heavy_programs_and_repetitions_run_only_where_they_are_asked_for(
    tmp_path: Path, marker: str, variable: str
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n  {marker}: x\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text("from tests.lanes import pytest_collection_modifyitems\n", encoding="utf-8")
    (tmp_path / "test_some.py").write_text(
        f"import pytest\n\n@pytest.mark.{marker}\ndef test_this():\n    pass\n\ndef test_that():\n    pass\n",
        encoding="utf-8",
    )
    assert "1 passed, 1 deselected" in _run_pytest(tmp_path).stdout
    assert "2 passed" in _run_pytest(tmp_path, **{variable: "1"}).stdout


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
    done = _run_pytest(tmp_path, "-n", "1")
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
