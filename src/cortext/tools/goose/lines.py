"""The sessions of older versions of Goose: a file of lines, the first one with the metadata."""

from __future__ import annotations

from collections.abc import Iterator

from cortext.errors import CortextError
from cortext.tools.base import Counts
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.documents import Object, object_of
from cortext.tools.shared.lines import ForeignLines
from cortext.tools.shared.values import word


def is_lines(path: str) -> bool:
    """Whether this is a session in a file of lines."""
    head = _head(path)
    return head is not None and "description" in head and ("working_dir" in head or "message_count" in head)


def project_of(path: str) -> str:
    """Return the folder that a session worked in."""
    return word(_head(path), "working_dir")


def pieces_of(path: str) -> Iterator[Piece]:
    """Yield the lines of a file, without a last one that is incomplete."""
    for line in ForeignLines(path, 0, Counts()):
        yield Piece("line", {"text": line.decode("utf-8", "replace")})


def _head(path: str) -> Object | None:
    try:
        return object_of(next(iter(ForeignLines(path, 0, Counts())), b""))
    except (OSError, CortextError):
        return None
