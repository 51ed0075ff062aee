"""A git repository that publishes its agents' transcripts: which conversations each commit came from is known.

Its commits have a trailer `Entire-Checkpoint: ID`, and the branch `entire/checkpoints/v1` has a folder per id with the
transcripts (`full.jsonl`) and the session of each (`metadata.json`). The repository is given by path.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import NamedTuple

BRANCH = "entire/checkpoints/v1"
TRAILER = "%(trailers:key=Entire-Checkpoint,valueonly,separator=%x2C)"
DATED = re.compile(r"\d{4}-\d\d-\d\d-")


class Published(NamedTuple):
    """The conversations of each commit that has any (None: no trailer), and those whose transcripts were written."""

    sessions: dict[str, set[str] | None]
    authors: dict[str, str]
    present: set[str]


def git(folder: str, *words: str, env: dict[str, str] | None = None) -> str:
    """Run git; return what it prints."""
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, check=True, env=env)
    return done.stdout.decode("utf-8", "replace")


def publish(repository: str, target: str) -> Published:
    """Write the longest version of every transcript into a folder; return which commit came from which."""
    blobs = {}
    for line in git(repository, "ls-tree", "-r", "-l", BRANCH).splitlines():
        listed, path = line.split("\t")
        _, _, name, length = listed.split()
        blobs[path] = (name, int(length) if length.isdigit() else -1)  # the largest may be missing in a snapshot

    def contents(sha: str) -> bytes:
        done = subprocess.run(["git", "-C", repository, "cat-file", "blob", sha], capture_output=True, check=True)
        return done.stdout

    longest: dict[str, tuple[int, str]] = {}
    checkpoints: dict[str, set[str]] = {}
    for path, (sha, size) in blobs.items():
        if os.path.basename(path) == "full.jsonl":
            facts = json.loads(contents(blobs[f"{os.path.dirname(path)}/metadata.json"][0]))
            session = DATED.sub("", facts["session_id"])
            checkpoints.setdefault(facts["checkpoint_id"], set()).add(session)
            longest[session] = max(longest.get(session, (-1, "")), (size, sha))
    os.makedirs(target, exist_ok=True)
    present = set()
    for session, (size, sha) in longest.items():
        text = contents(sha) if size >= 0 else b""
        if b'"sessionId"' in text[:200_000] and b"\n{" in text[:200_000]:  # else of another tool, in one document
            with open(os.path.join(target, f"{session}.jsonl"), "wb") as file:
                file.write(text)
            present.add(session)
    sessions: dict[str, set[str] | None] = {}
    authors: dict[str, str] = {}
    for line in git(repository, "log", "--all", f"--format=%H%x02%an%x02{TRAILER}").splitlines():
        commit, author, named = line.split("\x02")
        ids = [one.strip() for one in named.split(",") if one.strip()]
        authors[commit] = author
        sessions[commit] = set().union(*(checkpoints.get(one, set()) for one in ids)) if ids else None
    return Published(sessions, authors, present)
