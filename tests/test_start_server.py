"""Commands that the tests start by forking behave like the installed script."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import SCRIPTS, Ran, cortext, run


def _installed(*words: str, cwd: Path, stdin: str = "") -> Ran:
    env = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
    command = [str(SCRIPTS / "cortext"), *words]
    done = subprocess.run(command, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("--version",), ""),
        (("list", "--no-such-option"), ""),
        (("show", "größer → 日本"), ""),
        (("title", "x" * 120_000), ""),
        (("hook", "claude"), '{"hook_event_name": "Stop"}'),
        (("merge-driver", "a", "b", "c"), "not read"),
    ],
)
def test_output_and_exit_code_are_those_of_the_installed_script(
    home: Path, tmp_path: Path, words: tuple[str, ...], stdin: str
) -> None:
    assert cortext(*words, cwd=tmp_path, stdin=stdin) == _installed(*words, cwd=tmp_path, stdin=stdin)


def test_folder_and_umask_are_those_of_the_caller(home: Path, tmp_path: Path) -> None:
    made = []
    before = os.umask(0o027)
    try:
        for start in (cortext, _installed):
            folder = tmp_path / start.__name__
            folder.mkdir()
            assert start("init", ".", "--ai", "claude", cwd=folder).code == 0
            made.append({path.relative_to(folder): path.stat().st_mode for path in folder.rglob("*")})
    finally:
        os.umask(before)
    assert made[0] == made[1] != {}


def test_what_takes_too_long_is_killed(home: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run([str(SCRIPTS / "cortext"), "watch"], cwd=tmp_path, patience=1)
    assert cortext("--version", cwd=tmp_path).code == 0
