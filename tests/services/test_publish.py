"""Commits contain conversations and nothing else, in any state of the repository; a failed one loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.services.projects import git as publish
from cortext.services.projects.git import Git
from tests.support.cli import git, run


@pytest.fixture(autouse=True)
def known_to_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git has an identity, unless a test removes it."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@localhost")


def _repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "code.py").write_text("one\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "code")
    return folder


def _conversation(folder: Path, text: str = "said\n") -> str:
    target = folder / "talks" / "001-x"
    target.mkdir(parents=True, exist_ok=True)
    (target / "messages.jsonl").write_text(text, encoding="utf-8")
    return "talks/001-x"


def _files_of_head(folder: Path) -> list[str]:
    return git(folder, "show", "--name-only", "--format=", "HEAD").split()


@pytest.mark.req("SESS-006a")
def test_other_staged_and_changed_files_are_untouched(tmp_path: Path) -> None:
    repo = _repository(tmp_path / "r")
    (repo / "code.py").write_text("two\n", encoding="utf-8")
    (repo / "staged.py").write_text("staged\n", encoding="utf-8")
    git(repo, "add", "staged.py")
    (repo / "staged.py").write_text("staged, then changed\n", encoding="utf-8")
    (repo / "loose.py").write_text("untracked\n", encoding="utf-8")
    before = [line for line in git(repo, "status", "--porcelain").splitlines() if "talks" not in line]
    staged = git(repo, "diff", "--cached")
    done = Git(str(repo)).commit([_conversation(repo)], "a talk")
    assert done.commit
    assert _files_of_head(repo) == ["talks/001-x/messages.jsonl"]
    assert git(repo, "status", "--porcelain").splitlines() == before
    assert git(repo, "diff", "--cached") == staged


@pytest.mark.req("SESS-006a")
def test_without_changes_there_is_no_commit(tmp_path: Path) -> None:
    repo = _repository(tmp_path / "r")
    talk = _conversation(repo)
    assert Git(str(repo)).commit([talk], "a talk").commit
    head = git(repo, "rev-parse", "HEAD")
    assert Git(str(repo)).commit([talk], "again").nothing_new
    assert git(repo, "rev-parse", "HEAD") == head


@pytest.mark.req("SESS-006a")
def test_a_refusing_hook_loses_nothing_and_is_explained(tmp_path: Path) -> None:
    repo = _repository(tmp_path / "r")
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'not on my watch' >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    (repo / "staged.py").write_text("staged\n", encoding="utf-8")
    git(repo, "add", "staged.py")
    talk = _conversation(repo)
    done = Git(str(repo)).commit([talk], "a talk")
    assert not done.commit
    assert "not on my watch" in done.problem
    assert (repo / talk / "messages.jsonl").read_text(encoding="utf-8") == "said\n"
    assert git(repo, "status", "--porcelain").splitlines() == ["A  staged.py", "?? talks/"]
    hook.unlink()
    assert Git(str(repo)).commit([talk], "a talk").commit


@pytest.mark.req("SESS-006a")
def test_a_repository_without_identity_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = _repository(tmp_path / "r")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{who}_NAME")
        monkeypatch.delenv(f"GIT_{who}_EMAIL")
    git(repo, "config", "user.useConfigOnly", "true")
    done = Git(str(repo)).commit([_conversation(repo)], "a talk")
    assert done.problem == "git does not know who you are"
    assert "user.name" in done.hint


@pytest.mark.req("SESS-006a")
def test_a_lock_of_another_git_process_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = _repository(tmp_path / "r")
    talk = _conversation(repo)
    (repo / ".git" / "index.lock").write_text("", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(publish, "LOCK_TIMEOUT", 0.2)
        assert Git(str(repo)).commit([talk], "a talk").problem == "another git process is running"
    (repo / ".git" / "index.lock").unlink()
    assert Git(str(repo)).commit([talk], "a talk").commit


@pytest.mark.req("SESS-006a")
def test_a_merge_in_progress_is_not_disturbed(tmp_path: Path) -> None:
    repo = _repository(tmp_path / "r")
    git(repo, "checkout", "-qb", "side")
    (repo / "code.py").write_text("side\n", encoding="utf-8")
    git(repo, "commit", "-qam", "side")
    git(repo, "checkout", "-q", "main")
    (repo / "code.py").write_text("main\n", encoding="utf-8")
    git(repo, "commit", "-qam", "main")
    assert run(["git", "-C", str(repo), "merge", "side"]).code != 0
    done = Git(str(repo)).commit([_conversation(repo)], "a talk")
    assert "merge" in done.problem
    assert (repo / ".git" / "MERGE_HEAD").exists()


@pytest.mark.req("SESS-006a")
def test_a_worktree_a_submodule_and_a_detached_head_work(tmp_path: Path) -> None:
    repo = _repository(tmp_path / "r")
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    git(repo, "checkout", "-q", "--detach")
    outer = _repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repo), "sub")
    for folder in (tmp_path / "tree", repo, outer / "sub"):
        assert Git(str(folder)).commit([_conversation(folder)], "a talk").commit
        assert _files_of_head(folder) == ["talks/001-x/messages.jsonl"]


@pytest.mark.req("SESS-006a")
def test_commits_are_signed_and_a_failing_key_is_explained(tmp_path: Path) -> None:
    repo = _repository(tmp_path / "r")
    key = tmp_path / "key"
    assert run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]).code == 0
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", str(key)), ("commit.gpgsign", "true")):
        git(repo, "config", name, value)
    talk = _conversation(repo)
    assert Git(str(repo)).commit([talk], "a talk").commit
    assert "gpgsig" in git(repo, "cat-file", "commit", "HEAD")
    git(repo, "config", "user.signingkey", str(tmp_path / "missing"))
    done = Git(str(repo)).commit([_conversation(repo, "more\n")], "a talk")
    assert done.problem == "the commit could not be signed"


@pytest.mark.req("SESS-006b")
def test_ignored_sessions_stay_out_of_git(tmp_path: Path) -> None:
    repo = _repository(tmp_path / "r")
    (repo / ".gitignore").write_text(".session/\n", encoding="utf-8")
    talk = repo / "talks" / "001-x"
    (talk / ".session").mkdir(parents=True)
    (talk / ".session" / "messages.jsonl").write_text("private\n", encoding="utf-8")
    (talk / "plan.md").write_text("# Plan\n", encoding="utf-8")
    assert Git(str(repo)).commit(["talks/001-x"], "a talk").commit
    assert _files_of_head(repo) == ["talks/001-x/plan.md"]


@pytest.mark.req("SESS-006a")
def test_names_that_look_like_patterns_or_options_are_literal(tmp_path: Path) -> None:
    repo = _repository(tmp_path / "r")
    for name in ("a*b", ":!x", "-n", "ümläut 中"):
        (repo / name).mkdir()
        (repo / name / "f").write_text("x", encoding="utf-8")
    (repo / "ab").mkdir()
    (repo / "ab" / "f").write_text("x", encoding="utf-8")
    assert Git(str(repo)).commit(["a*b", ":!x", "-n", "ümläut 中"], "odd").commit
    assert git(repo, "status", "--porcelain", "-z").split("\0")[:-1] == ["?? ab/"]


@pytest.mark.req("SESS-006a")
def test_inside_a_git_hook_the_folder_s_repository_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo, other = _repository(tmp_path / "r"), _repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert Git(str(repo)).commit([_conversation(repo)], "a talk").commit
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert _files_of_head(repo) == ["talks/001-x/messages.jsonl"]
