"""Safety copies of the sessions of a workspace in git, outside its work tree: git takes files away and replaces them.

Every change of a session through its store ends with a copy (only what is new in the log is written, without a flush),
so a checkout, a reset, a clean or an aborted rebase takes nothing that was captured. A session that is in no work tree
of its repository, or whose log there is only the beginning of the copy, is read from the copy; a change brings it back
first. The copies of all work trees of a repository are in one folder of the user's data folder, with the same paths as
in a work tree. They never leave this machine.

If the log in the work tree is not a continuation of the copy (another branch, a merge), messages that only the copy has
are set aside in `only-here.jsonl`, until they are restored or the session is rewritten.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from cortext.errors import CortextError
from cortext.io import durable, new_files
from cortext.store.files.layout_paths import (
    OWNER,
    REPOSITORY,
    SESSION,
    CopiesView,
    SessionFiles,
    in_folder,
    is_behind,
    is_workspace_session,
)
from cortext.store.files.merge import is_pointer, join_logs, lines_of
from cortext.store.files.repair import Transform, rewrite, rewrite_fields

ONLY_HERE = "only-here.jsonl"  # in the copy of a session: messages that the work tree no longer has
DELETED = "deleted"  # in the folder of a repository: the ids of sessions that the user deleted


class SafetyCopies(CopiesView):
    """The safety copies of one workspace; `trees` returns the same workspace in each work tree that exists."""

    def __init__(
        self,
        folder: str,
        root: str,
        trees: Callable[[], list[str]],
        record: str = "",
        came_back: Callable[[str], None] = lambda path: None,
    ) -> None:
        """`record` is stored beside the copies and says which repository they are of.

        `came_back` is called with the folder of a session that was written into the work tree again.
        """
        super().__init__(folder, root, trees)
        self._record = record
        self._came_back = came_back
        # By log: its inode, size and mtime, and the mtime of the metadata, as we left them: then only the tail is new.
        self._known: dict[str, tuple[int, int, int, int]] = {}

    def only_in_copy(self, files: SessionFiles) -> int:
        """Return how many messages of a session in the work tree are only in its copy, or were set aside there."""
        copy = self._copy_of(files.path)
        if not copy:
            return 0
        aside = os.path.join(copy, SESSION, ONLY_HERE)
        longer = in_folder(copy).log if is_behind(files.log, in_folder(copy).log) else ""
        return len({*_missing(aside, files), *(_missing(longer, files) if longer else ())})

    def was_deleted(self, session_id: str) -> bool:
        """Whether the user once deleted a session with this id."""
        try:
            return session_id in durable.read_text(os.path.join(self.folder, DELETED)).split("\n")
        except (OSError, UnicodeDecodeError):
            return False

    # ── writing: the caller holds the session's lock ─────────────────────────────────────────────────

    def keep(self, files: SessionFiles) -> None:
        """Bring the copy of a session up to date. Without one, nothing that is acknowledged is lost: errors pass."""
        copy = self._copy_of(files.path)
        if not copy or not is_workspace_session(files.path) or is_pointer(files.log):
            return
        target = in_folder(copy)
        try:
            if self._follow(files, target.log):
                return
            if not os.path.isdir(os.path.dirname(target.log)):
                self._begin(target)
            self._keep_logs(files, target)
            if os.path.exists(files.metadata) and not _is_as_new(target.metadata, files.metadata):
                self._replace(target.metadata, [durable.read_file(files.metadata)])
            self._keep_owner(copy)
            self._known[files.log] = _signs(files)
        except (CortextError, OSError):
            self._known.pop(files.log, None)

    def _follow(self, files: SessionFiles, copy: str) -> bool:
        """Append what this process has just appended to a log it knows; False if more may have changed."""
        inode, size, _, changed = self._known.pop(files.log, (0, 0, 0, 0))
        if not inode or os.stat(files.metadata).st_mtime_ns != changed:
            return False
        if not new_files.follow_tail(files.log, copy, inode, size):
            return False
        self._known[files.log] = _signs(files)
        return True

    def adopt(self, inside: str, contents: dict[str, bytes]) -> None:
        """Keep a session that only another branch has: `inside` is its folder, relative to the work tree.

        What is in a work tree, was kept before or was deleted by the user stays as it is.
        """
        copy, session_id = os.path.join(self.folder, inside), os.path.basename(inside)
        known = (copy, *(os.path.join(tree, inside) for tree in self._trees()))
        if any(map(is_workspace_session, known)) or self._find(session_id) or self.was_deleted(session_id):
            return
        self._begin(in_folder(copy))
        for name, content in contents.items():
            self._replace(os.path.join(copy, name), [content])
        if is_pointer(in_folder(copy).log):
            durable.remove_tree(copy)

    def _begin(self, target: SessionFiles) -> None:
        """Create the folders of a copy."""
        new_files.ensure_folder(os.path.dirname(target.log), new_files.Later())
        if not os.path.exists(record := os.path.join(self.folder, REPOSITORY)):
            durable.replace_file(record, [self._record.encode("utf-8", "surrogateescape")])

    def look_again(self, files: SessionFiles) -> None:
        """Compare the whole session with its copy at the end of this change: another program wrote to it."""
        self._known.pop(files.log, None)

    def is_unchanged(self, files: SessionFiles) -> bool:
        """Whether a log is as this process left it, and as its copy is."""
        known = self._known.get(files.log)
        try:
            return known is not None and known[:3] == _signs(files)[:3]
        except OSError:
            return False

    def _keep_logs(self, files: SessionFiles, target: SessionFiles) -> None:
        sources = [(files.log, target.log), (files.archive, target.archive)]
        new = [(source, copy) for source, copy in sources if os.path.exists(source) and not _is_as_new(copy, source)]
        if all(new_files.follow_file(source, copy) for source, copy in new):
            return
        aside = os.path.join(os.path.dirname(target.log), ONLY_HERE)
        if missing := [*_missing(aside, files), *_missing(target.archive, files), *_missing(target.log, files)]:
            self._replace(aside, dict.fromkeys(missing))
        for source, copy in sources:
            if os.path.exists(source):
                self._replace(copy, _pieces(source))
            else:
                durable.remove(copy)

    def _keep_owner(self, copy: str) -> None:
        path = os.path.join(copy, OWNER)
        try:
            if durable.read_text(path) == self.root:
                return
        except (OSError, UnicodeDecodeError):
            pass
        self._replace(path, [self.root.encode("utf-8", "surrogateescape")])

    def _replace(self, path: str, pieces: Iterable[bytes]) -> None:
        """Replace a file of a copy; what a killed writer left is removed by the next change of any session."""
        durable.replace_file(path, pieces, aside=self.folder)

    def bring_back(self, session_id: str, path: str) -> bool:
        """Write a session that left the work tree into it again, all of its messages; return whether it had left.

        `path` is its folder in the work tree; empty if it is not there.
        """
        copy = self._copy_of(path) if path else self.locate(session_id)
        if not copy or (path and not is_behind(in_folder(path).log, in_folder(copy).log)):
            return False
        source, target = in_folder(copy), in_folder(path or self.in_tree(copy))
        durable.ensure_folder(os.path.dirname(target.log), self.root)
        for old, new in (
            (source.metadata, target.metadata),
            (source.archive, target.archive),
            (source.log, target.log),
        ):
            if os.path.exists(old):
                durable.replace_file(new, _pieces(old))
        self._came_back(target.path)
        return True

    def join(self, files: SessionFiles) -> int:
        """Add the messages that were set aside to the log in the work tree; return how many."""
        aside = os.path.join(self._copy_of(files.path), SESSION, ONLY_HERE)
        added = join_logs(files.log, _missing(aside, files)) if os.path.exists(aside) else 0
        if added:
            durable.remove(aside)
        return added

    def rewrite(self, files: SessionFiles, transform: Transform) -> None:
        """Remove a secret from the copy as well, and from what was set aside."""
        copy = self._copy_of(files.path)
        self._known.pop(files.log, None)
        if copy and os.path.isdir(copy):
            copied = in_folder(copy)
            for path in (copied.log, copied.archive, os.path.join(copy, SESSION, ONLY_HERE)):
                rewrite(path, transform)
            rewrite_fields(copied.metadata, transform)

    def forget(self, files: SessionFiles, *, deleted: bool) -> None:
        """Remove the copy of a log that will be written anew; `deleted`: all of the session, and remember that."""
        copy = self._copy_of(files.path)
        self._known.pop(files.log, None)
        if not copy:
            return
        if deleted:
            durable.ensure_folder(self.folder)
            durable.append_once(os.path.join(self.folder, DELETED), f"{files.session_id}\n".encode("ascii"))
            durable.remove_tree(copy)
        elif os.path.isdir(copy):
            durable.remove(in_folder(copy).log)
            durable.remove(in_folder(copy).archive)


def _signs(files: SessionFiles) -> tuple[int, int, int, int]:
    log = os.stat(files.log)
    return log.st_ino, log.st_size, log.st_mtime_ns, os.stat(files.metadata).st_mtime_ns


def _is_as_new(copy: str, source: str) -> bool:
    """Whether a copy has the size of its source and was written after it."""
    try:
        now, then = os.stat(source), os.stat(copy)
    except OSError:
        return False
    return now.st_size == then.st_size and now.st_mtime_ns <= then.st_mtime_ns


def _missing(log: str, files: SessionFiles) -> list[bytes]:
    """Return the lines of the messages of a log that a session does not have."""
    if not os.path.exists(log):  # most sessions: their own log is not read for it
        return []
    known = {line.key for path in (files.archive, files.log) for line in lines_of(path)}
    return [line.raw for line in lines_of(log) if line.record is not None and line.key not in known]


def _pieces(path: str) -> Iterator[bytes]:
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        yield from durable.read_blocks(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        durable.close_file(descriptor)
