"""Deleted sessions, until they are restored: `<control>/trash/<key>/`, with a note of their original paths.

The note is written before anything moves, and a move is one rename: after a crash the session is complete, either in
its original path or in the trash. A note without its session is an unfinished deletion and is not listed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

from cortext.errors import UnsafePath, not_in_trash, session_exists_again
from cortext.io import durable
from cortext.model import clock
from cortext.model.ids import check_plain_name
from cortext.store.base import Trashed
from cortext.store.files.fields import text_field
from cortext.store.files.layout_paths import Folders
from cortext.store.files.lines import encode_pretty
from cortext.store.files.metadata import load_fields

NOTE = "trash.json"


# A session's id, when it was deleted, and the original paths of its files, relative to the root.
Note = tuple[str, str, list[str]]


class Trash:
    """The trash of one store."""

    def __init__(self, folders: Folders, folder: str) -> None:
        self.folders = folders
        self.root = folders.root
        self.folder = folder

    def put(self, session_id: str, paths: Sequence[str]) -> Trashed:
        """Move these files or folders (the first is the session itself) into the trash."""
        self.folders.check(self.folder)
        key = f"{session_id}.{time.time_ns():x}"
        folder = os.path.join(self.folder, key)
        origins = [os.path.relpath(path, self.root) for path in paths]
        item = Trashed(key=key, session_id=session_id, deleted_at=clock.now(), origin=origins[0])
        self._sweep(session_id)
        durable.ensure_folder(folder, self.root)
        note = {"session_id": session_id, "deleted_at": item.deleted_at, "origins": origins}
        durable.replace_file(os.path.join(folder, NOTE), [encode_pretty(note)])
        for path in paths:
            if os.path.lexists(path):
                durable.move(path, os.path.join(folder, os.path.basename(path)))
        return item

    def _sweep(self, session_id: str) -> None:
        """Remove the folders of deletions of this session that were killed before anything was moved."""
        try:
            keys = [key for key in os.listdir(self.folder) if key.rpartition(".")[0] == session_id]
        except FileNotFoundError:
            return
        for key in keys:
            folder = os.path.join(self.folder, key)
            if self._note(key) is not None or not os.path.isdir(folder) or os.path.islink(folder):
                continue
            if all(name == NOTE or name.startswith(f".{NOTE}.") for name in os.listdir(folder)):
                durable.remove_tree(folder)

    def items(self) -> Iterator[Trashed]:
        """Return the sessions that can be restored, the most recently deleted first."""
        self.folders.check(self.folder)
        try:
            keys = sorted(os.listdir(self.folder), key=lambda key: key.rpartition(".")[2], reverse=True)
        except FileNotFoundError:
            return
        for key in keys:
            note = self._note(key)
            if note is not None:
                yield Trashed(key=key, session_id=note[0], deleted_at=note[1], origin=note[2][0])

    def find(self, key: str) -> Note:
        """Return the note of this key, or raise NotFound."""
        self.folders.check(self.folder)
        note = self._note(check_plain_name(key))
        if note is None:
            raise not_in_trash(key)
        return note

    def restore(self, key: str, may_restore_to: Callable[[str, str], bool]) -> str:
        """Move a session back to its original path, if that is allowed; return its id. The caller holds its lock."""
        session_id, _, origins = self.find(key)
        moves: list[tuple[str, str]] = []
        for origin in origins:
            source = os.path.join(self.folder, key, os.path.basename(origin))
            target = os.path.join(self.root, *(check_plain_name(name) for name in origin.split(os.sep)))
            if os.path.islink(source) or not may_restore_to(session_id, target):
                raise UnsafePath(
                    f"the original path in the trash is not that of a session: {ascii(origin)[:120]}",
                    kept="nothing was moved",
                    hint=f"inspect {os.path.join(self.folder, key)} and move the session yourself",
                )
            self.folders.check(os.path.dirname(target))
            if os.path.lexists(source):
                moves.append((source, target))
        if moves and os.path.lexists(moves[0][1]):
            raise session_exists_again(session_id)
        # The session itself is moved last: until then it is in the trash, and the restore can be repeated.
        for source, target in reversed(moves):
            durable.ensure_folder(os.path.dirname(target), self.root)
            if os.path.lexists(target):
                # An interrupted deletion left this quarantine behind.
                with open(source, "rb", opener=durable.plain_file) as file:
                    durable.append_once(target, file.read())
            else:
                durable.move(source, target)
        durable.remove_tree(os.path.join(self.folder, key))
        return session_id

    def _note(self, key: str) -> Note | None:
        folder = os.path.join(self.folder, key)
        if os.path.islink(folder):
            return None
        try:
            fields, _ = load_fields(os.path.join(folder, NOTE))
        except (OSError, UnsafePath):
            return None
        origins = fields.get("origins")
        session_id, deleted_at = text_field(fields, "session_id"), text_field(fields, "deleted_at")
        if not isinstance(origins, list) or not origins or not all(isinstance(origin, str) for origin in origins):
            return None
        if not os.path.lexists(os.path.join(folder, os.path.basename(origins[0]))):
            return None
        return (session_id, deleted_at, origins) if session_id == key.rpartition(".")[0] else None
