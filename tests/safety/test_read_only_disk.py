"""A read-only disk: everything that only reads works, and doctor explains the situation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.store.files.workspace import WorkspaceStore
from tests.support.cli import SCRIPTS, cortext, git

ID = "001-plan-herons"
# Runs in its own mount namespace: no other process sees the disk become read-only.
PLAY = """
import json, subprocess, sys
disk, folder, program, *lines = sys.argv[1:]
subprocess.run(["mount", "--bind", disk, disk], check=True)
subprocess.run(["mount", "-o", "remount,ro,bind", disk], check=True)
done = [
    subprocess.run([program, *json.loads(line)], cwd=folder, capture_output=True, text=True, timeout=120)
    for line in lines
]
print(json.dumps([[one.returncode, one.stdout, one.stderr] for one in done]))
"""


def run_read_only(disk: Path, folder: Path, env: dict[str, str], *calls: tuple[str, ...]) -> list[list[Any]]:
    """Run `cortext` with these arguments on a read-only disk; return exit code, output and errors of each."""
    words = [sys.executable, "-c", PLAY, str(disk), str(folder), str(SCRIPTS / "cortext"), *map(json.dumps, calls)]
    try:
        done = subprocess.run(["unshare", "-m", *words], env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode:
        pytest.skip(f"mounting is not allowed here ({done.stderr.strip()[-200:]})")
    found: list[list[Any]] = json.loads(done.stdout)
    return found


@pytest.mark.req("SAFE-07", "FIND-03")
@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "never-searched"])
def test_reading_commands_work_on_a_read_only_disk(tmp_path: Path, indexed: bool) -> None:
    disk, temporary = tmp_path / "disk", tmp_path / "temporary"
    home, folder = disk / "home", disk / "work"
    for path in (home, folder, temporary):
        path.mkdir(parents=True)
    env = {**os.environ, "HOME": str(home), "TMPDIR": str(temporary)}
    git(folder, "init", "-q")
    assert cortext("init", "--ai", "claude", cwd=folder, env=env).code == 0
    assert cortext("new", "plan", "Herons", cwd=folder, env=env).code == 0
    WorkspaceStore(str(folder)).append(ID, Message(role="user", content="seventeen herons at dawn"))
    if indexed:
        assert ID in cortext("search", "dawn", cwd=folder, env=env).out
    readers = (
        ("list",),
        ("search", "dawn"),
        ("search", "--exact", "seventeen"),
        ("show", ID),
        ("export", ID),
        ("resume", ID, "--print"),
        ("resume", ID, "--dry-run", "--ai", "claude"),
    )
    *read, doctor, stop = run_read_only(disk, folder, env, *readers, ("doctor",), ("stop", ID))
    for words, (code, out, err) in zip(readers, read, strict=True):
        assert code == 0 and "Traceback" not in err, (words, out, err)
        assert words[0] == "resume" or ID in out, (words, out, err)
    code, out, err = doctor
    assert code == 0 and "read-only" in out and "Nothing is damaged" in out, (out, err)
    code, out, err = stop
    assert code == 5 and "ead-only file system" in err and "kept: nothing was changed" in err, (out, err)
    [fallback] = temporary.glob("cortext-*")
    assert fallback.stat().st_mode & 0o777 == 0o700
    assert cortext("stop", ID, cwd=folder, env=env).code == 0
