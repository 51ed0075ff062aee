"""Deleted sessions, until they are wanted again: `<control>/trash/<key>/` with a note of where they lay.

The note is written before anything moves, and a move is one rename: a crash leaves the session either
where it was or in the trash, whole. A note without its session is an unfinished deletion and not listed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

from cortext.errors import UnsafePath, not_in_trash, session_exists_again
from cortext.io import files as fsio
from cortext.model import clock
from cortext.safety.paths import check_plain_name
from cortext.store.base import Trashed
from cortext.store.files.fields import text_field
from cortext.store.files.folders import Folders
from cortext.store.files.lines import encode_pretty
from cortext.store.files.metadata import load_fields

NOTE = "trash.json"


# A session's id, when it was deleted, and the paths (from the root) that its files lay at.
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
        place = os.path.join(self.folder, key)
        origins = [os.path.relpath(path, self.root) for path in paths]
        item = Trashed(key=key, session_id=session_id, deleted_at=clock.now(), origin=origins[0])
        self._sweep(session_id)
        fsio.ensure_folder(place, self.root)
        note = {"session_id": session_id, "deleted_at": item.deleted_at, "origins": origins}
        fsio.replace_file(os.path.join(place, NOTE), [encode_pretty(note)])
        for path in paths:
            if os.path.lexists(path):
                fsio.move(path, os.path.join(place, os.path.basename(path)))
        return item

    def _sweep(self, session_id: str) -> None:
        """Away with the folders of deletions of this session that were killed before anything was moved."""
        try:
            keys = [key for key in os.listdir(self.folder) if key.rpartition(".")[0] == session_id]
        except FileNotFoundError:
            return
        for key in keys:
            place = os.path.join(self.folder, key)
            if self._note(key) is not None or not os.path.isdir(place) or os.path.islink(place):
                continue
            if all(name == NOTE or name.startswith(f".{NOTE}.") for name in os.listdir(place)):
                fsio.remove_tree(place)

    def items(self) -> Iterator[Trashed]:
        """What can be brought back, the newest first."""
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
        """What the trash knows of this key; NotFound."""
        self.folders.check(self.folder)
        note = self._note(check_plain_name(key))
        if note is None:
            raise not_in_trash(key)
        return note

    def take_back(self, key: str, allowed: Callable[[str, str], bool]) -> str:
        """Move a session back to where it lay, if it may lie there; its id. The caller holds that id's lock."""
        session_id, _, origins = self.find(key)
        moves: list[tuple[str, str]] = []
        for origin in origins:
            source = os.path.join(self.folder, key, os.path.basename(origin))
            target = os.path.join(self.root, *(check_plain_name(name) for name in origin.split(os.sep)))
            if os.path.islink(source) or not allowed(session_id, target):
                raise UnsafePath(
                    f"the trash would put {ascii(origin)[:120]} where no session lies",
                    kept="nothing was moved",
                    hint=f"look at {os.path.join(self.folder, key)} yourself",
                )
            self.folders.check(os.path.dirname(target))
            if os.path.lexists(source):
                moves.append((source, target))
        if moves and os.path.lexists(moves[0][1]):
            raise session_exists_again(session_id)
        # The session itself comes last: until then it is in the trash, and a restore can be tried again.
        for source, target in reversed(moves):
            fsio.ensure_folder(os.path.dirname(target), self.root)
            if os.path.lexists(target):
                # A quarantine that a deletion, interrupted, left behind.
                with open(source, "rb", opener=fsio.plain_file) as file:
                    fsio.append_once(target, file.read())
            else:
                fsio.move(source, target)
        fsio.remove_tree(os.path.join(self.folder, key))
        return session_id

    def _note(self, key: str) -> Note | None:
        place = os.path.join(self.folder, key)
        if os.path.islink(place):
            return None
        try:
            fields, _ = load_fields(os.path.join(place, NOTE))
        except (OSError, UnsafePath):
            return None
        origins = fields.get("origins")
        session_id, deleted_at = text_field(fields, "session_id"), text_field(fields, "deleted_at")
        if not isinstance(origins, list) or not origins or not all(isinstance(origin, str) for origin in origins):
            return None
        there = os.path.lexists(os.path.join(place, os.path.basename(origins[0])))
        return (session_id, deleted_at, origins) if there and session_id == key.rpartition(".")[0] else None
