"""The sessions of a chat: one of them is active; new ones begin, old ones are resumed, none is lost.

A chat is the command line (`cli`), or a chat or thread of a messenger. Its name is a legal session id, and where
the messenger itself keeps talks apart (a thread), the first session of the chat has that very id.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence

import msgspec

from cortext.errors import NotFound, SessionExists, SessionNotFound
from cortext.model import ids
from cortext.model.session import AgentConfig, Change, Session
from cortext.model.status import ACTIVE, COMPLETED
from cortext.services.assistant.adopt import adopt
from cortext.services.library import last_list
from cortext.services.library.listing import Listing, Row
from cortext.services.library.resolve import Resolver, resolve_trashed
from cortext.services.library.stores import NamedStore
from cortext.store.assistant import Chats
from cortext.store.base import Store, Trashed
from cortext.store.capabilities import Annotates

COMMAND_LINE = "cli"
PREFIX = "sess_"
SHOWN = 20  # sessions in a list, unless more are asked for


class Resumed(msgspec.Struct):
    """A session that is active again, and where its words were first said, if that was elsewhere."""

    session: Session
    copied_from: Row | None = None


class ChatSessions:
    """Which session each chat is in, and the ways from one to another."""

    def __init__(self, store: Store, root: str, chats: Chats, listing: Callable[[], Listing]) -> None:
        self.store, self.root, self.chats = store, root, chats
        self._make_listing = listing
        self._of_thread = threading.local()  # a list has a database, and a database has one thread

    # ── the active session ───────────────────────────────────────────────────────────────────────────

    def active(self, chat: str) -> str:
        """The id of the session that this chat is in; empty where there is none (any more)."""
        session_id = self.chats.active(chat)
        if session_id is None and chat != COMMAND_LINE:
            session_id = chat
        # It may have been deleted from another chat.
        return session_id if session_id and self.is_there(session_id) else ""

    def is_there(self, session_id: str) -> bool:
        """Whether the assistant has such a session."""
        try:
            self.store.peek(session_id)
        except SessionNotFound:
            return False
        return True

    def ensure(self, chat: str) -> tuple[str, bool]:
        """The active session, made where there is none; whether it was made."""
        chosen = self.chats.active(chat)  # once: another process may be making it at this moment
        # A messenger's own thread is its first session. If that was deleted, the trash may bring it back: leave its id.
        first = chat if chat != COMMAND_LINE and chosen is None else ""
        session_id = chosen or first
        if session_id and self.is_there(session_id):
            return session_id, False
        return self.start(chat, session_id=first).id, True

    def start(self, chat: str, *, session_id: str = "", seed: str = "", model: str = "") -> Session:
        """A new session, active in this chat. The same `seed` gives the same session, tried again or not.

        Without one, where nothing was said yet in the session that is active, that is the new one: none is left empty.
        """
        if seed:
            session_id = PREFIX + hashlib.blake2b(seed.encode(), digest_size=6).hexdigest()
        if not session_id:
            current = self.active(chat)
            if current and not self.store.tail(current, 1):
                return self.store.get(current)
            # Named as the active one before it is made: a kill between the two leaves no session that no chat is in.
            session_id = ids.new_session_id(PREFIX)
            self.chats.activate(chat, session_id)
        session = Session(id=session_id, type="chat", agent_config=AgentConfig(model=model))
        try:
            made = self.store.create(session)
        except SessionExists:
            made = self.store.get(session.id)
        if self.chats.active(chat) != made.id:
            self.chats.activate(chat, made.id)
        return made

    def resume(self, chat: str, wanted: str) -> Resumed:
        """Make a session active: named in any of the ways of services/library/resolve.

        One of another tool or face is continued here as a chat: its talk is copied, and says where it comes from.
        """
        row = self.find(chat, wanted)
        copied_from = None
        session_id = row.id
        if row.root != self.root:
            session_id = adopt(self.store, self.listing().found(row))
            copied_from = row
        session = self.store.get(session_id)
        if session.status != ACTIVE:
            session = self.store.update(session_id, Change(status=ACTIVE, force=session.status == COMPLETED))
        self.chats.activate(chat, session_id)
        return Resumed(session, copied_from)

    def annotate(self, session_id: str, record: dict[str, object]) -> None:
        """Keep a record about a message of a session, where the store keeps such records."""
        if isinstance(self.store, Annotates):
            self.store.annotate(session_id, record)

    # ── the list ─────────────────────────────────────────────────────────────────────────────────────

    def listing(self) -> Listing:
        """The list of all sessions of all stores, up to date."""
        listing: Listing | None = getattr(self._of_thread, "listing", None)
        if listing is None:
            listing = self._of_thread.listing = self._make_listing()
        listing.refresh()
        return listing

    def rows(self, limit: int = SHOWN) -> list[Row]:
        """The sessions of the assistant, the last active first."""
        return self.listing().rows(root=self.root, limit=limit)

    def show(self, chat: str, rows: Sequence[Row]) -> None:
        """These were listed in this chat: numbers count in them until the next list."""
        last_list.remember(_lists_of(chat), ((row.root, row.id) for row in rows))

    def find(self, chat: str, wanted: str, *, words: bool = True) -> Row:
        """The session that is meant, of the assistant or else of any other store; SessionNotFound, AmbiguousId."""
        if not wanted.strip():
            raise NotFound("resume which session?", hint="/resume ID, with an id (or its beginning) from /sessions")
        rows = self.listing().rows()
        shown = last_list.recall(_lists_of(chat))
        if shown is None and words:
            shown = [(row.root, row.id) for row in rows if row.root == self.root]
        return Resolver(rows, shown=shown, own=self.root, see="/sessions").resolve(wanted, words=words)

    # ── leaving ──────────────────────────────────────────────────────────────────────────────────────

    def delete(self, chat: str, wanted: str = "") -> Trashed:
        """Move a session (the active one) of the assistant to the trash."""
        session_id = self._own(chat, wanted) if wanted else self.active(chat)
        if not session_id:
            raise NotFound("there is no session to delete", hint="/sessions shows what there is")
        trashed = self.store.delete(session_id)
        if self.chats.active(chat) in (session_id, None):
            self.chats.activate(chat, "")
        return trashed

    def _own(self, chat: str, wanted: str) -> str:
        row = self.find(chat, wanted, words=False)
        if row.root != self.root:
            raise NotFound(
                f"{row.id} is a session of {row.tool or row.kind}, not of this assistant",
                kept="it is unchanged",
                hint=f"at the desk: cortext delete {row.id}",
            )
        return row.id

    def restore(self, chat: str, wanted: str = "") -> Session:
        """Bring a deleted session back, the last one unless another is named, and make it active."""
        named_store = NamedStore("alfred", "chat", self.root, self.store)
        items = [(named_store, item) for item in self.store.trash()]
        wanted = wanted.strip() or (items[0][1].key if items else "")
        if not wanted:
            raise NotFound("the trash is empty", hint="/sessions shows what there is")
        _, item = resolve_trashed(items, wanted, hint="give the id that /delete showed")
        session = self.store.restore(item.key)
        self.chats.activate(chat, session.id)
        return session


def _lists_of(chat: str) -> str:
    """Under which name the lists of a chat are kept."""
    return f"chat-{chat}"
