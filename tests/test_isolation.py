"""No test, fixture or installer of a program uses the real HOME, and none sleeps."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

import pytest

from tests.support import ai_programs
from tests.support.ai_programs import NpmProgram

REAL = pwd.getpwuid(os.getuid()).pw_dir


@pytest.fixture(scope="module")
def environment_of_a_module() -> dict[str, str]:
    return dict(os.environ)


def test_a_fixture_of_a_module_does_not_see_the_real_home(environment_of_a_module: dict[str, str]) -> None:
    assert environment_of_a_module["HOME"] != REAL
    assert environment_of_a_module["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert not [name for name in environment_of_a_module if name.startswith("XDG_")]


def test_each_test_has_a_home_of_its_own(environment_of_a_module: dict[str, str], home: Path) -> None:
    assert str(home) not in (REAL, environment_of_a_module["HOME"])
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("number", [1, 2])
def test_what_a_test_does_to_the_environment_ends_with_it(number: int) -> None:
    assert "CORTEXT_WORKSPACE" not in os.environ and os.environ.get("LANG") != f"left by {3 - number}"
    os.environ["CORTEXT_WORKSPACE"], os.environ["LANG"] = "/nowhere", f"left by {number}"


def test_asking_a_program_for_its_version_writes_nothing_into_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Continue creates ~/.continue even then."""
    program = NpmProgram("writing", "writing", "1.0", ("writing",))
    monkeypatch.setattr(ai_programs, "_FOLDER", tmp_path)
    monkeypatch.setitem(ai_programs.PROGRAMS, "writing", program)
    program.folder.mkdir()
    (program.folder / "writing").write_text("#!/bin/sh\ntouch ~/.writing && echo 1.0 in $HOME\n", encoding="utf-8")
    (program.folder / "writing").chmod(0o755)
    assert ai_programs.version("writing").startswith("1.0 in /")
    assert list(home.iterdir()) == []


def test_nothing_sleeps_but_the_helper_that_waits() -> None:
    """A test waits for a state, with `wait_until`; `sleep(0)` only lets others run."""
    sleeping = re.compile(r"(?<!def )\bsleep\((?!0\))|import sleep\b")
    tests = Path(__file__).parent
    files = [path for path in tests.rglob("*.py") if path != Path(__file__)]
    found = [str(path.relative_to(tests)) for path in files if sleeping.search(path.read_text("utf-8"))]
    assert found == ["support/waiting.py"]
