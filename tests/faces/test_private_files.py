"""Our files are private whatever the umask, and an export to a terminal cannot control it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import SCRIPTS

HOSTILE = "red\x1b[31m \x1b]0;pwned\x07 \u202eevil\u202c \x9b2J end"


def _open_to_others(folder: Path) -> list[str]:
    return [
        f"{path}: {path.lstat().st_mode & 0o777:o}"
        for path in (folder, *folder.rglob("*"))
        if not path.is_symlink() and path.lstat().st_mode & 0o077
    ]


def _run(umask: int, *words: str, cwd: Path) -> str:
    done = subprocess.run(
        [str(SCRIPTS / "cortext"), *words],
        cwd=cwd,
        umask=umask,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.req("SAFE-09", "FIND-03")
@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_index_and_cache_are_private_whatever_the_umask(tmp_path: Path, home: Path, umask: int) -> None:
    project = tmp_path / "project"
    project.mkdir()
    talk = ClaudeTalk(project)
    talk.say("Where do the herons sleep?", "In the reeds.")
    cache = home / ".cache" / "cortext"
    _run(umask, "import", cwd=project)
    _run(umask, "list", cwd=project)
    assert "herons sleep" in _run(umask, "search", "herons", cwd=project)
    # SQLite's WAL files exist only while the database is open.
    databases = list(cache.rglob("*.db"))
    assert databases
    held = [sqlite3.connect(path) for path in databases]
    try:
        for connection in held:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        talk.say("And the ducks?", "Under the bridge.")
        _run(umask, "sync", cwd=project)
        assert "the ducks" in _run(umask, "search", "ducks", cwd=project)
        assert any(path.name.endswith("-wal") for path in cache.rglob("*"))
        for folder in (cache, home / ".local" / "share" / "cortext", home / ".local" / "state" / "cortext"):
            assert not folder.exists() or _open_to_others(folder) == []
        assert any("keyword" in str(path) for path in cache.rglob("*"))
    finally:
        for connection in held:
            connection.close()
    # The next writer fixes permissions that an older version left too open.
    for path in cache.rglob("*"):
        if path.is_file():
            path.chmod(0o644)
    talk.say("And the geese?", "On the meadow.")
    _run(umask, "sync", cwd=project)
    assert "the geese" in _run(umask, "search", "geese", cwd=project)
    assert [line for line in _open_to_others(cache) if ".db" in line or "keyword" in line] == []


@pytest.mark.req("SAFE-01", "SAFE-09")
@pytest.mark.parametrize("form", ["markdown", "json"])
def test_an_export_is_safe_on_a_terminal_and_data_in_a_pipe(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "w"
    (folder / ".workspace").mkdir(parents=True)
    store = WorkspaceStore(str(folder))
    store.create(Session(id="001-plan-x", type="plan", title=f"Title {HOSTILE}"))
    store.append("001-plan-x", Message(role="user", content=f"Said {HOSTILE}"))
    command = [str(SCRIPTS / "cortext"), "export", "001-plan-x", "--format", form]
    piped = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=True).stdout.decode()
    if form == "markdown":
        assert HOSTILE in piped
    raw = _on_a_terminal(command, folder)
    assert "Said red" in raw
    assert not set("\x1b\x07\u202e\u202c\x9b") & set(raw)


def _on_a_terminal(command: list[str], folder: Path) -> str:
    """Return everything a command writes to a terminal."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    written = b""
    try:
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            written += piece
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
    return written.decode("utf-8")
