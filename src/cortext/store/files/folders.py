"""Check the path from a store's root to a folder in it, without following symbolic links."""

from __future__ import annotations

import os
import stat

from cortext.errors import UnsafePath


class Folders:
    """Checks that a path leads from the root through real folders only.

    A checked folder is remembered by its inode, so checking it again costs one `lstat`. A link that is created between
    the check and the use is not noticed: whoever can write to the store's folders can change its files anyway.
    """

    def __init__(self, root: str, also: str = "") -> None:
        """`also` is a second root: the folder of the safety copies of a workspace."""
        self.root = root
        self.also = also
        self._checked: dict[str, tuple[int, int]] = {}

    def check(self, path: str) -> str:
        """Return the path, or raise UnsafePath. Folders that do not exist yet are not checked."""
        try:
            now = os.lstat(path)  # not stat: it would return the inode that a link points to
        except OSError:
            now = None
        if now is not None and self._checked.get(path) == (now.st_dev, now.st_ino):
            return path
        step = self.also if self.also and path.startswith(self.also + os.sep) else self.root
        relative = os.path.relpath(path, step)
        for name in relative.split(os.sep):
            if name == "..":
                raise UnsafePath(f"{path} is outside {self.root}", kept="nothing was changed")
            step = os.path.join(step, name)
            try:
                mode = os.lstat(step).st_mode
            except OSError:
                return path
            if stat.S_ISLNK(mode):
                raise UnsafePath(
                    f"{step} is a symbolic link",
                    kept="it was not followed",
                    hint="replace the link with the folder that it points to",
                )
        if now is not None:
            self._checked[path] = (now.st_dev, now.st_ino)
        return path

    def names(self, path: str) -> list[str]:
        """Return the names of the real folders in a folder, sorted; links and files are left out."""
        self.check(path)
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return []
