"""The quick version of `python -m tests.safety.attack`, and a check that it covers every command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cortext.faces.mcp.tools import TOOLS
from tests.safety import attack
from tests.safety.repositories import PLANTS
from tests.support.cli import run

ROOT = Path(__file__).parents[2]


@pytest.mark.req("SAFE-10")
def test_every_command_is_attacked() -> None:
    known = attack.known_commands()
    assert known["cortext"] == set(attack.COMMANDS)
    assert {name: set(commands) for name, commands in attack.OTHERS.items()} == {
        name: known[name] for name in ("aur", "alfred")
    }
    asked = {case.words[0] for case in attack.cases() if case.program == "mcp"}
    assert asked == set(TOOLS)


def test_the_quick_version_runs_every_command_line_at_least_once() -> None:
    everything = list(attack.cases())
    dealt = attack.deal([name for name in PLANTS if attack.is_quick(name)], everything)
    assert {case for chosen in dealt.values() for case in chosen} == set(everything)
    assert min(len(chosen) for chosen in dealt.values()) >= 2


@pytest.mark.req("SAFE-10", "SAFE-01")
@pytest.mark.parametrize("part", range(attack.PARTS))
def test_no_repository_escapes_hangs_or_breaks_a_command(part: int) -> None:
    done = run([sys.executable, "-m", "tests.safety.attack", "--quick", "--part", str(part)], cwd=ROOT, patience=600)
    assert done.code == 0, done.out + done.err
    assert " 0 findings" in done.out
