"""Shared by the installers: one installation at a time, and package manager output without URLs."""

from __future__ import annotations

import fcntl
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_at_a_time(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock of one installation; the lock file stays, because removing it could admit two."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{name}.lock", "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def refusal(command: list[str], cwd: Path, seconds: float, env: Mapping[str, str] | None = None) -> str:
    """Run a package manager; return the end of its output if it failed, otherwise an empty string."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
        check=False,
    )
    said = re.sub(r"\w+://\S+", "<address>", done.stdout[-2000:])
    return said.strip() or f"status {done.returncode}" if done.returncode else ""
