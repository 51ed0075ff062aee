"""New files and copies that are written now and flushed together later, and new folders that appear as a whole.

Nothing relies on such files before the flush.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import RLock

from cortext.io import durable

ATTEMPTS = 3  # to make a temporary folder
MOST_OPEN = 8  # files of one session that stay open until their flush; some systems allow only 256 in all
# The errors by which the kernel says that it cannot copy between these two files.
_CANNOT_COPY = (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)


class Later:
    """Collects flushes of new files and folders that nothing relies on before `flush` has returned.

    One thread may flush while another calls `forget`: that waits for a flush that has begun, and a flush that begins
    after it has nothing to do.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._files: list[int] = []
        self._folders: dict[str, None] = {}

    def file(self, descriptor: int) -> None:
        """Flush and close this file later. It stays open until then, so that a disk error is reported to us."""
        self._files.append(descriptor)
        durable.begin_flush(descriptor, 0, 0)  # the whole file: the disk starts now, and many files share one commit
        if len(self._files) >= MOST_OPEN:
            self._flush_files()

    def folder(self, path: str) -> None:
        """Flush the names in this folder later."""
        self._folders[path] = None

    def flush(self) -> None:
        """Make everything durable; after an error nothing is."""
        with self._lock:
            try:
                self._flush_files()
                for path in self._folders:
                    durable.sync_folder(path)
            finally:
                self.forget()

    def forget(self) -> None:
        """Drop what was not flushed."""
        with self._lock:
            for descriptor in self._files:
                durable.close_file(descriptor)
            self._files.clear()
            self._folders.clear()

    def _flush_files(self) -> None:
        while self._files:
            durable.calls.fsync(self._files[-1])
            durable.close_file(self._files.pop())


def ensure_folder(path: str, later: Later | None) -> None:
    """Create the folder if it is missing; flush it later, or at once if `later` is None."""
    durable.ensure_folder(path, later=None if later is None else later.folder)


def new_file(path: str, pieces: Iterable[bytes], later: Later) -> None:
    """Write a file that must not exist yet; it is flushed later. Errors from `pieces` pass through unchanged."""
    descriptor = _create_new(path)
    try:
        for piece in pieces:
            try:
                durable.write_all(descriptor, piece)
            except OSError as error:
                raise durable.write_failed(error, path, "what was there before") from error
    except BaseException:
        durable.close_file(descriptor)
        raise
    later.file(descriptor)
    later.folder(os.path.dirname(path))


def _create_new(path: str) -> int:
    try:
        descriptor = durable.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        durable.calls.fchmod(descriptor, durable.FILE_MODE)
    except OSError as error:
        raise durable.write_failed(error, path, "nothing was changed") from error
    return descriptor


def _new_copy(reading: int, size: int, path: str, later: Later) -> None:
    """Write a copy that must not exist yet, flushed later: by the kernel, which may share blocks, or else by us."""
    descriptor = _create_new(path)
    done = 0
    try:
        try:
            while done < size and (count := durable.calls.copy_range(reading, descriptor, size - done)):
                done += count
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
        for piece in durable.read_blocks(reading, done, size):
            durable.write_all(descriptor, piece)
    except BaseException as error:
        durable.close_file(descriptor)
        if isinstance(error, OSError):
            raise durable.write_failed(error, path, "what was there before") from error
        raise
    later.file(descriptor)
    later.folder(os.path.dirname(path))


def mirror_file(source: str, target: str, later: Later | None = None) -> None:
    """Make `target` equal to a file that another program appends to, copying only what is new.

    If the beginning differs (the program rewrote its file), copy the whole file again; but an empty file, which lost
    its contents, replaces nothing. With `later`, the target must not exist yet.
    """
    reading = durable.open_file(source, os.O_RDONLY)
    try:
        size = os.fstat(reading).st_size
        if later is not None:
            _new_copy(reading, size, target, later)
            return
        if not size and os.path.exists(target):
            return
        try:
            file = durable.AppendFile(target) if os.path.exists(target) else None
        except OSError as error:
            raise durable.write_failed(error, target, "the old copy") from error
        if file is not None:
            try:
                if _is_continued(reading, file.descriptor, file.end):
                    file.append_pieces(durable.read_blocks(reading, file.end, size))
                    return
            finally:
                file.close()
        durable.replace_file(target, durable.read_blocks(reading, 0, size))
    finally:
        durable.close_file(reading)


def follow_file(source: str, target: str) -> bool:
    """Append what is new in a file to our second copy of it, not flushed; False if the copy is not its beginning."""
    reading = durable.open_file(source, os.O_RDONLY)
    try:
        copied = durable.open_file(target, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(copied).st_size
            if not _is_continued(reading, copied, size):
                return False
            try:
                for piece in durable.read_blocks(reading, size, os.fstat(reading).st_size):
                    durable.write_all(copied, piece)
            except OSError:
                durable.calls.ftruncate(copied, size)
                raise
        finally:
            durable.close_file(copied)
    finally:
        durable.close_file(reading)
    return True


def follow_tail(source: str, target: str, inode: int, size: int) -> bool:
    """Do the same for a file that was equal to its copy when it had this inode and size; False if that may be wrong."""
    reading = durable.open_file(source, os.O_RDONLY)
    try:
        status = os.fstat(reading)
        if status.st_ino != inode or status.st_size < size:
            return False
        if status.st_size == size:
            return True
        copied = durable.open_file(target, os.O_WRONLY | os.O_APPEND)
        try:
            if os.fstat(copied).st_size != size:
                return False
            for piece in durable.read_blocks(reading, size, status.st_size):
                durable.write_all(copied, piece)
        finally:
            durable.close_file(copied)
        return True
    finally:
        durable.close_file(reading)


def is_continued(source: str, copy: str) -> bool:
    """Whether a program has only appended to its file since the copy was made."""
    reading = durable.open_file(source, os.O_RDONLY)
    try:
        copied = durable.open_file(copy, os.O_RDONLY)
        try:
            return _is_continued(reading, copied, os.fstat(copied).st_size)
        finally:
            durable.close_file(copied)
    finally:
        durable.close_file(reading)


def _is_continued(reading: int, copied: int, size: int) -> bool:
    """Whether our copy is a prefix of the source, judged by its first and last 4 kB."""
    length = min(4096, size)
    return size <= os.fstat(reading).st_size and all(
        os.pread(reading, length, start) == os.pread(copied, length, start) for start in (0, size - length)
    )


@contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Give a new folder beside a path, which gets that name when the block ends: a reader sees all files or none.

    What is at the path must be missing or an empty folder. A failed block leaves nothing; what a killed process left
    is removed by the next one.
    """
    parent, name = os.path.split(path)
    durable.ensure_folder(parent)
    _sweep_folders(parent, f".{name}.")
    temporary, descriptor = "", -1
    try:
        for _ in range(ATTEMPTS):  # another process may take it for a leftover before it is locked
            temporary = os.path.join(parent, f".{name}.{os.getpid()}.{time.monotonic_ns():x}.tmp")
            durable.calls.mkdir(temporary, durable.FOLDER_MODE)
            descriptor = durable.calls.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
            durable.take_lock(descriptor)  # it is ours as long as we run
            if os.path.isdir(temporary):
                break
            durable.close_file(descriptor)
            descriptor = -1
        durable.calls.fchmod(
            descriptor, stat.S_IMODE(os.stat(path).st_mode) if os.path.isdir(path) else durable.FOLDER_MODE
        )
        yield temporary
        durable.calls.rename(temporary, path)
    except BaseException as error:
        durable.remove_tree(temporary)
        if isinstance(error, OSError):
            raise durable.write_failed(error, path, "it is unchanged") from error
        raise
    finally:
        if descriptor >= 0:
            durable.close_file(descriptor)
    durable.sync_folder(parent)


def _sweep_folders(folder: str, beginning: str) -> None:
    """Remove the unfinished folders of processes that were killed: nobody holds their locks.

    Whether the process exists says nothing: it may not have been waited for, or its number may be another's by now.
    """
    for name in os.listdir(folder):
        if not (name.startswith(beginning) and durable.process_of(name)):
            continue
        path = os.path.join(folder, name)
        try:
            descriptor = durable.calls.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if durable.take_lock(descriptor):
                durable.remove_tree(path)
        finally:
            durable.close_file(descriptor)
