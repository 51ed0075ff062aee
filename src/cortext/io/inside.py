"""The files of a workspace, and no others: the one place that decides what lies inside one.

A workspace comes from git, so perhaps from a stranger, and git keeps links: `.codex` may point to the user's own
`~/.codex`, `.gitattributes` to a private key. Everything that reads or writes a file of a workspace by its name asks
here for its real path first. A link that stays inside the workspace is followed, and the file that it points to is the
one that is read and replaced, so the link stays; one that leads out is refused, and so is the way into `.git`, whose
settings are the user's own and may hold passwords. Sessions are stricter (`store.folders`): no link at all.

A link that is put there between the check and the use is not seen, but at the end of the path (`fsio.open_file`): who
can write into the workspace at that moment can change its files anyway.
"""

from __future__ import annotations

import os

from cortext.errors import UnsafePath
from cortext.io import files as fsio

LARGEST = 16 << 20  # bytes of a settings file, a prompt or a template


def inside(root: str, path: str) -> str:
    """The real path of a file or folder of this workspace, whether or not it exists; UnsafePath where it is outside.

    `path` is relative to the root, or begins with it.
    """
    top = os.path.realpath(root)
    named = os.path.join(root, path)
    real = os.path.realpath(named)
    relative = os.path.relpath(real, top).split(os.sep)
    if relative[0] == os.pardir:
        raise UnsafePath(
            f"{named} leads out of the workspace{_way(root, path)}",
            kept="nothing was read there, and nothing was changed",
            hint="replace the link by a real file or folder (or remove it), then try again",
        )
    if any(name.lower() == ".git" for name in relative):
        raise UnsafePath(
            f"{named} leads into .git",
            kept="nothing was read there, and nothing was changed",
            hint="git's own files are no part of a workspace: replace the link, or name another file",
        )
    return os.path.join(root, *relative) if relative != [os.curdir] else root


def if_inside(root: str, path: str) -> str:
    """The same for those who only have a look: empty, which no file is called, where it is outside."""
    try:
        return inside(root, path)
    except UnsafePath:
        return ""


def _way(root: str, path: str) -> str:
    """Which link it is, in words; empty where the name itself leads out."""
    step = root
    for name in os.path.relpath(os.path.join(root, path), root).split(os.sep):
        step = os.path.join(step, name)
        if os.path.islink(step):
            return f": {os.path.relpath(step, root)} is a link to {os.readlink(step)}"
    return ""


def read(root: str, path: str, limit: int = LARGEST) -> bytes | None:
    """What a file of this workspace holds; None where there is none. UnsafePath where it is no plain file inside."""
    real = inside(root, path)
    try:
        descriptor = fsio.open_file(real, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise UnsafePath(
                f"{real} is too large: {size:,} bytes, where {limit:,} are allowed",
                kept="it was not read, and nothing was changed",
                hint="make it shorter, or remove it",
            )
        return b"".join(fsio.read_blocks(descriptor, 0, size))
    finally:
        os.close(descriptor)


def write(root: str, path: str, contents: bytes) -> None:
    """Put contents in place of a file of this workspace, atomically; its folder is made where it is missing."""
    real = inside(root, path)
    fsio.ensure_folder(os.path.dirname(real))
    fsio.replace_file(real, [contents])


def remove(root: str, path: str) -> None:
    """Take a file of this workspace away; one that is not there is no error."""
    fsio.remove(inside(root, path))
