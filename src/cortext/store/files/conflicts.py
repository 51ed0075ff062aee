"""Split a file with git conflict markers into the two sides and, where git shows it, their common ancestor."""

from __future__ import annotations

BEGIN = b"<<<<<<< "
_OURS, _BASE, _THEIRS, _END = BEGIN, b"||||||| ", b"=======", b">>>>>>> "


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
