"""What git may put in the place of a session's file: both sides of a conflict between markers, or a pointer of Git LFS.

A conflict is split into the two sides and, where git shows it, their common ancestor.
"""

from __future__ import annotations

import os

from cortext.io import durable

_POINTER = b"version https://git-lfs.github.com/spec/"
_LARGEST_POINTER = 1024
BEGIN = b"<<<<<<< "
_OURS, _BASE, _THEIRS, _END = BEGIN, b"||||||| ", b"=======", b">>>>>>> "


def is_pointer(path: str) -> bool:
    """Whether a file is a pointer of Git LFS, whose content was not fetched."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_size > _LARGEST_POINTER:
            return False
        return os.pread(descriptor, len(_POINTER), 0) == _POINTER
    finally:
        os.close(descriptor)


class Sides:
    """The lines of each side; `base` holds what is known of the common ancestor, which git shows only on request."""

    def __init__(self) -> None:
        self.base: list[bytes] = []
        self.ours: list[bytes] = []
        self.theirs: list[bytes] = []
        self.all = (self.base, self.ours, self.theirs)
        self.at_end = False  # whether the file ends with the last marker


def sides(raw: bytes) -> Sides | None:
    """Return the sides of a file; None if it has no conflict markers, or not as git writes them."""
    if _END not in raw:
        return None
    found = Sides()
    targets: tuple[list[bytes], ...] = found.all
    state, conflicts = b"", 0
    for line in raw.splitlines(keepends=True):
        found.at_end = line.startswith(_END)
        marker = next((marker for marker in (_OURS, _BASE, _THEIRS, _END) if line.startswith(marker)), b"")
        if marker == _OURS and state == b"":
            state, targets = _OURS, (found.ours,)
        elif marker == _BASE and state == _OURS:
            state, targets = _BASE, (found.base,)
        elif marker == _THEIRS and state in (_OURS, _BASE) and line.rstrip(b"\r\n") == _THEIRS:
            state, targets = _THEIRS, (found.theirs,)
        elif marker == _END and state == _THEIRS:
            state, targets = b"", found.all
            conflicts += 1
        elif marker and marker != _THEIRS:
            return None
        else:
            for side in targets:
                side.append(line)
    return found if conflicts and not state else None
