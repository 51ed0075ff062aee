"""Which workspaces the user trusts, and so which of their settings are used.

Trust is stored as a fingerprint of the folder and its settings file, so a change of the file revokes it.
"""

from __future__ import annotations

import hashlib
import os

from cortext.config import folders
from cortext.config.load import load
from cortext.config.schema import Settings
from cortext.errors import UnsafePath
from cortext.io import durable


def settings_of(workspace: str, *, only_reads: bool = False) -> Settings:
    """Return the settings for a workspace, or for no workspace if this is empty; `only_reads` as in `load`."""
    return load(workspace, trusted=bool(workspace) and is_trusted(workspace), only_reads=only_reads)


def is_trusted(workspace: str) -> bool:
    """Whether the user trusts the settings of this workspace as they are now."""
    try:
        fingerprints = durable.read_text(_trusted_file(), "surrogateescape").split("\n")
        return _fingerprint(workspace) in fingerprints
    except (OSError, UnsafePath):
        return False


def trust(workspace: str) -> None:
    """Store that the user trusts the settings of this workspace as they are now."""
    durable.ensure_folder(folders.data())
    durable.append_once(_trusted_file(), _fingerprint(workspace).encode("utf-8", "surrogateescape") + b"\n")


def _fingerprint(workspace: str) -> str:
    """Return the hash of the settings file and the folder, as one line."""
    try:
        digest = hashlib.sha256(durable.read_file(folders.checked_workspace_file(workspace))).hexdigest()
    except OSError:
        digest = "none"
    return f"{digest} {workspace}"


def _trusted_file() -> str:
    return os.path.join(folders.data(), "trusted")
