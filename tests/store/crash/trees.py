"""Folder trees as values: read from disk and written back. Unchanged files are not rewritten, which would be slow."""

from __future__ import annotations

import os
from pathlib import Path

# Path from the root to the bytes of a file; None for a folder.
Tree = dict[str, bytes | None]


def read(root: str) -> Tree:
    """Return everything under a folder; empty if it does not exist."""
    tree: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in folders:
            tree[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in files:
            path = os.path.join(folder, name)
            tree[os.path.relpath(path, root)] = Path(path).read_bytes()
    return tree


def write(root: str, tree: Tree) -> None:
    """Make the folder contain exactly this tree."""
    os.makedirs(root, mode=0o700, exist_ok=True)
    for folder, folders, files in os.walk(root, topdown=False):
        for name in (*files, *folders):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if relative not in tree or (tree[relative] is None) != (name in folders):
                os.rmdir(path) if name in folders else os.unlink(path)
    for relative in sorted(tree):
        path, content = os.path.join(root, relative), tree[relative]
        if content is None:
            os.makedirs(path, mode=0o700, exist_ok=True)
            continue
        if not os.path.exists(path) or Path(path).read_bytes() != content:
            Path(path).write_bytes(content)
        os.chmod(path, 0o600)
