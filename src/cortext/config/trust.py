"""Which workspaces the user trusts, and so which of their settings count.

What is remembered is a mark for the folder and its settings as they were when the user said so.
"""

from __future__ import annotations

import hashlib
import os

from cortext.config import folders
from cortext.config.load import load
from cortext.config.schema import Settings
from cortext.io import files as fsio


def settings_of(workspace: str) -> Settings:
    """The settings that count in a workspace, or outside any if this is empty."""
    return load(workspace, trusted=bool(workspace) and is_trusted(workspace))


def is_trusted(workspace: str) -> bool:
    """Whether the user said that the settings of this workspace, as they are now, may do everything."""
    try:
        marks = fsio.read_text(_trusted_file(), "surrogateescape").split("\n")
        return _mark(workspace) in marks
    except OSError:
        return False


def trust(workspace: str) -> None:
    """Remember that the user trusts the settings of this workspace."""
    fsio.ensure_folder(folders.data())
    fsio.append_once(_trusted_file(), _mark(workspace).encode("utf-8", "surrogateescape") + b"\n")


def _mark(workspace: str) -> str:
    """The hash of the settings with the folder: after a change of the file the user is asked again."""
    try:
        digest = hashlib.sha256(fsio.read_file(folders.checked_workspace_file(workspace))).hexdigest()
    except OSError:
        digest = "none"
    return f"{digest} {workspace}"


def _trusted_file() -> str:
    return os.path.join(folders.data(), "trusted")
