"""The way from a store's root to a folder in it, walked without following a symlink."""

from __future__ import annotations

import os
import stat

from cortext.errors import UnsafePath


class Folders:
    """Checks that a path leads down from the root through real folders only.

    A folder that was checked is remembered by its inode, so that checking it again is one `stat`.
    It cannot see a link that is put there between the check and the use: who can write into the store's
    folders can change its files anyway.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._checked: dict[str, tuple[int, int]] = {}

    def check(self, path: str) -> str:
        """The path itself, or UnsafePath. What does not exist yet is not looked at."""
        try:
            now = os.lstat(path)  # not stat: a link to the folder that was here has that folder's inode
        except OSError:
            now = None
        if now is not None and self._checked.get(path) == (now.st_dev, now.st_ino):
            return path
        relative = os.path.relpath(path, self.root)
        step = self.root
        for name in relative.split(os.sep):
            if name == "..":
                raise UnsafePath(f"{path} is outside {self.root}", kept="nothing was touched")
            step = os.path.join(step, name)
            try:
                mode = os.lstat(step).st_mode
            except OSError:
                return path
            if stat.S_ISLNK(mode):
                raise UnsafePath(
                    f"{step} is a symbolic link",
                    kept="it was not followed",
                    hint="a store holds real folders only: replace the link by what it points to",
                )
        if now is not None:
            self._checked[path] = (now.st_dev, now.st_ino)
        return path

    def names(self, path: str) -> list[str]:
        """The real folders in a folder, by name; links and files are left out."""
        self.check(path)
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return []
