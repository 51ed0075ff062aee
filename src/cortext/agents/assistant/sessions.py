"""The sessions of a chat, one of which is active: start, resume, list, delete and restore them.

A chat is the command line (`cli`), or a chat or thread of a messenger. Its name is a valid session id, and the first
session of a messenger's chat or thread has this id. A session of another tool or face is continued in a copy, with the
provenance of its messages. The id of the copy is derived from the original's, so a second resume, or one after a crash,
finds the copy. If the original has grown since, a new copy is made; the old one stays.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from cortext.errors import NotFound, SessionExists, SessionNotFound
from cortext.model import ids
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.query import Query
from cortext.model.session import ACTIVE, BY_TEXT, COMPLETED, IDLE, AgentConfig, Change, Session
from cortext.model.threads import thread
from cortext.services.library import last_command
from cortext.services.library.listing import Listing, Row
from cortext.services.library.resolve import Resolver, resolve_trashed
from cortext.services.library.sources import Answer
from cortext.services.library.stores import NamedStore, StoredConversation, damage_note
from cortext.services.text.summaries import summarise
from cortext.services.text.titles import title
from cortext.store.assistant import Chats
from cortext.store.base import Store
from cortext.store.capabilities import Annotates, Compacts
from cortext.wiring.stores import SHARED

COMMAND_LINE = "cli"
PREFIX = "sess_"
SHOWN = 20  # sessions in a list, unless all are requested
_LOOK_BACK = 64  # messages among which one is looked for before all are read


class Reach(NamedTuple):
    """What a chat may know: its own sessions and facts, and those of this machine if `shared` has the chat.

    `chat` is a messenger's chat without its topic; empty: the command line, and whatever belongs to this machine.
    """

    chat: str
    shared: frozenset[str]

    @property
    def is_shared(self) -> bool:
        """Whether it shares what belongs to this machine."""
        return not self.chat or self.chat in self.shared

    def has(self, session_id: str) -> bool:
        """Whether it may know this session of the assistant, or a fact that was stated in it."""
        owner = ids.chat_of(session_id)
        return owner == self.chat or (self.is_shared and (not owner or owner in self.shared))


class ReopenedSession(msgspec.Struct):
    """A session that is active again, and the session that it was copied from, if it was.

    `note` says what is wrong with the log of the one that was asked for.
    """

    session: Session
    copied_from: Row | None = None
    note: str = ""


class ChatSessions:
    """The active session of each chat, and the operations that change it."""

    def __init__(
        self,
        store: Store,
        root: str,
        chats: Chats,
        listing: Callable[[], Listing],
        shared_chats: Collection[str] = (),
    ) -> None:
        """`shared_chats` are the messenger's chats that know what belongs to this machine."""
        self.store, self.root, self.chats = store, root, chats
        self._shared = frozenset(shared_chats)
        self._make_listing = listing
        self._of_thread = threading.local()  # a listing's database connection must stay in its thread

    # ── what a chat may know ─────────────────────────────────────────────────────────────────────────

    def reach(self, chat_or_session: str) -> Reach:
        """Return what a chat, or the chat of a session, may know. The command line lists more: see `knows`."""
        return Reach(ids.chat_of(chat_or_session), self._shared)

    def knows(self, chat: str, root: str, session_id: str) -> bool:
        """Whether a chat may list, find and resume this session: on the command line, every one."""
        if not ids.chat_of(chat):
            return True
        return self.reach(chat).has(session_id if root == self.root else "")

    # ── the active session ───────────────────────────────────────────────────────────────────────────

    def active(self, chat: str) -> str:
        """Return the id of the active session of this chat; empty if there is none."""
        session_id = self.chats.active(chat)
        if session_id is None and chat != COMMAND_LINE:
            session_id = chat
        # It may have been deleted from another chat.
        return session_id if session_id and self.exists(session_id) else ""

    def place_of(self, chat: str, is_it: Callable[[Message], bool]) -> tuple[str, Message | None]:
        """Return the session of a messenger's chat that holds a message, and the last such message in it.

        The active session is looked at first, then those that were active last; if none has it, the active one is
        returned, and None.
        """
        for session_id in self._sessions_of(chat):
            for messages in (self.store.tail(session_id, _LOOK_BACK), self.store.read(session_id)):
                if found := list(filter(is_it, messages)):
                    return session_id, found[-1]
        return self.active(chat), None

    def _sessions_of(self, chat: str) -> Iterator[str]:
        active = self.active(chat)
        yield from [active] if active else []
        rows = self.listing().reachable().rows(Query(roots=[self.root]))  # only asked for if the message is not there
        others = (row.id for row in rows if ids.chat_of(row.id) == ids.chat_of(chat) and row.id != active)
        yield from itertools.islice(others, SHOWN)

    def exists(self, session_id: str) -> bool:
        """Whether the assistant has this session."""
        try:
            self.store.peek(session_id)
        except SessionNotFound:
            return False
        return True

    def ensure(self, chat: str) -> tuple[str, bool]:
        """Return the id of the active session, and whether it was created by this call."""
        chosen = self.chats.active(chat)  # read once: another process may change it at any moment
        # The first session of a messenger's chat has the chat's id. After it is deleted, the id stays reserved, so that
        # the session can be restored.
        first = chat if chat != COMMAND_LINE and chosen is None else ""
        session_id = chosen or first
        if session_id and self.exists(session_id):
            return session_id, False
        return self.start(chat, session_id=first).id, True

    def start(self, chat: str, *, session_id: str = "", seed: str = "", model: str = "") -> Session:
        """Create a session and make it active in this chat. The same `seed` always returns the same session.

        Without a seed, an active session that has no messages is returned instead of a new one.
        """
        prefix = ids.chat_prefix(ids.chat_of(chat)) if ids.chat_of(chat) else PREFIX
        if seed:
            session_id = prefix + hashlib.blake2b(seed.encode(), digest_size=6).hexdigest()[:9]
        if not session_id:
            current = self.active(chat)
            if current and not self.store.tail(current, 1):
                return self.store.get(current)
            # Activated before it is created: a kill in between must not leave a session that belongs to no chat.
            session_id = ids.new_session_id(prefix)
            self.chats.activate(chat, session_id)
        session = Session(id=session_id, type="chat", agent_config=AgentConfig(model=model))
        try:
            created = self.store.create(session)
        except SessionExists:
            created = self.store.get(session.id)
        if self.chats.active(chat) != created.id:
            self.chats.activate(chat, created.id)
        return created

    def resume(self, chat: str, wanted: str) -> ReopenedSession:
        """Make the session that `wanted` names (see services/library/resolve) active in this chat.

        A session of another tool or face is copied and continued as a chat, with its provenance.
        """
        row = self.find(chat, wanted)
        note = damage_note(self.listing().found(row)) if row.damage else ""
        copied_from = None
        session_id = row.id
        if row.root != self.root:
            owner = "" if self.reach(chat).is_shared else ids.chat_of(chat)
            session_id = adopt(self.store, self.listing().found(row), owner)
            copied_from = row
        session = self.store.get(session_id)
        if session.status not in (ACTIVE, IDLE):  # an idle one is active with the next message
            session = self.store.update(session_id, Change(status=ACTIVE, force=session.status == COMPLETED))
        self.chats.activate(chat, session_id)
        return ReopenedSession(session, copied_from, note)

    def annotate(self, session_id: str, record: dict[str, object]) -> None:
        """Store a record about a message of a session, if the store supports it."""
        if isinstance(self.store, Annotates):
            self.store.annotate(session_id, record)

    # ── the list ─────────────────────────────────────────────────────────────────────────────────────

    def listing(self) -> Listing:
        """Return the listing of all sessions of all stores, up to date."""
        listing: Listing | None = getattr(self._of_thread, "listing", None)
        if listing is None:
            listing = self._of_thread.listing = self._make_listing()
        listing.refresh()
        return listing

    def answer(
        self,
        query: Query,
        *,
        chat: str = COMMAND_LINE,
        shared: bool = False,
    ) -> Answer:
        """Return the sessions of the assistant, most recently active first, or those that others share with the user.

        Those that the chat may not know are left out. If these are on a server that does not answer, the others are
        returned, of every tool.
        """
        listing = self.listing().reachable()  # which asks a server that does not answer only once
        roots = listing.of_kind(SHARED) if shared else [self.root]
        most = 0 if ids.chat_of(chat) else query.limit  # only here it is known which ones a messenger's chat may know
        answer = listing.answer(replace(query, roots=roots, limit=most))
        if answer.away:
            answer = listing.answer(replace(query, limit=most))
        hits = [hit for hit in answer.hits if self.knows(chat, hit.session.root, hit.session.id)]
        return answer._replace(hits=hits[: query.limit] if query.limit else hits)

    def show(self, chat: str, rows: Sequence[Row]) -> None:
        """Record the list that was shown in this chat: row numbers refer to it until the next list."""
        last_command.remember_list(_lists_of(chat), ((row.root, row.id) for row in rows))

    def find(self, chat: str, wanted: str, *, words: bool = True) -> Row:
        """Return the session that `wanted` names, preferably one of the assistant's; SessionNotFound or AmbiguousId."""
        if not wanted.strip():
            raise NotFound("no session was given", hint="use /resume ID, with an id (or its beginning) from /sessions")
        shown = last_command.recall_list(_lists_of(chat))
        rows = [row for row in self.listing().named(wanted, shown) if self.knows(chat, row.root, row.id)]
        if shown is None and words:
            shown = [(row.root, row.id) for row in rows if row.root == self.root]
        return Resolver(rows, shown=shown, own=self.root, see="/sessions").resolve(wanted, words=words)

    # ── the trash ────────────────────────────────────────────────────────────────────────────────────

    def delete(self, chat: str, wanted: str = "") -> Session:
        """Move a session of the assistant, by default the active one, to the trash; return what it was."""
        session_id = self._find_own(chat, wanted) if wanted else self.active(chat)
        if not session_id:
            raise NotFound("there is no session to delete", hint="/sessions lists the sessions")
        session = self.store.peek(session_id)
        self.store.delete(session_id)
        if self.chats.active(chat) in (session_id, None):
            self.chats.activate(chat, "")
        return session

    def _find_own(self, chat: str, wanted: str) -> str:
        row = self.find(chat, wanted, words=False)
        if row.root != self.root:
            raise NotFound(
                f"{row.id} is a session of {row.tool or row.kind}, not of this assistant",
                kept="it is unchanged",
                hint=f"delete it on the command line with: cortext delete {row.id}",
            )
        return row.id

    def restore(self, chat: str, wanted: str = "") -> Session:
        """Restore a deleted session, by default the one deleted last, and make it active."""
        named_store = NamedStore("alfred", "chat", self.root, self.store)
        trashed = (item for item in self.store.trash() if self.knows(chat, self.root, item.session_id))
        items = [(named_store, item) for item in trashed]
        wanted = wanted.strip() or (items[0][1].key if items else "")
        if not wanted:
            raise NotFound("the trash is empty", hint="/sessions lists the sessions")
        _, item = resolve_trashed(items, wanted, hint="use the id that /delete printed")
        session = self.store.restore(item.key)
        self.chats.activate(chat, session.id)
        return session


def _lists_of(chat: str) -> str:
    """Return the name under which the last list of a chat is stored."""
    return f"chat-{chat}"


COPY_PREFIX = "cont_"
FROM = "continued_from"  # in the copy's metadata
_KEPT = 40  # messages that stay in the working file; the model sees a summary of the earlier ones


def adopt(store: Store, conversation: StoredConversation, chat: str = "") -> str:
    """Return the id of the chat that continues this session, which is created if it does not exist.

    A messenger's `chat` gets a copy of its own, which no other chat continues.
    """
    source = conversation.session
    messages = [_text_only(message) for message in thread(conversation.store.read(source.id)) if _is_copied(message)]
    if not messages:
        raise NotFound(f"session {source.id} has no messages", kept="it is unchanged", hint="choose another session")
    provenance = {
        "store": conversation.named_store.label,
        "session_id": source.id,
        "tool": source.origin.tool,
        "messages": len(messages),
    }
    number = 1
    while True:
        suffix = f"_{number}" if number > 1 else ""
        session_id = f"{COPY_PREFIX}{f'{chat}_' if chat else ''}{source.id}"[: 96 - len(suffix)] + suffix
        copy = Session(
            id=session_id,
            type="chat",
            title=source.title or title(messages),
            origin=source.origin,
            extra={FROM: provenance},
        )
        try:
            store.create(copy)
        except SessionExists:
            existing = store.get(session_id)
            if existing.extra.get(FROM) != provenance:
                number += 1
                continue
            if existing.message_count:
                return session_id
        with store.open(session_id) as writer:
            if not store.tail(session_id, 1):  # another process may have copied them meanwhile
                writer.append(*messages)
        _compact(store, source, session_id, messages)
        return session_id


def _is_copied(message: Message) -> bool:
    return message.role in (USER, ASSISTANT) and bool(message.text.strip())


def _text_only(message: Message) -> Message:
    """Return the message without tool calls and results: those belong to the tool that ran them."""
    return Message(
        role=message.role,
        content=message.text,
        timestamp=message.timestamp,
        id=message.id,
        model=message.model,
    )


def _compact(store: Store, source: Session, session_id: str, messages: list[Message]) -> None:
    """Store a summary of the older messages, and move them out of the working file."""
    count = len(messages) - _KEPT
    if count <= 0 or not isinstance(store, Compacts):
        return
    existing = source.summary.strip()
    extracted = summarise([replace(message, seq=index) for index, message in enumerate(messages[:count])])
    summary = f"{existing}\n\n{extracted}" if existing and extracted not in existing else existing or extracted
    store.update(session_id, Change(summary=summary, summary_covers=count, summary_by=BY_TEXT))
    store.compact(session_id, count)
