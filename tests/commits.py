"""The commits since the rule: a subject of at most 72 characters that names the change, and a body that says why.

python -m tests.commits          check what is on this branch; `bin/check` does it
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEFORE = "3e7607df63"  # the last commit before the rule
REFUSED_LATER = ("82cab272", "6b9516f4")  # their bodies give no reason; they are older than that rule
LONGEST = 72
# What says nothing about a change.
_EMPTY = {"fix", "fixes", "wip", "update", "changes", "misc", "cleanup"}
# Sentences that give no reason: they point at the subject, or say what was not done.
_NO_REASON = re.compile(
    r"(?:(?:please )?(?:see|read|as in|as said in|same as) (?:the )?(?:subject|title|commit|diff|code|above)\b[^.:;!]*"
    r"|as (?:the )?(?:subject|title) says|(?:there is )?nothing (?:else|more|to add)\b[^.:;!]*"
    r"|no (?:other|further) changes?|self[- ]explanatory|minor changes?|cleanup|refactoring)[.:;!\s]*",
    re.IGNORECASE,
)
LEAST_WORDS = 4  # of a reason


def problems(subject: str, body: str) -> Iterator[str]:
    """Yield what is wrong with a commit's message."""
    if len(subject) > LONGEST:
        yield f"the subject has {len(subject)} characters, at most {LONGEST} are allowed"
    if subject.endswith("."):
        yield "the subject ends with a full stop"
    if subject.strip().lower() in _EMPTY:
        yield "the subject does not name the change"
    if not body.strip():
        yield "the body, which says why, is missing"
    elif len(_NO_REASON.sub(" ", f"{body.replace(subject, '')} ").split()) < LEAST_WORDS:
        yield "the body gives no reason"


def checked(folder: Path, before: str = BEFORE) -> tuple[int, list[str]]:
    """Return how many commits were checked, and every problem; merges are left out."""
    known = subprocess.run(["git", "-C", folder, "cat-file", "-e", before], capture_output=True, check=False)
    if known.returncode:
        return 0, []  # a shallow clone
    command = ["git", "-C", str(folder), "log", "--no-merges", "--format=%h%x00%s%x00%b%x01", f"{before}..HEAD"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    commits = [commit.strip("\n").split("\0") for commit in said.split("\x01") if commit.strip()]
    return len(commits), [
        f"{number} {subject[:60]}: {problem}"
        for number, subject, body in commits
        if not number.startswith(REFUSED_LATER)
        for problem in problems(subject, body)
    ]


def main() -> int:
    """Print the problems; 1 if there are any."""
    count, wrong = checked(ROOT)
    print(
        "\n".join(wrong) if wrong else f"{count} commits since {BEFORE}" if count else f"no history since {BEFORE} here"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
