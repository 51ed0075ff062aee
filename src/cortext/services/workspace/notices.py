"""What happened while nobody looked, kept until somebody does: one line each, told once."""

from __future__ import annotations

import os

from cortext.config import settings as config
from cortext.io import files as fsio


def _path() -> str:
    return os.path.join(config.data_folder(), "notices")


def leave(lines: list[str]) -> None:
    """Leave word for the next command that a person runs."""
    if lines:
        fsio.ensure_folder(config.data_folder())
        fsio.append_once(_path(), "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


def take() -> list[str]:
    """What was left, which is then gone."""
    try:
        lines = fsio.read_text(_path(), "replace").splitlines()
    except OSError:
        return []
    fsio.remove(_path())
    return lines
