"""Deleted sessions, until they are wanted again: `<control>/trash/<key>/` with a note of where they lay.

The note is written before anything moves, and a move is one rename: a crash leaves the session either
where it was or in the trash, whole. A note without its session is an unfinished deletion and not listed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from cortext import fsio
from cortext.errors import NotFound, SessionExists
from cortext.model import clock
from cortext.safety.paths import check_plain_name
from cortext.store.base import Trashed
from cortext.store.lines import BadLine, decode_value, encode_pretty

NOTE = "trash.json"


class Trash:
    """The trash of one store."""

    def __init__(self, root: str, folder: str) -> None:
        self.root = root
        self.folder = folder

    def put(self, session_id: str, paths: Sequence[str]) -> Trashed:
        """Move these files or folders (the first is the session itself) into the trash."""
        key = f"{session_id}.{time.time_ns() // 1_000_000:x}"
        place = os.path.join(self.folder, key)
        origins = [os.path.relpath(path, self.root) for path in paths]
        item = Trashed(key=key, session_id=session_id, deleted_at=clock.now(), origin=origins[0])
        fsio.ensure_folder(place)
        note = {"session_id": session_id, "deleted_at": item.deleted_at, "origins": origins}
        fsio.replace_file(os.path.join(place, NOTE), [encode_pretty(note)])
        for path in paths:
            if os.path.lexists(path):
                fsio.move(path, os.path.join(place, os.path.basename(path)))
        return item

    def items(self) -> Iterator[Trashed]:
        """What can be brought back, the newest first."""
        try:
            keys = sorted(os.listdir(self.folder), key=lambda key: key.rpartition(".")[2], reverse=True)
        except FileNotFoundError:
            return
        for key in keys:
            note = self._note(key)
            if note is not None:
                yield Trashed(key=key, session_id=note[0], deleted_at=note[1], origin=note[2][0])

    def take_back(self, key: str) -> str:
        """Move a session back to where it lay; its id. The caller holds that id's lock."""
        note = self._note(check_plain_name(key))
        if note is None:
            raise NotFound(f"nothing in the trash is called {key}", hint="list it with `cortext trash`")
        session_id, _, origins = note
        for origin in origins:
            source = os.path.join(self.folder, key, os.path.basename(origin))
            target = os.path.join(self.root, *(check_plain_name(name) for name in origin.split(os.sep)))
            if not os.path.lexists(source):
                continue
            if os.path.lexists(target):
                raise SessionExists(
                    f"there is a session {session_id} again",
                    kept="both are unchanged",
                    hint="delete or rename the one that is there, then restore",
                )
            fsio.ensure_folder(os.path.dirname(target))
            fsio.move(source, target)
        fsio.remove_tree(os.path.join(self.folder, key))
        return session_id

    def _note(self, key: str) -> tuple[str, str, list[str]] | None:
        place = os.path.join(self.folder, key)
        try:
            with open(os.path.join(place, NOTE), "rb") as file:
                note = decode_value(file.read())
            origins = [str(origin) for origin in note["origins"]]
            if not os.path.lexists(os.path.join(place, os.path.basename(origins[0]))):
                return None
            return str(note["session_id"]), str(note["deleted_at"]), origins
        except (OSError, BadLine, KeyError, TypeError, IndexError):
            return None
