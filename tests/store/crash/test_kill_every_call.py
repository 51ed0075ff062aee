"""A process that dies at the n-th call to the kernel, for every n until one run survives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.crash.talk import LAYOUTS, SCENARIOS

ROOT = Path(__file__).parents[3]
# What a scenario must have been killed at to say anything about the promises.
NEEDED = {
    "life": {"write", "pwrite", "fsync", "rename", "mkdir", "unlink", "open"},
    "mending": {"write", "pwrite", "fsync", "rename", "ftruncate", "mkdir", "unlink", "open"},
}


def forks(*arguments: str) -> dict[str, object]:
    """Run `forks` to its end; what it reports."""
    command = [sys.executable, "-m", "tests.store.crash.forks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.mark.req("STORE-03", "STORE-06", "STORE-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_killed_before_any_call_nothing_acknowledged_is_lost(layout: str, scenario: str, tmp_path: Path) -> None:
    report = forks(layout, scenario, str(tmp_path))
    assert report["failures"] == []
    assert isinstance(report["at"], dict) and isinstance(report["calls"], int)
    assert set(report["at"]) >= NEEDED[scenario]
    assert report["kills"] == report["calls"] + 1  # each once, and the run that survived


@pytest.mark.req("STORE-03", "STORE-06", "STORE-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_killed_in_the_middle_of_any_write_the_half_line_is_set_aside(
    layout: str, scenario: str, tmp_path: Path
) -> None:
    report = forks(layout, scenario, str(tmp_path), "--half")
    assert report["failures"] == []
    assert isinstance(report["at"], dict)
    assert set(report["at"]) == {"write", "pwrite", "none"}
