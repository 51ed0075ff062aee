"""Which hints the user does not find helpful: those are not given again, and others of their kind must fit better."""

from __future__ import annotations

import hashlib
import os

import msgspec

from cortext.config import folders
from cortext.io import durable
from cortext.services.hints.hints import KINDS

LOWERED = 0.6  # a factor for each mute: after one, only the best hints of a kind reach the bar; after two, none does
MOST = 200  # muted hints that are remembered


class Muted(msgspec.Struct, kw_only=True):
    """What was muted in a workspace: how often each kind, and the keys of the hints."""

    kinds: dict[str, int] = {}
    hints: list[str] = []

    @property
    def weights(self) -> dict[str, float]:
        """The factor for the score of each muted kind."""
        return {kind: LOWERED ** min(max(0, self.kinds[kind]), 10) for kind in KINDS if kind in self.kinds}


def load(workspace: str) -> Muted:
    """Return what is muted in a workspace."""
    try:
        return msgspec.json.decode(durable.read_file(_path(workspace)), type=Muted)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return Muted()


def mute(workspace: str, kind: str, key: str) -> float:
    """Mute a hint and lower the weight of its kind; return the new weight."""
    muted = load(workspace)
    muted.kinds[kind] = muted.kinds.get(kind, 0) + 1
    muted.hints = [*muted.hints, key][-MOST:]
    durable.ensure_folder(os.path.dirname(_path(workspace)))
    durable.replace_file(_path(workspace), [msgspec.json.encode(muted)])
    return muted.weights[kind]


def unmute(workspace: str) -> None:
    """Forget every mute."""
    durable.remove(_path(workspace))


def _path(workspace: str) -> str:
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
    return os.path.join(folders.state(), "hints", f"{name}.json")
