"""The only module that writes, syncs, renames or truncates a file.

Everything goes through `calls`, a thin object over the kernel, so that tests can stop the process, fail or record at
every single call. Rules kept here and nowhere else: new files are 0600 and folders 0700 whatever the umask; a new name
is durable only after its folder was flushed; a symlink at the end of a path is not followed; a failed write is rolled
back to where it began; a failed flush is never retried.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec, TypeVar

from cortext.errors import UnsafePath, WriteFailed

P = ParamSpec("P")

R = TypeVar("R")

FILE_MODE = 0o600
FOLDER_MODE = 0o700
COPY_BLOCK = 1 << 17  # larger blocks are slower: they do not fit into the processor's cache
SMALL_FILE = 16 << 20  # upper limit for our settings, lists and notes
HINTS = 1 << 18  # maximum size of a file of hints
SWEPT = 256  # folder entries that are checked for leftovers of killed writers: most folders have far fewer
Stamp = tuple[int, int, int]


def _copy_range(source: int, target: int, count: int) -> int:
    if not hasattr(os, "copy_file_range"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return os.copy_file_range(source, target, count)


class Calls:
    """The kernel calls that change something on disk. Tests replace `durable.calls`."""

    open = staticmethod(os.open)
    write = staticmethod(os.write)
    copy_range = staticmethod(_copy_range)
    pwrite = staticmethod(os.pwrite)
    fsync = staticmethod(os.fsync)
    ftruncate = staticmethod(os.ftruncate)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)
    mkdir = staticmethod(os.mkdir)
    fchmod = staticmethod(os.fchmod)
    chmod = staticmethod(os.chmod)
    flock = staticmethod(fcntl.flock)
    close = staticmethod(os.close)


calls = Calls()


def write_failed(error: OSError, path: str, kept: str) -> WriteFailed:
    """Return a WriteFailed that explains an error of the kernel."""
    hints = {
        errno.ENOSPC: "the disk is full: free some space and try again",
        errno.EDQUOT: "your disk quota is used up: free some space and try again",
        errno.EFBIG: "the file may not grow further (ulimit -f, or the file system's limit)",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "check who owns the folder and its permissions",
        errno.EPERM: "check who owns the folder and its permissions",
        errno.EIO: "the disk reported an error: check the system log before you continue",
    }
    reason = os.strerror(error.errno) if error.errno else str(error)
    return WriteFailed(
        f"could not write {path}: {reason}",
        kept=kept,
        hint=hints.get(error.errno or 0, "nothing was acknowledged: it is safe to try again"),
    )


def open_file(path: str, flags: int, mode: int = FILE_MODE) -> int:
    """Open a regular file: a symlink at the end of the path is not followed, a pipe is not waited for."""
    try:
        descriptor = calls.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise UnsafePath(
                f"{path} is a symbolic link",
                kept="it was not followed",
                hint="a store contains regular files only: replace the link with what it points to",
            ) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        close_file(descriptor)
        raise UnsafePath(f"{path} is not a file", kept="it was not touched", hint="a store contains regular files only")
    return descriptor


def plain_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file for reading, following links; use as `open(…, opener=durable.plain_file)`.

    Anything else (a pipe, a socket, a device, a folder) raises OSError at once, so a read never blocks or is endless.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def read_file(path: str, most: int = SMALL_FILE) -> bytes:
    """Return the content of a file that is small by nature (settings, notes); raise OSError if it is larger."""
    with open(path, "rb", opener=plain_file) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 10:,} KiB", path)
    return raw


def read_text(path: str, errors: str = "strict") -> str:
    """Return the same as text: UTF-8, line ends unchanged."""
    return read_file(path).decode("utf-8", errors)


def close_file(descriptor: int) -> None:
    """Close. The kernel frees the descriptor whatever it returns, and what matters was flushed before."""
    try:
        calls.close(descriptor)
    except OSError:
        pass


def reports_os_errors(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate the methods of a store: an OSError that nothing below has handled becomes WriteFailed."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except OSError as error:
            raise write_failed(error, error.filename or "the session", "every acknowledged message") from error

    return guarded


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    descriptor = calls.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        calls.fsync(descriptor)
    finally:
        close_file(descriptor)


def ensure_folder(path: str, top: str = "", later: Callable[[str], None] | None = None) -> None:
    """Create the folder and its parents, private and durable. An existing folder is left as it is.

    From `top` down, the names of existing folders are flushed too: their creator may have crashed before doing so.
    If `later` is given, it is called with each folder that has new names and is responsible for flushing them.
    """
    parent = os.path.dirname(path) or "."
    exists = os.path.isdir(path)
    if parent != path and (not exists or (top and path != top)):
        ensure_folder(parent, top, later)
    if exists and not top:
        return
    try:
        if not exists:
            calls.mkdir(path, FOLDER_MODE)
            calls.chmod(path, FOLDER_MODE)  # mkdir's mode is reduced by the umask
    except FileExistsError:
        pass  # another process created it just now, and may not have flushed it yet
    except OSError as error:
        raise write_failed(error, path, "nothing was changed") from error
    if later is not None:
        later(parent)
        return
    try:
        sync_folder(parent)
    except OSError as error:
        if not exists or error.errno not in (errno.EACCES, errno.EPERM):
            raise write_failed(error, path, "nothing was changed") from error


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte, even if the kernel accepts only some at a time."""
    written = calls.write(descriptor, data)
    if written == len(data):
        return
    rest = memoryview(data)[written:]
    while rest:
        written = calls.write(descriptor, rest)
        if written <= 0:
            raise OSError(errno.EIO, "the kernel wrote nothing")
        rest = rest[written:]


def begin_flush(descriptor: int, offset: int, length: int = 1) -> None:
    """Ask the disk to start writing what was appended at `offset`; it is durable only after fsync, as always.

    A hint: Linux starts writing out pages that we declare as no longer needed. Whatever we do until the fsync then
    overlaps with the disk's work.
    """
    if _advise is not None:
        try:
            _advise(descriptor, offset, length, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass  # this file system does not accept hints


_advise = getattr(os, "posix_fadvise", None)


class Replaced(WriteFailed):
    """The path now names another file than the one that was written: nothing was acknowledged."""


class AppendFile:
    """A log opened for appending: `append` returns only when the bytes are on disk.

    The caller holds the session's lock. After an error the file ends where it ended before; if even that failed,
    `broken` is set: `heal` retries, and the next open quarantines a torn tail.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.broken = False
        self._torn = -1
        try:
            self.descriptor = open_file(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            self.descriptor = self._create()
        except OSError as error:
            raise write_failed(error, path, "the file is as it was") from error
        status = os.fstat(self.descriptor)
        self.inode = status.st_ino
        self.end = status.st_size
        self._stamp: Stamp | None = (self.inode, self.end, status.st_mtime_ns)

    def _create(self) -> int:
        try:
            # Flush what exists first: after a crash there must be no log without its metadata.
            sync_folder(os.path.dirname(self.path) or ".")
            descriptor = open_file(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise write_failed(error, self.path, "nothing was changed") from error
        try:
            calls.fchmod(descriptor, FILE_MODE)
            calls.fsync(descriptor)
            sync_folder(os.path.dirname(self.path) or ".")
        except OSError as error:
            close_file(descriptor)
            raise write_failed(error, self.path, "nothing was changed") from error
        return descriptor

    def current(self) -> bool:
        """Whether this file ends where we left it: no one has extended or truncated it."""
        return not self.broken and os.lseek(self.descriptor, 0, os.SEEK_END) == self.end

    def named(self) -> bool:
        """Whether the path still names this file."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        if status.st_ino != self.inode:
            return False
        self._stamp = (self.inode, status.st_size, status.st_mtime_ns)
        return True

    def append(self, data: bytes) -> None:
        """Write and flush; on any error, truncate to the old end and raise."""
        try:
            write_all(self.descriptor, data)
            begin_flush(self.descriptor, self.end)
            # While the disk works: has git or an editor replaced this file? Checked again after the flush.
            named = self.named()
            if named:
                calls.fsync(self.descriptor)
                named = os.fstat(self.descriptor).st_nlink > 0
        except OSError as error:
            raise write_failed(error, self.path, self._go_back()) from error
        except BaseException:  # Ctrl-C between the write and the flush: not acknowledged either
            self._go_back()
            raise
        if not named:
            self._go_back()
            self.broken = True
            raise Replaced(
                f"{self.path} was replaced by another program while it was written",
                kept="what that program wrote",
                hint="try again: the message goes to the new file",
            )
        self.end += len(data)

    def append_pieces(self, pieces: Iterable[bytes]) -> None:
        """Append many pieces and flush once at the end; on any error, truncate to the old end and raise."""
        size = 0
        try:
            self._stamp = None
            for piece in pieces:
                write_all(self.descriptor, piece)
                size += len(piece)
            if size:
                calls.fsync(self.descriptor)
        except OSError as error:
            raise write_failed(error, self.path, self._go_back()) from error
        except BaseException:
            self._go_back()
            raise
        self.end += size

    def cut(self, end: int) -> None:
        """Truncate the file durably (the bytes beyond were quarantined before)."""
        self._stamp = None
        try:
            calls.ftruncate(self.descriptor, end)
            calls.fsync(self.descriptor)
        except OSError as error:
            raise write_failed(error, self.path, "the whole file is unchanged") from error
        self.end = end

    def _go_back(self) -> str:
        self._stamp = None
        try:
            calls.ftruncate(self.descriptor, self.end)
            calls.fsync(self.descriptor)
        except OSError:
            self.broken = True
            self._torn = os.lseek(self.descriptor, 0, os.SEEK_END)
            return "every earlier message; an incomplete line may be left at the end and will be quarantined"
        return "every earlier message; the file is as it was"

    def heal(self) -> None:
        """Truncate to the last good end if that failed before; raises WriteFailed as long as it fails."""
        if self._torn >= 0 and self.named() and os.lseek(self.descriptor, 0, os.SEEK_END) == self._torn:
            self.cut(self.end)
            self.broken = False
        self._torn = -1

    def stamp(self) -> Stamp:
        """Return a value that tells this file from another one, and from itself after someone wrote to it."""
        if self._stamp is None:
            status = os.fstat(self.descriptor)
            self._stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        return self._stamp

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self.descriptor >= 0:
            close_file(self.descriptor)
        self.descriptor = -1


def replace_file(path: str, pieces: Iterable[bytes], *, aside: str = "") -> None:
    """Replace the content of a file atomically: a reader sees the old or the new, never a mixture.

    `aside` is another folder to write the temporary file in: one that every writer of a store visits, so that the
    leftovers of a killed writer are removed by the next write to any session. On another file system it costs a second
    copy.
    """
    folder, name = os.path.split(path)
    for temporary_folder in (folder, aside) if aside else (folder,):
        sweep(temporary_folder)
    temporary = os.path.join(aside or folder, f".{name}.{os.getpid()}.{time.monotonic_ns():x}.tmp")
    descriptor = -1
    try:
        descriptor = open_file(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        take_lock(descriptor)  # it is ours as long as we run: see `sweep`
        calls.fchmod(descriptor, FILE_MODE)
        for piece in pieces:
            write_all(descriptor, piece)
        calls.fsync(descriptor)
        close_file(descriptor)
        descriptor = -1
        try:
            calls.rename(temporary, path)
        except OSError as error:
            if not aside or error.errno != errno.EXDEV:
                raise
            descriptor = open_file(temporary, os.O_RDWR)
            replace_file(path, read_blocks(descriptor, 0, os.fstat(descriptor).st_size))
            close_file(descriptor)
            descriptor = -1
            calls.unlink(temporary)
    except BaseException as error:
        if descriptor >= 0:
            close_file(descriptor)
        try:
            calls.unlink(temporary)
        except OSError:
            pass  # it was never created, or the disk is gone
        if isinstance(error, OSError):
            raise write_failed(error, path, "the old contents") from error
        raise
    try:
        sync_folder(folder or ".")
    except OSError as error:
        raise write_failed(error, path, "the complete old or new contents") from error


def sweep(folder: str) -> None:
    """Remove the temporary files of writers that were killed before they could rename them.

    A running writer holds the lock of its file, so a pid that belongs to a process elsewhere (in a container that
    shares the folder) is not mistaken for a dead one.
    """
    try:
        with os.scandir(folder or ".") as entries:
            left = [entry.path for entry, _ in zip(entries, range(SWEPT), strict=False) if _is_dead(entry.name)]
    except OSError:
        return
    for path in left:
        try:
            descriptor = open_file(path, os.O_RDWR)
        except (OSError, UnsafePath):
            continue
        try:
            if take_lock(descriptor) and os.fstat(descriptor).st_ino == os.lstat(path).st_ino:
                calls.unlink(path)
        except OSError:
            pass  # another process was faster
        finally:
            close_file(descriptor)


def _is_dead(name: str) -> bool:
    """Whether this is the name of a temporary file of a process that no longer exists."""
    process = process_of(name)
    if not process:
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def process_of(name: str) -> str:
    """Return the process in the name of a temporary file; empty if this is none."""
    parts = name.rsplit(".", 3)
    if not (name.startswith(".") and name.endswith(".tmp") and len(parts) == 4):
        return ""
    process, number = parts[1], parts[2]
    return process if process.isdecimal() and process.isascii() and number.isalnum() else ""


def take_lock(descriptor: int) -> bool:
    """Take the lock of an open file if it is free."""
    try:
        calls.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def note(path: str, line: str) -> None:
    """Append a line to a file of hints: not flushed, and failures are ignored. A long file is truncated first."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            descriptor = calls.open(path, flags)
        except FileNotFoundError:
            descriptor = calls.open(path, flags | os.O_CREAT, FILE_MODE)
            calls.fchmod(descriptor, FILE_MODE)  # the umask reduced it
    except OSError:
        return
    try:
        if os.lseek(descriptor, 0, os.SEEK_END) > HINTS:
            calls.ftruncate(descriptor, 0)
        calls.write(descriptor, line.encode("ascii", "replace") + b"\n")
    except OSError:
        pass
    finally:
        close_file(descriptor)


def append_once(path: str, data: bytes) -> None:
    """Append a line to a small side file (a quarantine) durably; a torn last line is terminated first."""
    file = AppendFile(path)
    try:
        sync_folder(os.path.dirname(path) or ".")  # the creator may have crashed before doing so
        if file.end and os.pread(file.descriptor, 1, file.end - 1) != b"\n":
            data = b"\n" + data
        file.append(data)
    finally:
        file.close()


def move(source: str, target: str, later: Callable[[str], None] | None = None) -> None:
    """Rename, durably on both sides. The target must not exist (the caller holds the lock)."""
    if os.path.lexists(target):
        raise WriteFailed(f"{target} already exists", kept="both are unchanged", hint="choose another name")
    try:
        calls.rename(source, target)
        if later is not None:
            later(os.path.dirname(target))
            return
        sync_folder(os.path.dirname(target))
        sync_folder(os.path.dirname(source))
    except OSError as error:
        raise write_failed(error, target, "every file, under its old or its new name") from error


def remove(path: str) -> None:
    """Remove a file durably; it is not an error if it is missing."""
    try:
        calls.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise write_failed(error, path, "the file still exists") from error
    try:
        sync_folder(os.path.dirname(path) or ".")
    except OSError as error:
        raise write_failed(error, path, "the file may still exist") from error


def remove_tree(path: str) -> None:
    """Remove a folder and everything in it; symlinks are removed, never followed."""
    try:
        if os.path.islink(path):
            calls.unlink(path)
            return
        with os.scandir(path) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    calls.unlink(entry.path)
        calls.rmdir(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise write_failed(error, path, "what has not been removed yet") from error


def read_blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of an open file from start to end, one block at a time."""
    while start < end:
        block = os.pread(descriptor, min(COPY_BLOCK, end - start), start)
        if not block:
            return
        start += len(block)
        yield block
