"""Pages that Codex compressed with zstd, because nothing was said in them for a week.

Python has the format since 3.14; before, a library is needed (`EXTRA`), and without it such a page is named as not
read.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import lru_cache
from importlib import import_module
from typing import Any

from cortext.distribution import install_hint
from cortext.errors import DamagedData
from cortext.io import durable

ENDING = ".zst"
EXTRA = "zst"


def unread() -> str:
    """Return the kind of record that a page is without the library."""
    return f"compressed page (.zst; {install_hint(EXTRA)})"


@lru_cache(maxsize=1)
def library() -> Any:
    """Return the module that unpacks zstd; None if there is none."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def first_bytes(path: str, size: int) -> bytes:
    """Return the beginning of a compressed page, unpacked; empty if it cannot be read."""
    zstd = library()
    if zstd is None:
        return b""
    try:
        with open(path, "rb", opener=durable.plain_file) as packed, zstd.open(packed) as file:
            return bytes(file.read(size))
    except (OSError, EOFError, zstd.ZstdError):
        return b""


def plain(path: str) -> str:
    """Return the path of a page's lines: of a compressed page, that of a copy that lasts as long as this process.

    Empty if there is no library for it; raise DamagedData if the page cannot be unpacked.
    """
    if not path.endswith(ENDING):
        return path
    if library() is None:
        return ""
    status = os.stat(path)
    return _unpacked(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _unpacked(path: str, size: int, changed: int) -> str:
    zstd = library()
    with tempfile.NamedTemporaryFile(dir=_folder(), suffix=".jsonl", delete=False) as target:
        try:
            with open(path, "rb", opener=durable.plain_file) as packed, zstd.open(packed) as file:
                shutil.copyfileobj(file, target, 1 << 20)
        except (EOFError, zstd.ZstdError) as error:
            raise DamagedData(f"{path} cannot be unpacked: {error}", kept="it is unchanged") from error
        return target.name


@lru_cache(maxsize=1)
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="cortext-zst-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
