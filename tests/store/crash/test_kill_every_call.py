"""A process that is killed at the n-th system call, for every n until a run survives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.crash.actor import LAYOUTS, SCENARIOS

ROOT = Path(__file__).parents[3]
# The calls at which a scenario must have been killed for the test to mean anything.
NEEDED = {
    "life": {"write", "pwrite", "fsync", "rename", "mkdir", "unlink", "open"},
    "repairing": {"write", "pwrite", "fsync", "rename", "ftruncate", "mkdir", "unlink", "open"},
}


def run_forks(*arguments: str) -> dict[str, object]:
    """Run `forks` to its end and return its report."""
    command = [sys.executable, "-m", "tests.store.crash.forks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.mark.req("STORE-03", "STORE-06", "STORE-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_kill_before_any_call_loses_nothing_acknowledged(layout: str, scenario: str, tmp_path: Path) -> None:
    report = run_forks(layout, scenario, str(tmp_path))
    assert report["failures"] == []
    assert isinstance(report["at"], dict) and isinstance(report["calls"], int)
    assert set(report["at"]) >= NEEDED[scenario]
    assert report["kills"] == report["calls"] + 1  # one per call, and the run that survived


@pytest.mark.req("STORE-03", "STORE-06", "STORE-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_kill_inside_any_write_leaves_a_torn_line_that_is_quarantined(
    layout: str, scenario: str, tmp_path: Path
) -> None:
    report = run_forks(layout, scenario, str(tmp_path), "--half")
    assert report["failures"] == []
    assert isinstance(report["at"], dict)
    assert set(report["at"]) == {"write", "pwrite", "none"}
