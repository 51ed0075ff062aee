"""The check of commit messages (`tests/commits.py`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commits import LONGEST, checked, problems


def test_a_message_with_a_subject_and_a_reason_passes() -> None:
    assert list(problems("s" * LONGEST, "Why it was done.")) == []


def test_a_long_or_empty_subject_and_a_missing_reason_are_named() -> None:
    wrong = {
        ("s" * (LONGEST + 1), "why"): "73 characters",
        ("Add a thing.", "why"): "full stop",
        ("wip", "why"): "does not name",
        ("Add a thing", "\n \n"): "missing",
    }
    for (subject, body), word in wrong.items():
        assert [problem for problem in problems(subject, body) if word in problem], (subject, body)


@pytest.mark.parametrize(
    "body",
    [
        "See the subject: nothing else changed.",
        "As the subject says.",
        "Cleanup.",
        "Name the change.",
        "see above",
        "Yes.",
    ],
)
def test_a_body_that_gives_no_reason_is_refused(body: str) -> None:
    assert list(problems("Name the change", body)) == ["the body gives no reason"]


def test_commits_after_the_given_one_are_checked(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        settings = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *settings, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "-m", "x" * 100)
    before = git("rev-parse", "HEAD")
    git("commit", "--quiet", "--allow-empty", "-m", "Name the change", "-m", "Because two readers saw it.")
    assert checked(tmp_path, before) == (1, [])
    git("commit", "--quiet", "--allow-empty", "-m", "No reason")
    count, wrong = checked(tmp_path, before)
    assert count == 2 and len(wrong) == 1 and "No reason" in wrong[0] and "missing" in wrong[0]
    assert checked(tmp_path, "0" * 40) == (0, [])
