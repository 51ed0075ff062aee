"""`cortext resume --commit`: the conversation behind a commit, a merge or a pull request, and what a commit names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faces.test_why import BODY, Agent, commit, heron, project
from tests.support.cli import Ran, cortext, run

__all__ = ["project"]  # the fixture

CHECKPOINT = "0123456789ab"
PLANNER = "33333333-3333-4333-8333-333333333333"
EGRET = BODY.replace("heron", "egret")


def resume(folder: Path, name: str, *words: str) -> Ran:
    """Store what is new and ask for the conversation behind a commit, without opening it."""
    assert cortext("sync", cwd=folder).code == 0
    return cortext("resume", f"--commit={name}", "--dry-run", "--ai", "claude", *words, cwd=folder)


def git(folder: Path, *words: str) -> str:
    """Run git; return what it prints."""
    done = run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *words], cwd=folder)
    assert done.code == 0, done.err
    return done.out.strip()


def egret(folder: Path, start: int) -> Agent:
    """Have another agent write another file."""
    agent = Agent(folder, "22222222-2222-4222-8222-222222222222", start=start).user("Now the egrets, please.")
    return agent.write("src/egret.py", EGRET)


@pytest.mark.req("FIND-07")
def test_a_commit_opens_the_conversation_that_wrote_it(project: Path) -> None:
    agent = heron(project).save()
    sha = commit(project, agent.time + 60)
    found = resume(project, sha[:10])
    assert found.code == 0 and agent.key in found.out, found.err
    for words in (("--commit", "HEAD", "something"), ("--commit", "HEAD", "--in-tool")):
        assert "name either a conversation or a commit" in cortext("resume", *words, cwd=project).err
    assert "no commit is named 'nonsense'" in resume(project, "nonsense").err


@pytest.mark.req("FIND-07")
def test_a_squashed_pull_request_opens_the_one_that_wrote_most_of_it(project: Path) -> None:
    agent = heron(project).save()
    other = egret(project, agent.time + 10)
    (project / "src/egret.py").write_text("".join(EGRET.splitlines(keepends=True)[:2]), encoding="utf-8")
    other.save()
    commit(project, other.time + 60, "Herons and an egret (#7)")
    (project / "notes.md").write_text("A person thought about the wading birds again.\n", encoding="utf-8")
    commit(project, other.time + 600, "Take back the beginning of it (#7) (#8)")
    for name in ("#7", "https://git.example/ponds/pond/pull/7", "https://git.example/ponds/pond/pull/7/files"):
        found = resume(project, name)
        assert found.code == 0 and agent.key in found.out and other.key not in found.out, found.err
    nobody = resume(project, "#8")
    assert nobody.code == 1 and "no stored conversation is known to be behind #8" in nobody.err
    assert "cortext why --commit" in nobody.err
    assert "no commit here names pull request #9" in resume(project, "#9").err


@pytest.mark.req("FIND-07")
def test_a_merge_stands_for_the_commits_that_it_brought(project: Path) -> None:
    (project / "a.txt").write_text("The first line of the pond.\n", encoding="utf-8")
    commit(project, 1_780_000_000)
    git(project, "checkout", "-q", "-b", "side")
    agent = heron(project).save()
    commit(project, agent.time + 60, "Herons")
    (project / "b.txt").write_text("A person writes of the second shore.\n", encoding="utf-8")
    commit(project, agent.time + 70, "A shore")
    git(project, "checkout", "-q", "main")
    git(project, "merge", "-q", "--no-ff", "side", "-m", "Merge pull request #12 from pond/side")
    for name in ("HEAD", "#12"):
        found = resume(project, name)
        assert found.code == 0 and agent.key in found.out, (name, found.err)


@pytest.mark.req("FIND-07")
def test_of_two_with_the_same_share_one_is_to_be_chosen(project: Path) -> None:
    agent = heron(project).save()
    other = egret(project, agent.time + 10).save()
    commit(project, other.time + 60, "Birds")
    found = resume(project, "HEAD")
    assert found.code != 0 and agent.key in found.err and other.key in found.err
    assert "'HEAD' could be" in found.err and "why --commit" in found.err
    listed = cortext("resume", "--commit", "HEAD", "--list", "--json", cwd=project)
    assert {agent.key, other.key} == {row["id"].removeprefix("claude-") for row in listed.json}


def checkpoint(folder: Path, metadata: str, path: str = f"{CHECKPOINT[:2]}/{CHECKPOINT[2:]}/0/metadata.json") -> None:
    """Put metadata on the branch of checkpoints, beside the history."""
    git(folder, "checkout", "-q", "--orphan", "entire/checkpoints/v1")
    git(folder, "rm", "-rfq", "--cached", "--ignore-unmatch", ".")
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(metadata, encoding="utf-8")
    git(folder, "add", "-f", path)
    git(folder, "commit", "-q", "-m", f"Checkpoint: {CHECKPOINT}")
    git(folder, "checkout", "-qf", "main")


@pytest.mark.req("FIND-07")
def test_a_session_that_a_commit_names_comes_first(project: Path) -> None:
    agent = heron(project).save()
    planner = Agent(project, PLANNER).user("Plan the herons.").said("Planned.").save()
    commit(project, agent.time + 60, f"Herons\n\nEntire-Checkpoint: {CHECKPOINT}")
    assert agent.key in resume(project, "HEAD").out, "without the metadata, what was written counts"
    checkpoint(project, json.dumps({"checkpoint_id": CHECKPOINT, "session_id": f"2026-09-21-{planner.key}", "x": [1]}))
    found = resume(project, "HEAD")
    assert found.code == 0 and planner.key in found.out and agent.key not in found.out
    origins = cortext("why", "--commit", "HEAD", "--json", cwd=project).json["origins"]
    named = [(one["session"]["id"], one["confidence"], one["named_by_commit"]) for one in origins]
    assert named == [(f"claude-{planner.key}", "high", True), (f"claude-{agent.key}", "high", False)]
    shown = cortext("why", "--commit", "HEAD", cwd=project).out
    assert "high confidence: the commit names it" in shown and "it wrote 0 of" not in shown


@pytest.mark.req("FIND-07")
@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "[" * 100_000,
        json.dumps({"checkpoint_id": "ffffffffffff", "session_id": PLANNER}),
        json.dumps({"checkpoint_id": CHECKPOINT, "session_id": [PLANNER]}),
        json.dumps({"checkpoint_id": CHECKPOINT, "session_id": f"../../{PLANNER}\n"}),
        json.dumps({"checkpoint_id": CHECKPOINT, "session_id": PLANNER, "x": "y" * 70_000}),
    ],
)
def test_metadata_that_is_not_as_expected_is_no_evidence(project: Path, metadata: str) -> None:
    agent = heron(project).save()
    planner = Agent(project, PLANNER).user("Plan the herons.").said("Planned.").save()
    commit(project, agent.time + 60, f"Herons\n\nEntire-Checkpoint: {CHECKPOINT}")
    checkpoint(project, metadata)
    found = resume(project, "HEAD")
    assert found.code == 0 and agent.key in found.out and planner.key not in found.out, found.err
