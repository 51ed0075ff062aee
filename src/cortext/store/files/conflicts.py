"""A file with the marks that git leaves where two sides changed the same lines: taken apart into its sides."""

from __future__ import annotations

BEGIN = b"<<<<<<< "
_OURS, _BASE, _THEIRS, _END = BEGIN, b"||||||| ", b"=======", b">>>>>>> "


class Sides:
    """The lines of each side; `base` holds what is known of the common ancestor (git need not show it)."""

    def __init__(self) -> None:
        self.base: list[bytes] = []
        self.ours: list[bytes] = []
        self.theirs: list[bytes] = []
        self.all = (self.base, self.ours, self.theirs)
        self.at_end = False  # nothing follows the last mark


def sides(raw: bytes) -> Sides | None:
    """The two sides of a file; None where there are no marks, or they are not as git writes them."""
    if _END not in raw:
        return None
    found = Sides()
    into: tuple[list[bytes], ...] = found.all
    steps = {b"": _OURS, _OURS: _BASE, _BASE: _THEIRS, _THEIRS: _END}
    state, seen = b"", 0
    for line in raw.splitlines(keepends=True):
        found.at_end = line.startswith(_END)
        mark = next((mark for mark in steps.values() if line.startswith(mark)), b"")
        if mark == _OURS and state == b"":
            state, into = _OURS, (found.ours,)
        elif mark == _BASE and state == _OURS:
            state, into = _BASE, (found.base,)
        elif mark == _THEIRS and state in (_OURS, _BASE) and line.rstrip(b"\r\n") == _THEIRS:
            state, into = _THEIRS, (found.theirs,)
        elif mark == _END and state == _THEIRS:
            state, into = b"", found.all
            seen += 1
        elif mark and mark != _THEIRS:
            return None
        else:
            for side in into:
                side.append(line)
    return found if seen and not state else None
