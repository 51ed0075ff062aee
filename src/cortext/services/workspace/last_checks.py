"""When `cortext doctor` last found nothing damaged on a server, so that the next run counts only what changed since."""

from __future__ import annotations

import os

import msgspec

from cortext.config import folders
from cortext.errors import WriteFailed
from cortext.io import durable


def last_check(root: str) -> str:
    """Return when this store was last found undamaged; empty if never."""
    return _read().get(root, "")


def record(root: str, at: str) -> None:
    """Record that this store was undamaged at this time. A failure only means that the next run counts more."""
    try:
        durable.ensure_folder(folders.state())
        durable.replace_file(_path(), [msgspec.json.encode(_read() | {root: at})])
    except (OSError, WriteFailed):
        pass


def _read() -> dict[str, str]:
    try:
        return msgspec.json.decode(durable.read_file(_path()), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def _path() -> str:
    return os.path.join(folders.state(), "checked.json")
