"""The files of a workspace and no others: the one place that decides what is inside one.

A workspace comes from git, possibly from a stranger, and git stores links: `.codex` may point to the user's own
`~/.codex`, `.gitattributes` to a private key. All code that reads or writes a workspace file by name asks here for its
real path first. A link that stays inside the workspace is followed, and the file that it points to is read or replaced,
so the link stays; a link that leads out is refused, and so is any path into `.git`, whose settings are the user's own
and may contain passwords. Sessions are stricter (`store.folders`): no links at all.

A link created between the check and the use is only noticed at the end of the path (`durable.open_file`): whoever can
write into the workspace at that moment can change its files anyway.
"""

from __future__ import annotations

import os

from cortext.errors import UnsafePath
from cortext.io import durable

LARGEST = 16 << 20  # bytes of a settings file, a prompt or a template


def inside(root: str, path: str) -> str:
    """Return the real path of a file or folder of this workspace, existing or not; raise UnsafePath if it is outside.

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
            hint="replace the link with a real file or folder (or remove it), then try again",
        )
    if any(name.lower() == ".git" for name in relative):
        raise UnsafePath(
            f"{named} leads into .git",
            kept="nothing was read there, and nothing was changed",
            hint="git's own files are not part of a workspace: replace the link, or use another file",
        )
    return os.path.join(root, *relative) if relative != [os.curdir] else root


def if_inside(root: str, path: str) -> str:
    """Like `inside`, but return an empty string, which is never a valid path, if the path is outside."""
    try:
        return inside(root, path)
    except UnsafePath:
        return ""


def _way(root: str, path: str) -> str:
    """Say which link leads out; empty if the name itself does."""
    step = root
    for name in os.path.relpath(os.path.join(root, path), root).split(os.sep):
        step = os.path.join(step, name)
        if os.path.islink(step):
            return f": {os.path.relpath(step, root)} is a link to {os.readlink(step)}"
    return ""


def read(root: str, path: str, limit: int = LARGEST) -> bytes | None:
    """Return the content of a workspace file, or None if it is missing; raise UnsafePath if it is not a plain file."""
    real = inside(root, path)
    try:
        descriptor = durable.open_file(real, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise UnsafePath(
                f"{real} is too large: {size:,} bytes, the limit is {limit:,}",
                kept="it was not read, and nothing was changed",
                hint="shorten or remove it",
            )
        return b"".join(durable.read_blocks(descriptor, 0, size))
    finally:
        os.close(descriptor)


def write(root: str, path: str, contents: bytes) -> None:
    """Replace a file of this workspace atomically; its folder is created if it is missing."""
    real = inside(root, path)
    durable.ensure_folder(os.path.dirname(real))
    durable.replace_file(real, [contents])


def remove(root: str, path: str) -> None:
    """Remove a file of this workspace; it is not an error if it is missing."""
    durable.remove(inside(root, path))
