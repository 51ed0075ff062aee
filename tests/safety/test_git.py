"""Git in a stranger's repository: no command of ours makes it run programs that the repository brings along."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.support.cli import cortext, git, run

ALL_TOOLS = "claude,gemini,opencode,codex"


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark when it runs: the file `<trap>.ran`."""
    path = tmp_path / "trap"
    path.write_text(f'#!/bin/sh\necho "$0 $*" >> {path}.ran\nexit 0\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def ran(trap: Path) -> str:
    """Return what was run, if anything."""
    mark = Path(f"{trap}.ran")
    return mark.read_text(encoding="utf-8") if mark.exists() else ""


def _traps(trap: Path) -> str:
    """Return every git setting that runs a program during status, add or commit."""
    return f"""
[core]
	fsmonitor = {trap}
	sshCommand = {trap}
	editor = {trap}
	pager = {trap}
	askPass = {trap}
[diff]
	external = {trap}
[diff "trap"]
	textconv = {trap}
	command = {trap}
[filter "trap"]
	clean = {trap}
	smudge = {trap}
	process = {trap}
[merge "trap"]
	driver = {trap} %A
[log]
	showSignature = true
[gpg]
	program = {trap}
[credential]
	helper = {trap}
[alias]
	status = !{trap}
"""


def _play(folder: Path) -> None:
    """Do everything that a user does in a workspace, beginning with the first command."""
    assert cortext("init", "--ai", ALL_TOOLS, cwd=folder).code == 0
    assert cortext("new", "plan", "Where to begin", cwd=folder).code == 0
    for words in (
        ("list",),
        ("doctor",),
        ("stop",),
        ("complete", "001"),
        ("fork", "001"),
        ("upgrade",),
        ("uninstall",),
    ):
        done = cortext(*words, cwd=folder)
        assert "Traceback" not in done.out + done.err


@pytest.mark.req("SAFE-10", "SAFE-04")
def test_a_clone_cannot_make_git_run_its_programs(tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@localhost")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    run(["git", "init", "-q", str(theirs)])
    (theirs / ".gitattributes").write_text("* filter=trap diff=trap merge=trap\n", encoding="utf-8")
    (theirs / ".gitconfig").write_text(_traps(trap), encoding="utf-8")
    (theirs / ".gitmodules").write_text(
        f'[submodule "-c core.fsmonitor={trap}"]\n\tpath = conversations/sub\n'
        f"\turl = ext::{trap}\n\tupdate = !{trap}\n",
        encoding="utf-8",
    )
    for name in ("pre-commit", "post-commit", "post-checkout", "prepare-commit-msg", "commit-msg"):
        hook = theirs / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_bytes(trap.read_bytes())
        hook.chmod(0o755)
    (theirs / "-c").write_text("a name that looks like an option\n", encoding="utf-8")
    git(theirs, "add", "-A")
    git(theirs, "commit", "-qm", "a trap")
    commit = git(theirs, "rev-parse", "HEAD").strip()
    git(theirs, "update-index", "--add", "--cacheinfo", f"160000,{commit},conversations/sub")
    git(theirs, "commit", "-qm", "a submodule")
    clone = tmp_path / "clone"
    run(["git", "clone", "-q", str(theirs), str(clone)])
    assert ran(trap) == ""
    _play(clone)
    assert ran(trap) == ""
    assert "merge.cortext" not in git(theirs, "config", "--list", "--local")


@pytest.mark.req("SAFE-10")
def test_a_bare_repository_among_the_files_is_not_used_as_git_s_own(
    tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the clone with HEAD, objects, refs, config and hooks, which git would take for a repository."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@localhost")
    clone = tmp_path / "clone"
    inner = clone / "inner"
    run(["git", "init", "-q", str(clone)])
    run(["git", "init", "-q", "--bare", str(inner)])
    head = f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {inner}"
    (inner / "config").write_text(head + _traps(trap).replace("[core]", ""), encoding="utf-8")
    text = (inner / "config").read_text(encoding="utf-8")
    assert "fsmonitor" in text and text.count("[core]") == 1
    for name in ("pre-commit", "post-commit", "prepare-commit-msg"):
        hook = inner / "hooks" / name
        hook.write_bytes(trap.read_bytes())
        hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    before = (inner / "config").read_bytes()
    _play(inner)
    assert ran(trap) == ""
    assert (inner / "config").read_bytes() == before, "a stranger's config was modified"


@pytest.mark.req("SAFE-10")
def test_the_user_s_own_hooks_still_run(tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@localhost")
    folder = tmp_path / "mine"
    assert cortext("init", str(folder), "--ai", "claude").code == 0
    os.symlink(trap, folder / ".git/hooks/pre-commit")
    assert cortext("new", "plan", "Where to begin", cwd=folder).code == 0
    assert cortext("stop", cwd=folder).code == 0
    assert "pre-commit" in ran(trap)
