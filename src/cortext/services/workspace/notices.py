"""Notices about what happened in the background, kept until a command shows them: one line each, shown once."""

from __future__ import annotations

import os

from cortext.config import folders
from cortext.io import durable


def _path() -> str:
    return os.path.join(folders.data(), "notices")


def add(lines: list[str]) -> None:
    """Add notices for the next command that a person runs."""
    if lines:
        durable.ensure_folder(folders.data())
        durable.append_once(_path(), "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


def pop() -> list[str]:
    """Return the notices and remove them."""
    try:
        lines = durable.read_text(_path(), "replace").splitlines()
    except OSError:
        return []
    durable.remove(_path())
    return lines
