"""A workspace for one test, with a search over it."""

from __future__ import annotations

import os
from pathlib import Path

from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.services.library.search import Search
from cortext.services.library.sources import SessionHit
from cortext.services.projects.workspaces import remember_workspace
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores


class World:
    """A workspace with sessions, as a new process would see it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        (self.root / ".workspace").mkdir(parents=True)
        remember_workspace(str(self.root))
        self.store = WorkspaceStore(str(self.root))

    def talk(self, session_id: str, *texts: str, title: str = "", type: str = "") -> None:
        """Append to a session, created if necessary, in which the user and the assistant take turns."""
        if session_id not in {session.id for session in self.store.sessions()}:
            self.store.create(Session(id=session_id, title=title, type=type))
        start = self.store.get(session_id).message_count
        roles = ("user", "assistant")
        self.store.append(
            session_id,
            *(Message(role=roles[(start + number) % 2], content=text) for number, text in enumerate(texts)),
        )

    def search(self) -> Search:
        """Return the search of a new process."""
        return Stores(str(self.root)).search()

    def find(self, text: str, **how: object) -> list[str]:
        """Return the ids of the sessions found."""
        return [found.session.id for found in self.search().search(Query(text, **how)).hits]  # type: ignore[arg-type]

    def cache(self) -> Path:
        """Return the folder of the index."""
        return Path(os.environ["HOME"]) / ".cache" / "cortext" / "search"


def answers(search: Search, *questions: str) -> list[list[tuple[str, float, list[tuple[int, str, float]]]]]:
    """Return everything that was found, in comparable form."""
    return [[_plain(found) for found in search.search(Query(question)).hits] for question in questions]


def _plain(found: SessionHit) -> tuple[str, float, list[tuple[int, str, float]]]:
    return found.session.id, found.score, [(match.seq, match.snippet, match.score) for match in found.matches]
