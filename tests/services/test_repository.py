"""A project is known by its git repository: first commits and remotes, in whatever folder it is."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cortext.model.session import Session
from cortext.services.projects import projects as projects_module
from cortext.services.projects.git import Git
from cortext.services.projects.projects import Projects, ask_git, held_in_workspace, tops_of
from cortext.services.projects.repository import (
    Checkout,
    Repository,
    checkout_of,
    normalised_remotes,
    repository_of,
    top_of,
)
from cortext.testing.table import every_row
from tests.support.cli import git

# The shape of a token, made up here.
TOKEN = "ghp_" + "9fK2xQ7LmB4tRz8WcV1nHs6JpD3yGa5EuT0o"
pytestmark = pytest.mark.req("TOOL-09")


def make_repository(folder: Path, remote: str = "", file: str = "a.txt") -> Path:
    """Create a repository with one commit; another file gives it another first commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "api").mkdir()
    (folder / "api" / file).write_text(f"{folder.name}\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", f"first of {folder.name}")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@every_row(
    "address",
    [
        "https://github.com/ann/pond.git",
        "https://github.com/ann/pond",
        "https://github.com/ann/pond/",
        "https://ann:s3cret-t0ken@github.com/ann/pond.git",
        "https://x-access-token@GitHub.com:443/ann/pond.git",
        "http://github.com/ann/pond?token=abc#x",
        "git@github.com:ann/pond.git",
        "github.com:/ann/pond.git",
        "ssh://git@github.com:22/ann/pond.git",
        "git+ssh://git@github.com/ann/pond",
        "git://github.com/ann/pond.git",
    ],
)
def test_a_remote_has_one_form_without_user_and_password(address: str) -> None:
    assert normalised_remotes([address]) == ("github.com/ann/pond",)


def test_a_local_remote_is_an_absolute_path() -> None:
    assert normalised_remotes(["../pond.git"], "/work/lake") == ("/work/pond",)
    assert normalised_remotes(["file:///srv/git/pond.git", "/srv/git/pond/"]) == ("/srv/git/pond",)
    assert normalised_remotes(["/work/pond/.git"]) == ("/work/pond",)


@pytest.mark.parametrize("address", ["", "https://", "https://host", "pond", f"https://host/{TOKEN}/pond"])
def test_an_unusable_remote_or_one_with_a_secret_is_left_out(address: str) -> None:
    assert normalised_remotes([address]) == ()


def test_first_commits_decide_and_remotes_only_without_them() -> None:
    one = Repository(("a",), ("host/x",))
    assert one.is_same(Repository(("a", "b"), ("host/y",)))
    assert not one.is_same(Repository(("b",), ("host/x",)))
    assert one.is_same(Repository((), ("host/x",)))
    assert not one.is_same(Repository())
    assert not Repository().is_same(Repository())


@pytest.mark.parametrize("value", [None, 3, [], {"roots": 1}, {"roots": [2]}, {"inside": None}, "x"])
def test_an_invalid_record_is_an_unknown_repository(value: object) -> None:
    assert repository_of(value) == Repository()


def test_a_clone_a_worktree_and_a_renamed_folder_are_the_same_repository(tmp_path: Path) -> None:
    pond = make_repository(tmp_path / "pond", "git@host:ann/pond.git")
    first = ask_git(str(pond))
    assert first.remotes == ("host/ann/pond",)
    assert len(first.roots) == 1
    git(tmp_path, "clone", "-q", str(pond), "clone")
    git(pond, "worktree", "add", "-q", str(tmp_path / "tree"))
    other = ask_git(str(make_repository(tmp_path / "other", file="b.txt")))
    assert ask_git(str(tmp_path / "clone")) == Repository(first.roots, (str(pond),))
    assert ask_git(str(tmp_path / "tree")) == first
    assert not first.is_same(other)
    pond.rename(tmp_path / "lake")
    assert ask_git(str(tmp_path / "lake")) == first


def test_a_shallow_clone_is_known_by_its_remote(tmp_path: Path) -> None:
    pond = make_repository(tmp_path / "pond")
    git(pond, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{pond}", "clone")
    assert ask_git(str(tmp_path / "clone")) == Repository((), (str(pond),))


def test_a_history_that_takes_too_long_leaves_the_remotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pond = make_repository(tmp_path / "pond", "https://host/pond")
    monkeypatch.setattr("cortext.services.projects.projects.GIT_SECONDS", 0.0)
    assert ask_git(str(pond)) == Repository((), ("host/pond",))


def test_a_folder_without_a_repository_or_a_commit_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    known = Projects(str(tmp_path / "projects.jsonl"))
    for folder in (str(tmp_path / "plain"), str(tmp_path / "empty"), str(tmp_path / "none"), "", "relative"):
        assert known.repository(folder) == Repository()
        assert known.record(folder) == {}
    assert not (tmp_path / "projects.jsonl").exists()


# ── the known folders ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of folders for which git is asked."""
    folders: list[str] = []

    def noting(top: str) -> Repository:
        folders.append(top)
        return ask_git(top)

    monkeypatch.setattr(projects_module, "ask_git", noting)
    return folders


def test_git_is_asked_once_for_a_project(tmp_path: Path, asked: list[str]) -> None:
    pond = make_repository(tmp_path / "pond", "https://host/pond")
    path = str(tmp_path / "data" / "projects.jsonl")
    for _ in range(2):
        known = Projects(path)
        assert known.repository(str(pond)).remotes == ("host/pond",)
        assert known.repository(str(pond / "api")).inside == "api"
    assert asked == [str(pond)]


def test_git_is_asked_again_when_the_settings_of_the_repository_change(tmp_path: Path, asked: list[str]) -> None:
    pond = make_repository(tmp_path / "pond")
    path = str(tmp_path / "projects.jsonl")
    before = Projects(path).repository(str(pond))
    git(pond, "remote", "add", "origin", "https://ann:secret@host/pond")
    os.utime(pond / ".git" / "config", (1, 1))
    assert Projects(path).repository(str(pond)) == Repository(before.roots, ("host/pond",))
    assert asked == [str(pond)] * 2
    assert "secret" not in (tmp_path / "projects.jsonl").read_text(encoding="utf-8")


def test_a_folder_that_is_gone_is_remembered_and_found_elsewhere(tmp_path: Path) -> None:
    pond = make_repository(tmp_path / "pond")
    path = str(tmp_path / "projects.jsonl")
    before = Projects(path).repository(str(pond / "api"))
    pond.rename(tmp_path / "lake")
    known = Projects(path)
    assert known.repository(str(pond / "api")) == before
    assert before.inside == "api"
    assert list(known.places(before)) == []
    known.repository(str(tmp_path / "lake"))
    make_repository(tmp_path / "other", file="b.txt")
    known.repository(str(tmp_path / "other"))
    assert [top for top, _ in Projects(path).places(before)] == [str(tmp_path / "lake")]


def test_another_repository_in_the_same_folder_is_not_mistaken(tmp_path: Path) -> None:
    pond = make_repository(tmp_path / "pond")
    path = str(tmp_path / "projects.jsonl")
    before = Projects(path).repository(str(pond))
    shutil.rmtree(pond)
    make_repository(tmp_path / "pond", file="b.txt")
    assert list(Projects(path).places(before)) == []
    assert not Projects(path).repository(str(pond)).is_same(before)


def test_a_damaged_or_unwritable_file_only_costs_time(tmp_path: Path) -> None:
    pond = make_repository(tmp_path / "pond")
    path = tmp_path / "projects.jsonl"
    path.write_bytes(b'{"top": 3}\n\xff\n{"top"')
    assert Projects(str(path)).repository(str(pond)).roots
    assert Projects(str(path)).repository(str(pond)).roots
    lines = path.read_bytes().splitlines()
    assert json.loads(lines[-1])["top"] == str(pond)
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert Projects(str(tmp_path / "file" / "projects.jsonl")).repository(str(pond)).roots


def test_outdated_lines_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "projects.jsonl"
    path.write_text('{"top": "/gone", "roots": ["a"]}\n' * 100, encoding="utf-8")
    assert Projects(str(path)).repository("/gone/api") == Repository(("a",), (), "api")
    assert path.read_text(encoding="utf-8").count("\n") == 1


# ── what is recorded with a session ──────────────────────────────────────────────────────────────────


def test_the_remote_that_a_tool_recorded_is_used_if_the_folder_is_gone(tmp_path: Path) -> None:
    known = Projects(str(tmp_path / "projects.jsonl"))
    address = "https://ann:secret@host/pond.git"
    assert known.record(str(tmp_path / "gone"), address) == {"repository": {"remotes": ["host/pond"]}}
    assert known.record(str(tmp_path), address) == {}


def test_a_session_that_continues_elsewhere_knows_both_folders(tmp_path: Path) -> None:
    pond = make_repository(tmp_path / "pond")
    known = Projects(str(tmp_path / "projects.jsonl"))
    session = Session(id="a", extra={"project": str(pond / "api"), **known.record(str(pond / "api"))})
    assert tops_of(session) == [str(pond)]
    assert known.continued_in(session, str(pond / "api")) == {}
    git(tmp_path, "clone", "-q", str(pond), "lake")
    change = known.continued_in(session, str(tmp_path / "lake" / "api"))
    session.extra |= change
    assert tops_of(session) == [str(tmp_path / "lake"), str(pond)]
    assert known.continued_in(session, str(make_repository(tmp_path / "other", file="b.txt"))) == {}
    session.extra |= known.continued_in(session, str(pond))
    assert tops_of(session) == [str(pond), str(tmp_path / "lake")]


def test_a_conversation_of_a_workspace_knows_where_the_workspace_was(tmp_path: Path) -> None:
    session = Session(id="a")
    root = str(tmp_path)
    assert held_in_workspace(session, root, "") == {}
    assert held_in_workspace(session, root, os.path.dirname(root)) == {}
    assert held_in_workspace(session, root, f"{root}side") == {}
    session.extra |= held_in_workspace(session, root, f"{root}/src")
    assert tops_of(session) == [root]
    assert held_in_workspace(session, root, root) == {}
    session.extra |= held_in_workspace(session, "/other", "/other")
    assert tops_of(session) == ["/other", root]


@pytest.mark.parametrize("value", ["/x", [3, None], {"a": 1}, ["relative"]])
def test_invalid_folders_of_a_session_are_ignored(value: object) -> None:
    assert tops_of(Session(id="a", extra={"held_in": value, "project": 5})) == []


def test_the_top_of_a_folder_is_found_without_git(tmp_path: Path) -> None:
    pond = make_repository(tmp_path / "pond")
    assert top_of(str(pond / "api")) == str(pond)
    assert top_of(str(tmp_path)) == ""
    assert Git(str(tmp_path)).root_commits(1.0) == []


@pytest.mark.req("SESS-003d")
@pytest.mark.parametrize("packed", [False, True])
def test_branch_and_commit_are_read_as_git_says_them(tmp_path: Path, packed: bool) -> None:
    pond = make_repository(tmp_path / "pond")
    git(pond, "worktree", "add", "-q", "-b", "feature/x", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "second")
    if packed:
        git(pond, "pack-refs", "--all")
    for folder, branch in ((pond, "main"), (pond / "api", "main"), (tmp_path / "tree", "feature/x")):
        assert checkout_of(str(folder)) == Checkout(branch, git(folder, "rev-parse", "HEAD").strip()[:9])
    git(pond, "checkout", "-q", "--detach")
    assert checkout_of(str(pond)) == Checkout("", git(pond, "rev-parse", "HEAD").strip()[:9])


@pytest.mark.req("SESS-003d")
def test_what_is_no_checkout_is_not_known(tmp_path: Path) -> None:
    assert checkout_of(str(tmp_path)) == checkout_of("relative") == Checkout()
    git(tmp_path, "init", "-q", "-b", "new")
    assert checkout_of(str(tmp_path)) == Checkout("new")
    for head in ("ref: refs/heads/.invalid", "ref: refs/../../secret", "", "garbage", "ref: refs/heads/a\x1bb"):
        (tmp_path / ".git" / "HEAD").write_text(head, encoding="utf-8")
        assert checkout_of(str(tmp_path)) == Checkout()
    assert Checkout.of({"a": 1}, "main; rm -rf") == Checkout()
