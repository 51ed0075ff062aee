"""The disk after a power cut, simulated from a recording of every system call.

The model is stricter than any file system: data is safe only after fsync of its file, a name only after fsync
of its folder (of the target, for a rename). Each operation that is not safe may be complete, missing, partial
or zeroed, independently of the others. A failed flush loses its data for good: a later flush of the same file
does not save it. (Names are journalled: a name in a folder whose flush failed stays unsafe.)
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.store.crash import trees
from tests.store.crash.actor import Event
from tests.store.crash.faults import Counting, Dead, disown, release_locks_of_dead

BLOCK = 4096
NAMES = ("file", "folder", "remove", "rename")
STYLES = ("drop", "keep", "zero", "prefix", "mixed", "mixed")


class Op(msgspec.Struct):
    """One recorded operation: a change of a file's bytes or of a folder's names, a flush, or an event of the actor."""

    kind: str
    node: int = -1
    offset: int = 0
    data: bytes = b""
    folder: int = -1
    name: str = ""
    old_folder: int = -1
    old_name: str = ""
    event: Event | None = None


class Recorder(Counting):
    """Executes every call except flushes, and records it.

    The process dies at the n-th counted call (`kill_at`); the n-th flush fails (`fail_sync_at`). What exists
    under `base` at the start counts as safe.
    """

    def __init__(self, base: str, *, kill_at: int = 0, fail_sync_at: int = 0) -> None:
        super().__init__()
        self.base = os.path.abspath(base)
        self.ops: list[Op] = []
        self.kill_at = kill_at
        self.fail_sync_at = fail_sync_at
        self.dead = False
        self._open: dict[int, tuple[int, bool]] = {}
        self._locks: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._names: dict[str, int] = {self.base: 0}
        self._syncs = 0
        self._other_program = False  # another program is writing: its flushes neither count nor fail
        for folder, folders, files in os.walk(self.base):
            for name in [*folders, *files]:
                path = os.path.join(folder, name)
                self._created(path, "folder" if name in folders else "file")
                if name in files:
                    with open(path, "rb") as file:
                        self.ops.append(Op("write", self._names[path], data=file.read()))
        self.ops.append(Op("all safe"))

    def mark(self, event: Event) -> None:
        """Record an event of the actor between the calls."""
        self._other_program = event[:2] == ("try", "tear")
        self.ops.append(Op("event", event=event))

    def counts(self, name: str, args: tuple[Any, ...]) -> bool:
        return True

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        if number == self.kill_at:
            self.dead = True
            release_locks_of_dead(self._locks)
        if self.dead and name != "close":
            raise Dead
        if name == "fsync":
            return self._fsync(args[0])
        new = name == "open" and bool(args[1] & os.O_CREAT) and not os.path.lexists(args[0])
        answer = self.real(name, *args)
        self._record(name, args, answer, new)
        return answer

    def _fsync(self, descriptor: int) -> None:
        self._syncs += not self._other_program
        node = self._open.get(descriptor, (-1, False))[0]
        failed = self._syncs == self.fail_sync_at and not self._other_program
        self.ops.append(Op("sync failed" if failed else "sync", node))
        if failed:
            raise OSError(5, os.strerror(5))

    def _record(self, name: str, args: tuple[Any, ...], answer: Any, new: bool) -> None:
        if name == "open":
            if new:
                self._created(args[0], "file")
            self._open[answer] = (self._node(args[0]), bool(args[1] & os.O_APPEND))
            self._sizes.setdefault(self._open[answer][0], os.fstat(answer).st_size)
        elif name == "close":
            self._open.pop(args[0], None)
            self._locks.discard(args[0])
        elif name == "flock":
            self._locks.add(args[0])
        elif name in ("write", "pwrite"):
            node, append = self._open[args[0]]
            offset = self._sizes[node] if append else args[2] if name == "pwrite" else os.lseek(args[0], 0, 1) - answer
            self.ops.append(Op("write", node, offset, bytes(args[1][:answer])))
            self._sizes[node] = max(self._sizes[node], offset + answer)
        elif name == "copy_range":
            node = self._open[args[1]][0]
            data = os.pread(args[0], answer, os.lseek(args[0], 0, os.SEEK_CUR) - answer)
            self.ops.append(Op("write", node, self._sizes[node], data))
            self._sizes[node] += answer
        elif name == "ftruncate":
            node = self._open[args[0]][0]
            self.ops.append(Op("truncate", node, args[1]))
            self._sizes[node] = args[1]
        elif name == "mkdir":
            self._created(args[0], "folder")
        elif name in ("unlink", "rmdir"):
            self.ops.append(Op("remove", self._node(args[0]), **self._location(args[0])))
            self._names.pop(os.path.abspath(args[0]), None)
        elif name == "rename":
            old, location = self._location(args[0]), self._location(args[1])
            self.ops.append(
                Op("rename", self._node(args[0]), old_folder=old["folder"], old_name=old["name"], **location)
            )
            self._renamed(os.path.abspath(args[0]), os.path.abspath(args[1]))

    def _created(self, path: str, kind: str) -> None:
        node = self._names[os.path.abspath(path)] = len(self.ops) + 1
        self._sizes[node] = 0
        self.ops.append(Op(kind, node, **self._location(path)))

    def _node(self, path: str) -> int:
        return self._names.get(os.path.abspath(path), -1)

    def _location(self, path: str) -> Any:
        folder, name = os.path.split(os.path.abspath(path))
        return {"folder": self._node(folder), "name": name}

    def _renamed(self, source: str, target: str) -> None:
        moved = {path: node for path, node in self._names.items() if path == source or path.startswith(source + "/")}
        for path, node in moved.items():
            del self._names[path]
            self._names[target + path[len(source) :]] = node


class Disk:
    """The simulated disk: the safe state, and the operations that are not safe yet."""

    def __init__(self, chance: random.Random, style: str) -> None:
        self._chance = chance
        self._style = style
        self._kinds: dict[int, str] = {0: "folder"}
        self._bytes: dict[int, bytearray] = {}
        self._names: dict[int, dict[str, int]] = {0: {}}
        self._pending: list[Op] = []

    def do(self, op: Op) -> None:
        """Replay one recorded operation."""
        if op.kind == "sync":
            self._settle(op.node, safe=True)
        elif op.kind == "sync failed":
            self._settle(op.node, safe=False)
        elif op.kind == "all safe":
            for pending in self._pending:
                self._apply(pending)
            self._pending.clear()
        elif op.kind != "event":
            if op.kind in ("file", "folder"):
                self._kinds[op.node] = op.kind
                self._bytes.setdefault(op.node, bytearray())
                self._names.setdefault(op.node, {})
            self._pending.append(op)

    def cut(self, target: str) -> None:
        """Cut the power: each pending operation gets a random fate, then the disk's content is written to `target`."""
        for op in self._pending:
            self._apply_by_chance(op)
        self._pending.clear()
        trees.write(target, dict(self._tree(0, "")))

    def _settle(self, node: int, *, safe: bool) -> None:
        still_pending: list[Op] = []
        for op in self._pending:
            if (op.folder if op.kind in NAMES else op.node) != node:
                still_pending.append(op)
            elif safe:
                # Renames of the same file are never reordered.
                for earlier in [other for other in still_pending if op.kind in NAMES and other.kind in NAMES]:
                    if earlier.node == op.node:
                        self._apply(earlier)
                        still_pending.remove(earlier)
                self._apply(op)
            elif op.kind in ("write", "truncate"):
                self._apply_by_chance(op)
            else:
                still_pending.append(op)
        self._pending = still_pending

    def _apply(self, op: Op) -> None:
        if op.kind == "write":
            content = self._bytes[op.node]
            content.extend(bytes(max(0, op.offset - len(content))))
            content[op.offset : op.offset + len(op.data)] = op.data
        elif op.kind == "truncate":
            content = self._bytes[op.node]
            del content[op.offset :]
            content.extend(bytes(op.offset - len(content)))
        elif op.kind in ("file", "folder"):
            self._names[op.folder][op.name] = op.node
        else:
            old_folder, old_name = (op.old_folder, op.old_name) if op.kind == "rename" else (op.folder, op.name)
            if self._names[old_folder].get(old_name) == op.node:
                del self._names[old_folder][old_name]
            if op.kind == "rename":
                self._names[op.folder][op.name] = op.node

    def _apply_by_chance(self, op: Op) -> None:
        """Apply an operation that was never made safe fully, partly or not at all."""
        fate = self._chance.choice(STYLES[:4]) if self._style == "mixed" else self._style
        if op.kind != "write":
            # A change of a name or a size happens completely or not at all.
            if fate == "keep" or (fate not in ("drop", "keep") and self._chance.random() < 0.5):
                self._apply(op)
        elif fate == "keep":
            self._apply(op)
        elif fate == "prefix":
            self._apply(msgspec.structs.replace(op, data=op.data[: self._chance.randint(0, len(op.data))]))
        elif fate == "zero":
            self._apply(msgspec.structs.replace(op, data=self._with_holes(op)))

    def _with_holes(self, op: Op) -> bytes:
        """Return the data of a write with some or all of its blocks zeroed."""
        data = bytearray(op.data)
        all_blocks = self._chance.random() < 0.3
        first = op.offset // BLOCK
        for block in range(first, (op.offset + len(data)) // BLOCK + 1):
            if all_blocks or self._chance.random() < 0.5:
                start, end = max(0, block * BLOCK - op.offset), (block + 1) * BLOCK - op.offset
                data[start:end] = bytes(len(data[start:end]))
        return bytes(data)

    def _tree(self, folder: int, path: str) -> Iterator[tuple[str, bytes | None]]:
        for name, node in self._names[folder].items():
            child = os.path.join(path, name)
            if self._kinds[node] == "folder":
                yield child, None
                yield from self._tree(node, child)
            else:
                content = bytes(self._bytes[node])
                yield child, disown(content) if name.endswith(".lock") else content


def after_power_cut(ops: list[Op], cut: int, chance: random.Random, style: str, target: str) -> list[Event]:
    """Write the disk to `target` as a cut after `cut` operations leaves it; return the events up to then."""
    disk = Disk(chance, style)
    for op in ops[:cut]:
        disk.do(op)
    disk.cut(target)
    return [op.event for op in ops[:cut] if op.event is not None]
