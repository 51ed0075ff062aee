"""Runs the real commands as a user does: as a separate process, in a folder, with this test's environment."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.start_server import StartServer

SCRIPTS = Path(sys.executable).parent
# The environment of most tests: what Python reads in it differs only in tests about that.
USUAL = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_"))}
OURS = {str(SCRIPTS / name) for name in ("cortext", "aur", "alfred")}


class Ran(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, parsed as JSON."""
        return json.loads(self.out)


def cortext(*words: str, cwd: Path | None = None, stdin: str = "", env: dict[str, str] | None = None) -> Ran:
    """Run `cortext`."""
    return run([str(SCRIPTS / "cortext"), *words], cwd=cwd, stdin=stdin, env=env)


def run(
    command: list[str],
    *,
    cwd: Path | None = None,
    stdin: str = "",
    env: dict[str, str] | None = None,
    patience: float = 60,
) -> Ran:
    """Run any command; by default it may take a minute, far more than ours need."""
    environ = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", **(env or {})}
    if command[0] in OURS and (server := _start_server()).can_start(environ):
        input_ = stdin.encode("utf-8", "surrogateescape")
        code, out, err = server.run(command, cwd=str(cwd or Path.cwd()), env=environ, stdin=input_, patience=patience)
        return Ran(code, out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "surrogateescape"))
    done = subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        env=environ,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
        encoding="utf-8",
        errors="surrogateescape",
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@cache
def _start_server() -> StartServer:
    """Return the process that starts our commands, one for all tests of this process."""
    server = StartServer(USUAL)
    atexit.register(server.stop)
    return server


def committed_workspace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a workspace for Claude Code in this folder and commit it; set git's author and committer."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@localhost")
    folder.mkdir()
    assert cortext("init", "--ai", "claude", cwd=folder).code == 0
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")
    return folder


def git(folder: Path, *words: str) -> str:
    """Run git with a test identity; return its output."""
    names = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Test"), ("EMAIL", "test@localhost"))
    }
    done = run(["git", "-C", str(folder), *words], env=names)
    assert done.code == 0, f"git {' '.join(words)}: {done.err}"
    return done.out
