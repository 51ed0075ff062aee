"""What ordinary git commands take out of the work tree stays listed, found, shown and resumed, and comes back."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cortext.services.projects.safety_copies import all_copies
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext, git, run

TALK = ("Where do the kingfishers nest?", "In the north bank.", "And the bitterns?", "In the reeds.")


@pytest.fixture
def pond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed workspace on branch main; plain git merges conversations with our driver."""
    folder = committed_workspace(tmp_path / "pond", monkeypatch)
    git(folder, "branch", "-M", "main")
    return folder


def held(pond: Path, *, stop: bool = True) -> ClaudeTalk:
    """Hold a conversation; with `stop`, it is paused and committed."""
    talk = ClaudeTalk(pond)
    talk.prompt("/workspace.brainstorm waders")
    talk.answer("Which ones?")
    talk.say(*TALK)
    if stop:
        assert cortext("stop", cwd=pond).code == 0
    return talk


def in_tree(folder: Path) -> list[Path]:
    return list(folder.glob("conversations/*/*/.session/messages.jsonl"))


def copies_folder() -> Path:
    return Path(all_copies())


def text_of(folder: Path) -> str:
    (log,) = in_tree(folder)
    return log.read_text(encoding="utf-8")


# ── the commands of git, each ending with the conversation (or its end) outside the work tree ────────


def _checkout(pond: Path) -> None:
    git(pond, "checkout", "-qb", "feature")
    held(pond)
    git(pond, "checkout", "-q", "main")


def _branch_deleted(pond: Path) -> None:
    _checkout(pond)
    git(pond, "branch", "-qD", "feature")


def _rebase_aborted(pond: Path) -> None:
    (pond / "notes").write_text("one\n", encoding="utf-8")
    git(pond, "add", "notes")
    git(pond, "commit", "-qm", "one")
    git(pond, "checkout", "-qb", "feature", "HEAD~1")
    (pond / "notes").write_text("two\n", encoding="utf-8")
    git(pond, "add", "notes")
    git(pond, "commit", "-qm", "two")
    assert run(["git", "-C", str(pond), "rebase", "-q", "main"]).code != 0
    held(pond)
    git(pond, "rebase", "--abort")


def _detached(pond: Path) -> None:
    git(pond, "checkout", "-q", "--detach")
    held(pond)
    git(pond, "checkout", "-q", "main")


def _stashed(pond: Path) -> None:
    held(pond, stop=False)
    git(pond, "stash", "-qu")


def _cleaned(pond: Path) -> None:
    held(pond, stop=False)
    git(pond, "clean", "-qfdx")


def _reset(pond: Path) -> None:
    held(pond)
    git(pond, "reset", "-q", "--hard", "HEAD~1")


def _filtered(pond: Path) -> None:
    held(pond)
    env = {"FILTER_BRANCH_SQUELCH_WARNING": "1"}
    only = "git rm -rq --cached --ignore-unmatch conversations"
    done = run(["git", "-C", str(pond), "filter-branch", "-f", "--index-filter", only, "HEAD"], env=env)
    assert done.code == 0, done.err


def _collected(pond: Path) -> None:
    _branch_deleted(pond)
    git(pond, "reflog", "expire", "--expire=now", "--all")
    git(pond, "gc", "-q", "--prune=now")


LEAVING: list[tuple[Callable[[Path], None], str]] = [
    (_checkout, "on branch feature"),
    (_branch_deleted, "not in any branch"),
    (_rebase_aborted, "not in any branch"),
    (_detached, "not in any branch"),
    (_stashed, "in the stash"),
    (_cleaned, "not in any branch"),
    (_reset, "not in any branch"),
    (_filtered, "at refs/original/refs/heads/main"),
    (_collected, "not in any branch"),
]


@pytest.mark.req("STORE-03")
@pytest.mark.parametrize(("leave", "place"), LEAVING, ids=[leave.__name__[1:] for leave, _ in LEAVING])
def test_what_git_takes_away_is_listed_found_shown_and_comes_back(
    pond: Path, leave: Callable[[Path], None], place: str
) -> None:
    leave(pond)
    assert in_tree(pond) == []
    (row,) = cortext("list", "--json", cwd=pond).json
    assert (row["message_count"], row["place"]) == (6, place)
    assert place in cortext("list", cwd=pond).err
    assert {hit["session"]["id"] for hit in cortext("search", "--json", "bitterns", cwd=pond).json} == {row["id"]}
    shown = cortext("show", row["id"], cwd=pond)
    assert all(text in shown.out for text in TALK)
    printed = cortext("resume", "--print", row["id"], cwd=pond)
    assert printed.code == 0 and all(text in printed.out for text in TALK)
    for command in ("doctor", "rescue"):
        done = cortext(command, cwd=pond)
        assert done.code == 0 and row["id"] in done.out and place in done.out, done.out + done.err
    back = cortext("restore", row["id"], cwd=pond)
    assert back.code == 0 and row["id"] in back.out, back.err
    assert all(text in text_of(pond) for text in TALK)
    (again,) = cortext("list", "--json", cwd=pond).json
    assert (again["id"], again["message_count"], "place" in again) == (row["id"], 6, False)


@pytest.mark.req("STORE-03")
def test_the_end_that_git_took_away_is_shown_and_the_next_message_follows_it(pond: Path) -> None:
    talk = held(pond)
    talk.say("Do the grebes dive?", "All day.")
    assert cortext("stop", cwd=pond).code == 0
    git(pond, "reset", "-q", "--hard", "HEAD~1")
    assert "All day." not in text_of(pond)
    (row,) = cortext("list", "--json", cwd=pond).json
    assert row["message_count"] == 8
    assert "All day." in cortext("show", row["id"], cwd=pond).out
    assert {hit["session"]["id"] for hit in cortext("search", "--json", "grebes", cwd=pond).json} == {row["id"]}
    assert "2 messages of it left the work tree" in cortext("doctor", cwd=pond).out
    talk.say("And the coots?", "They too.")
    assert [line.count("All day.") + line.count("They too.") for line in text_of(pond).splitlines()][-3:] == [1, 0, 1]
    assert "left the work tree" not in cortext("doctor", cwd=pond).out


@pytest.mark.req("STORE-03")
def test_a_chat_that_goes_on_after_a_checkout_brings_its_conversation_along(pond: Path) -> None:
    git(pond, "checkout", "-qb", "feature")
    talk = held(pond)
    git(pond, "checkout", "-q", "main")
    talk.say("Do the grebes dive?", "All day.")
    assert all(text in text_of(pond) for text in (*TALK, "All day."))
    assert cortext("stop", cwd=pond).code == 0
    done = run(["git", "-C", str(pond), "merge", "-q", "feature", "-m", "merged"])
    assert done.code == 0, done.err
    assert len(cortext("list", "--json", cwd=pond).json) == 1
    assert all(text_of(pond).count(text) == 1 for text in (*TALK, "All day."))


@pytest.mark.req("STORE-03")
def test_a_chat_that_goes_on_while_it_is_in_the_stash_names_the_way_out(pond: Path) -> None:
    talk = held(pond, stop=False)
    git(pond, "stash", "-qu")
    talk.say("Do the grebes dive?", "All day.")
    notes = cortext("list", cwd=pond).err
    assert cortext("list", cwd=pond).err == "", "it is said once"
    assert run(["git", "-C", str(pond), "stash", "pop"]).code != 0

    (log,) = in_tree(pond)
    folder = log.parents[1]
    assert f"`git stash pop` fails: first move {folder.relative_to(pond)} away" in notes, notes
    folder.rename(pond.parent / "aside")
    git(pond, "stash", "pop", "-q")
    assert "All day." not in text_of(pond)
    assert f"`cortext restore {folder.name}` adds" in notes
    assert cortext("restore", folder.name, cwd=pond).code == 0
    assert all(text_of(pond).count(text) == 1 for text in (*TALK, "All day."))


@pytest.mark.req("STORE-03")
@pytest.mark.parametrize("command", ["restore", "stop"])
def test_the_command_that_brings_a_conversation_back_says_that_it_is_in_the_stash(pond: Path, command: str) -> None:
    _stashed(pond)
    (row,) = cortext("list", "--json", cwd=pond).json
    assert "in the stash, too" in cortext(command, row["id"], cwd=pond).err
    assert cortext("list", cwd=pond).err == ""


@pytest.mark.req("STORE-03")
def test_sync_stores_a_transcript_again_whose_session_is_nowhere(pond: Path) -> None:
    _branch_deleted(pond)
    shutil.rmtree(copies_folder())
    assert cortext("list", "--json", cwd=pond).json == []
    assert cortext("sync", cwd=pond).code == 0
    assert all(text in text_of(pond) for text in TALK)


@pytest.mark.req("STORE-03")
def test_what_two_branches_said_apart_is_kept_when_one_of_them_is_deleted(pond: Path) -> None:
    talk = held(pond)
    (row,) = cortext("list", "--json", cwd=pond).json
    git(pond, "checkout", "-qb", "feature")
    talk.say("Do the grebes dive?", "All day.")
    assert cortext("stop", cwd=pond).code == 0
    git(pond, "checkout", "-q", "main")
    other = (
        text_of(pond).splitlines()[-1].replace("In the reeds.", "From another machine.").replace('"id": "', '"id": "x')
    )
    (log,) = in_tree(pond)
    log.write_text(f"{log.read_text(encoding='utf-8')}{other}\n", encoding="utf-8")
    assert cortext("note", row["id"], "looked at", cwd=pond).code == 0
    git(pond, "branch", "-qD", "feature")
    doctor = cortext("doctor", cwd=pond).out
    assert "2 messages of it left the work tree" in doctor
    assert cortext("restore", row["id"], cwd=pond).code == 0
    assert all(text_of(pond).count(text) == 1 for text in (*TALK, "All day.", "From another machine."))
    assert "left the work tree" not in cortext("doctor", cwd=pond).out


@pytest.mark.req("STORE-03")
def test_a_deleted_conversation_does_not_come_back_by_itself(pond: Path) -> None:
    held(pond, stop=False)
    (row,) = cortext("list", "--json", cwd=pond).json
    assert cortext("delete", row["id"], cwd=pond).code == 0
    git(pond, "clean", "-qfdx")
    for command in (("sync",), ("import",), ("rescue", "--yes")):
        assert cortext(*command, cwd=pond).code == 0
    assert cortext("list", "--json", cwd=pond).json == []
    assert in_tree(pond) == []


@pytest.mark.req("STORE-03")
def test_a_removed_work_tree_leaves_its_conversations_to_the_repository(pond: Path, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    git(pond, "worktree", "add", "-q", "-b", "feature", str(aside))
    held(aside, stop=False)
    (row,) = cortext("list", "--json", cwd=pond).json
    assert row["workspace"] == str(aside)
    git(pond, "worktree", "remove", "--force", str(aside))
    (row,) = cortext("list", "--json", cwd=pond).json
    assert (row["workspace"], row["message_count"], row["place"]) == (str(pond), 6, "not in any branch")
    assert cortext("restore", row["id"], cwd=pond).code == 0
    assert all(text in text_of(pond) for text in TALK)


@pytest.mark.req("STORE-03")
def test_a_workspace_that_clean_removed_is_still_listed(pond: Path) -> None:
    bare = pond.parent / "bare"
    bare.mkdir()
    git(bare, "init", "-q")
    (bare / "readme").write_text("heron\n", encoding="utf-8")
    git(bare, "add", ".")
    git(bare, "commit", "-qm", "readme")
    assert cortext("init", "--ai", "claude", cwd=bare).code == 0
    held(bare, stop=False)
    git(bare, "clean", "-qfdx")
    assert not (bare / ".workspace").exists()
    (row,) = cortext("list", "--json", cwd=bare).json
    assert (row["message_count"], row["place"]) == (6, "not in any branch")
    assert cortext("restore", row["id"], cwd=bare).code == 0
    assert all(text in text_of(bare) for text in TALK)


@pytest.mark.req("STORE-03")
def test_what_another_branch_has_is_listed_although_it_was_never_copied(pond: Path) -> None:
    """It was held by an older version, or fetched. Git is not asked again until a branch changes."""
    git(pond, "checkout", "-qb", "feature")
    held(pond)
    shutil.rmtree(copies_folder())
    assert len(cortext("list", "--json", cwd=pond).json) == 1
    git(pond, "checkout", "-q", "main")
    (row,) = cortext("list", "--json", cwd=pond).json
    assert (row["message_count"], row["place"]) == (6, "on branch feature")
    assert all(text in cortext("show", row["id"], cwd=pond).out for text in TALK)
    stamp = next(copies_folder().glob("*/branches.json"))
    changed = stamp.stat().st_mtime_ns
    assert cortext("list", cwd=pond).code == 0 and stamp.stat().st_mtime_ns == changed
    git(pond, "merge", "-q", "feature")
    assert [row.get("place") for row in cortext("list", "--json", cwd=pond).json] == [None]


@pytest.mark.req("STORE-03")
def test_a_git_that_fails_to_read_the_branches_is_named_and_asked_again(
    pond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(pond, "checkout", "-qb", "feature")
    held(pond)
    git(pond, "checkout", "-q", "main")
    shutil.rmtree(copies_folder())
    # As slow as a long history on a slow disk: the exit status is that of a command that ran past its time.
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *" log --stdin"*) exit 124;; esac\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{path}")
    first = cortext("list", cwd=pond)
    shown = first.err + cortext("list", cwd=pond).err
    assert shown.count("git did not say within 5 s which conversations only other branches of") == 1, shown
    ailing = cortext("doctor", cwd=pond)
    assert "git did not say within 120 s" in ailing.out and "run `git gc`" in ailing.out
    monkeypatch.setenv("PATH", path)
    assert "git did not say" not in cortext("doctor", cwd=pond).out
    (row,) = cortext("list", "--json", cwd=pond).json
    assert row["place"] == "on branch feature"


@pytest.mark.req("STORE-03")
def test_a_conversation_that_was_removed_from_a_branch_stays_removed_there(pond: Path) -> None:
    held(pond)
    git(pond, "branch", "feature")
    (row,) = cortext("list", "--json", cwd=pond).json
    assert cortext("delete", row["id"], cwd=pond).code == 0
    git(pond, "add", "-A")
    run(["git", "-C", str(pond), "commit", "-qm", "removed"])
    shutil.rmtree(copies_folder())
    assert cortext("list", "--json", cwd=pond).json == []


@pytest.mark.req("STORE-03")
def test_copies_follow_a_repository_that_was_moved(pond: Path) -> None:
    _checkout(pond)
    moved = pond.rename(pond.parent / "lake")
    (row,) = cortext("list", "--json", cwd=moved).json
    assert (row["workspace"], row["place"]) == (str(moved), "on branch feature")


@pytest.mark.req("STORE-09", "SAFE-02")
def test_a_copy_is_private_and_a_secret_removed_from_the_session_is_not_in_it(pond: Path) -> None:
    secret = "ghp_" + "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"
    held(pond, stop=False)
    copies = copies_folder()
    logs = [*in_tree(pond), *copies.rglob("messages.jsonl")]  # as an older version captured it
    for log in logs:
        log.write_text(log.read_text(encoding="utf-8").replace("In the reeds.", f"In {secret}."), encoding="utf-8")
    assert len(logs) == 2
    assert cortext("stop", cwd=pond).code == 0
    assert not any(secret in path.read_text(encoding="utf-8") for path in copies.rglob("*") if path.is_file())
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (copies, *copies.rglob("*"))}
    assert modes == {(True, 0o700), (False, 0o600)}
