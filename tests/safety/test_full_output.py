"""Output or a disk that is full during an import or indexing: an error says what was kept."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest

from cortext.faces.cortext.main import COMMANDS
from cortext.model.message import Message
from cortext.store.files.workspace import WorkspaceStore
from tests.store.crash.test_full_disk import tiny_disk as tiny_disk
from tests.support.cli import SCRIPTS, Ran, cortext, git
from tests.tools.claude_code.corpus import Script

pytestmark = pytest.mark.req("SAFE-07")


def write_transcripts(home: Path, count: int) -> set[str]:
    """Write this many Claude Code transcripts of 100 kB each; return the ids of the sessions that they become."""
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


def checked(done: Ran) -> Ran:
    assert "Traceback" not in done.err and "bug in cortext" not in done.err, done.err
    return done


def test_full_output_is_reported_and_completed_work_is_kept(home: Path) -> None:
    names = write_transcripts(home, 2)
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


ID = "001-plan-herons"
# A call of every command that prints something, in an order in which each has something to do.
PRINTING = {
    "show": (ID,), "title": (ID,), "export": (ID,), "resume": (ID, "--print"), "list": (), "search": ("dawn",),
    "similar": (ID,), "stats": (), "doctor": (), "store": ("status",), "repair": (ID, "-n"), "index": ("status",),
    "tag": (ID, "billing"), "star": (ID,), "note": (ID, "later"), "archive": (ID, "-n"), "cost": (),
    "type": ("list",), "completion": ("bash",), "tools": (), "import": (), "sync": (), "sweep": (), "trust": ("--yes",),
    "prune": (ID, "-n"), "fork": (ID,), "stop": (ID, "--no-commit"), "complete": (ID, "--no-commit"),
    "new": ("plan", "Owls"), "delete": (ID,), "restore": (ID,), "demo": ("demo",), "upgrade": (), "init": (),
    "share": ("--help",), "unshare": ("--help",),  # there is no server here
    "uninstall": (), "browse": (), "mcp": ("--help",), "rescue": ("-n",), "watch": ("--status",), "web": ("--help",),
    "why": ("x.md:1",), "touched": ("x.md",),
}  # fmt: skip
QUIET = {"sweep", "browse"}  # print nothing here: there is nothing to pause, and no screen


def test_every_command_reports_full_output(home: Path, tmp_path: Path) -> None:
    """Including --help: argparse ignores errors of an unbuffered output."""
    commands = {name for _, group in COMMANDS for name, _, _ in group}
    assert set(PRINTING) == commands
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    assert cortext("init", "--ai", "claude", cwd=folder).code == 0
    assert cortext("new", "plan", "Herons", cwd=folder).code == 0
    for number in range(4):
        WorkspaceStore(str(folder)).append(ID, Message(role="user", content=f"{number} herons at dawn"))
    (folder / "x.md").write_text("A line that nobody asked about.\n", encoding="utf-8")
    calls = [("cortext", name, *words) for name, words in PRINTING.items()]
    calls += [("cortext", name, "--help") for name in PRINTING]
    calls += [(program, word) for program in ("cortext", "aur", "alfred") for word in ("--help", "--version")]
    for program, *words in calls:
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [str(SCRIPTS / program), *words],
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=60,
            )
        assert "Traceback" not in done.stderr and "bug in cortext" not in done.stderr, (words, done.stderr)
        if words[-1] == "--help" or words[0] not in QUIET:
            assert done.returncode == 5 and "cannot write the output" in done.stderr, (words, done)


def test_a_disk_that_fills_up_during_an_import_loses_nothing(tiny_disk: Path) -> None:
    home = tiny_disk / "home"
    home.mkdir()
    env = {"HOME": str(home)}
    names = write_transcripts(home, 8)
    ballast = tiny_disk / "ballast"
    space = 3_000_000 - sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    ballast.write_bytes(bytes(max(0, space - 700_000)))
    done = checked(cortext("import", cwd=home, env=env))
    assert done.code == 3 and "No space left" in done.out and "Everything else is kept" in done.out, done.out
    kept = {row["id"]: row["message_count"] for row in checked(cortext("list", "--json", cwd=home, env=env)).json}
    assert set(kept) <= names
    built = checked(cortext("index", "rebuild", cwd=home, env=env))
    assert built.code in (0, 5) and (built.code == 0 or "kept: every session" in built.err), built.err

    ballast.unlink()
    again = checked(cortext("sync", cwd=home, env=env))
    rows = {row["id"]: row["message_count"] for row in cortext("list", "--json", cwd=home, env=env).json}
    assert again.code == 0 and set(rows) == names and set(rows.values()) == {40}, (again.out, rows)
    assert checked(cortext("doctor", cwd=home, env=env)).code == 0
