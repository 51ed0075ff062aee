"""Which conversations read or changed a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from cortext.errors import NotFound
from cortext.model.wording import times
from cortext.services.digest.calls import CHANGED, CREATED, READ, calls_in
from cortext.services.library.json_views import Json, session_json
from cortext.services.library.listing import Row
from cortext.services.origin.edits import edits_in
from cortext.services.origin.history import locate
from cortext.services.origin.session_edits import MOST_SESSIONS, OTHER, SAME, EditSource
from cortext.services.projects.projects import Projects


class Touch(msgspec.Struct, kw_only=True):
    """What a session did with a file: how often it changed and only read it, and the message that used it last.

    `is_sure` is False if the path fits, but the project of the session cannot be recognised on this machine.
    """

    row: Row
    changed: int
    read: int
    seq: int
    timestamp: str
    is_sure: bool

    @property
    def did(self) -> list[str]:
        """What it did, in words."""
        done = {"changed": self.changed, "read": self.read}
        return [f"{what} it {times(often)}" for what, often in done.items() if often]


def touched(library: EditSource, path: str) -> list[Touch]:
    """Return the sessions that used a file, the one that used it last first. The file need not exist any more."""
    top, names = _place(path)
    here = Projects().repository(top)
    bases = {os.path.basename(name) for name in names}
    found = []
    for row in library.naming(names)[:MOST_SESSIONS]:
        touch = _touch(library, row, library.relation(row, here), top, names, bases)
        if touch is not None:
            found.append(touch)
    return sorted(found, key=lambda touch: (touch.timestamp, touch.row.id), reverse=True)


def _place(path: str) -> tuple[str, list[str]]:
    """Return the folder that a file's names are relative to, and those names."""
    try:
        history, inside = locate(path)
        return history.top, history.names(inside)
    except NotFound:  # in no repository: known by its path alone
        whole = os.path.abspath(os.path.expanduser(path))
        return os.path.dirname(whole), [os.path.basename(whole)]


def _touch(
    library: EditSource, row: Row, relation: int, top: str, names: Sequence[str], bases: set[str]
) -> Touch | None:
    messages = library.messages(row)
    uses = [(call.at, use.path, use.state) for call in calls_in(messages, bases) for use in call.files]
    # Here-documents, and the answers of tools without calls.
    edits = [(edit.at, edit.path, CREATED if edit.whole else CHANGED) for edit in edits_in(messages, bases)]
    sure: dict[int, tuple[str, int]] = {}
    for at, named, state in [*uses, *edits]:
        if os.path.basename(named) in bases and (match := library.match(named, row, relation, top, names)) != OTHER:
            before = sure.get(at, (READ, match))
            sure[at] = (state if state != READ else before[0], max(match, before[1]))
    if not sure:
        return None
    last = messages[max(sure)]
    changed = sum(state != READ for state, _ in sure.values())
    return Touch(
        row=row,
        changed=changed,
        read=len(sure) - changed,
        seq=last.seq,
        timestamp=last.timestamp,
        is_sure=any(match == SAME for _, match in sure.values()),
    )


def touch_json(touch: Touch) -> Json:
    """Return what a session did with a file."""
    fields = {"changed": touch.changed, "read": touch.read, "seq": touch.seq, "timestamp": touch.timestamp}
    return {"session": session_json(touch.row), **fields, "sure": touch.is_sure}
