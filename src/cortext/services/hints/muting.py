"""Which kinds of hints the user does not find helpful: each time, such hints need to be twice as specific."""

from __future__ import annotations

import hashlib
import os

import msgspec

from cortext.config import folders
from cortext.io import files as fsio
from cortext.services.hints.hints import KINDS


def weights(workspace: str) -> dict[str, float]:
    """Return the weight of each kind in a workspace: 1, halved by each mute."""
    return {kind: 0.5**times for kind, times in _load(workspace).items()}


def mute(workspace: str, kind: str) -> float:
    """Lower the weight of a kind; return the new one."""
    muted = _load(workspace)
    muted[kind] = muted.get(kind, 0) + 1
    fsio.ensure_folder(os.path.dirname(_path(workspace)))
    fsio.replace_file(_path(workspace), [msgspec.json.encode(muted)])
    return weights(workspace)[kind]


def unmute(workspace: str) -> None:
    """Give every kind its full weight again."""
    fsio.remove(_path(workspace))


def _path(workspace: str) -> str:
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
    return os.path.join(folders.state(), "hints", f"{name}.json")


def _load(workspace: str) -> dict[str, int]:
    try:
        known = msgspec.json.decode(fsio.read_file(_path(workspace)), type=dict[str, int])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return {kind: min(max(0, known[kind]), 10) for kind in KINDS if kind in known}
