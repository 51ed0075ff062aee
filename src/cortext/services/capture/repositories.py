"""The repositories of sessions that were captured before repositories were recorded with them."""

from __future__ import annotations

import os
import sqlite3

from cortext.errors import CortextError
from cortext.index.sessions import SessionIndex
from cortext.model.session import Change
from cortext.services.library.stores import NamedStore
from cortext.services.projects.projects import Projects


def record_repositories(home: NamedStore, index: SessionIndex) -> int:
    """Record the repository with each session that has none and whose folder still exists; return how many there were.

    Nothing else in a session changes. What the index does not know yet is recorded the next time.
    """
    projects = Projects()
    done = 0
    try:
        sessions = index.without_repository(home.root)
    except sqlite3.DatabaseError:
        return 0  # locked or damaged: the next list repairs it
    for session_id, project in sessions:
        record = projects.record(project) if os.path.isdir(project) else {}
        if record:
            try:
                home.store.update(session_id, Change(extra=record))
                done += 1
            except (CortextError, OSError):
                continue  # in use, or just deleted: the next time
    return done
