"""An output or a disk that takes no more, while something is imported or indexed: an error that says what was kept."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import pytest

from tests.store.crash.test_full_disk import tiny_disk as tiny_disk
from tests.support.cli import SCRIPTS, Ran, cortext
from tests.tools.claude_code.corpus import Script

pytestmark = pytest.mark.req("SAFE-07")


def talks(home: Path, count: int) -> set[str]:
    """So many transcripts of Claude Code, of 100 kB each; the ids of the sessions that they become."""
    projects = home / ".claude" / "projects" / "-p"
    projects.mkdir(parents=True)
    made = set()
    for number in range(count):
        script = Script(str(uuid.UUID(int=number + 1, version=4)))
        for turn in range(20):
            script.user(f"question {number} {turn} " + "words " * 400)
            script.assistant("answer " * 300)
        script.save(projects)
        made.add(f"claude-{script.key}")
    return made


def sound(done: Ran) -> Ran:
    assert "Traceback" not in done.err and "bug in cortext" not in done.err, done.err
    return done


def test_an_output_that_is_full_is_told_and_what_was_done_is_kept(home: Path) -> None:
    names = talks(home, 2)
    for words in (
        ("import",),
        ("index", "rebuild"),
        ("list",),
        ("list", "--json"),
        ("search", "question"),
        ("doctor",),
    ):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [str(SCRIPTS / "cortext"), *words],
                cwd=home,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 5 and "cannot write the output" in done.stderr, (words, done.stderr)
        assert "kept: everything that was stored" in done.stderr and "Traceback" not in done.stderr
    assert {row["id"] for row in cortext("list", "--json", cwd=home).json} == names
    assert cortext("search", "question", cwd=home).code == 0


def test_a_disk_that_fills_up_during_an_import_and_a_rebuild_loses_nothing(tiny_disk: Path) -> None:
    home = tiny_disk / "home"
    home.mkdir()
    env = {"HOME": str(home)}
    names = talks(home, 8)
    ballast = tiny_disk / "ballast"
    space = 3_000_000 - sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    ballast.write_bytes(bytes(max(0, space - 700_000)))
    done = sound(cortext("import", cwd=home, env=env))
    assert done.code == 3 and "No space left" in done.out and "Everything else is kept" in done.out, done.out
    kept = {row["id"]: row["message_count"] for row in sound(cortext("list", "--json", cwd=home, env=env)).json}
    assert set(kept) <= names
    built = sound(cortext("index", "rebuild", cwd=home, env=env))
    assert built.code in (0, 5) and (built.code == 0 or "kept: every session" in built.err), built.err

    ballast.unlink()
    again = sound(cortext("sync", cwd=home, env=env))
    rows = {row["id"]: row["message_count"] for row in cortext("list", "--json", cwd=home, env=env).json}
    assert again.code == 0 and set(rows) == names and set(rows.values()) == {40}, (again.out, rows)
    assert sound(cortext("doctor", cwd=home, env=env)).code == 0
