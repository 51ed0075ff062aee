"""Checks of names that become paths, made before any path is built. Pure.

They cannot see the disk: a folder that is a symlink passes here. `store.folders` covers that by opening each component
of a path without following links.
"""

from __future__ import annotations

from cortext.errors import UnsafePath

_RESERVED = frozenset({"", ".", ".."})


def is_plain_name(name: str) -> bool:
    """Whether the text is a single name in a folder: no separator, no NUL, not `.` or `..`."""
    return (
        name not in _RESERVED
        and not any(character in name for character in "/\\\0")
        and len(name.encode("utf-8", "surrogatepass")) <= 255
    )


def check_plain_name(name: str) -> str:
    """Return the name itself, or raise UnsafePath."""
    if not is_plain_name(name):
        raise UnsafePath(
            f"invalid file name {ascii(name)[:120]}",
            kept="nothing was touched",
            hint="use a name without / or \\ that is not . or ..",
        )
    return name
