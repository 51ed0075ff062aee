"""`/workspace.resume` inside a running tool: show the list or a packet, and make the chat part of that conversation.

What is said in the chat from then on is stored in the conversation's own log, and the conversation is active: see
`capture.attach`. What was said before stays where it was stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from cortext.errors import AmbiguousId, CortextError, DamagedData, NotFound, StoreUnreachable
from cortext.index.sessions import Row
from cortext.model import clock, tokens
from cortext.model.asides import LONGEST_ASKING, only_asks
from cortext.model.ids import is_number
from cortext.model.query import Query
from cortext.model.session import ACTIVE, COMPLETED, LONGEST_SHOWN, Change, Origin, Session
from cortext.model.wording import clip_summary
from cortext.safety.framing import disarmed, field
from cortext.safety.secrets.masking import mask
from cortext.services.capture.capture import Capture, session_id_for
from cortext.services.library.listing import Listing, placed
from cortext.services.library.resolve import Resolver
from cortext.services.library.sources import Answer
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.moved import place_of
from cortext.services.resume.notes import choose_branch, completed_text, notes_in_chat, up_to_date
from cortext.services.resume.packet import build
from cortext.services.workspace import running_chats
from cortext.services.workspace.creating import session_to_continue
from cortext.services.workspace.registry import command_text
from cortext.services.workspace.running_chats import Chat

# Hooks and commands of the tools are known to carry 10,000 characters: the rest is fetched through MCP.
LARGEST = 9_500
PRICE = 300  # characters for the note on the price
LISTED = 12
FORCE = "--force"
_BRANCH = re.compile(r"(?:^|\s)--branch[ =](\d{1,4})(?=\s|$)")


class Reply(NamedTuple):
    """What the model is to read: what was done, and the record (data)."""

    done: str
    record: str = ""

    def text(self) -> str:
        """Return both as one text."""
        return "\n\n".join(part for part in (self.done, self.record) if part)


class ChatResumer:
    """Resumes conversations inside one running chat: lists them, finds the one that is meant, and attaches the chat.

    `caught_up` captures what the chosen conversation's tool has written since the last hook; `save` saves and pauses
    the conversation that the chat was part of before; `price` says what it costs to carry a conversation into a tool.
    """

    def __init__(
        self,
        listing: Listing,
        capture: Capture,
        workspace: str,
        chat: Chat | None,
        *,
        caught_up: Callable[[StoredConversation], StoredConversation],
        save: Callable[[StoredConversation], object] | None = None,
        price: Callable[[Session, int, str], str] | None = None,
    ) -> None:
        self.listing, self.capture, self.workspace, self.chat = listing, capture, workspace, chat
        self._caught_up, self._save, self._price = caught_up, save, price
        self._missing: list[str] = []  # why the chosen conversation may not be up to date

    # ── candidates ───────────────────────────────────────────────────────────────────────────────────

    def resumable(self) -> Answer:
        """Return what can be resumed here: neither this chat itself nor the conversation that is active in it."""
        current = self.current()
        hidden = set()
        if self.chat is not None:
            hidden.add((self.capture.home.root, session_id_for(self.chat.tool, self.chat.key)))
        if current is not None and current.session.status == ACTIVE:
            hidden.add((current.root, current.session.id))
        answer = self.listing.answer(Query(filters={"is": "unarchived"}))
        return answer._replace(hits=[hit for hit in answer.hits if (hit.session.root, hit.session.id) not in hidden])

    def current(self) -> StoredConversation | None:
        """Return the conversation that this chat is part of, if any."""
        entry = self.capture.catalogue.get(self.chat.tool, self.chat.key) if self.chat is not None else None
        named_store = self.capture.store_at(entry.root) if entry is not None else None
        if entry is None or named_store is None:
            return None
        try:
            session = named_store.store.peek(entry.session_id)
        except CortextError:
            return None
        # A chat that was never resumed is a session of its own in the home store.
        if self.capture.is_own(entry) and not entry.fresh and session.status != ACTIVE:
            return None
        return StoredConversation(named_store, session)

    def numbered(self, answer: Answer) -> list[Row]:
        """Return the conversations of an answer to list, and remember their numbers until the next list."""
        shown = list(islice(self._without_requests(answer.rows), LISTED))
        running_chats.remember_list(self.chat, self.workspace, [(row.root, row.id) for row in shown])
        return placed(shown)

    def _without_requests(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Leave out chats that only asked for a conversation or stopped one."""
        return (row for row in rows if not self._only_asked(row))

    def _only_asked(self, row: Row) -> bool:
        if row.root != self.capture.home.root or row.message_count > LONGEST_ASKING:
            return False
        return only_asks(self.listing.messages(row))

    def choose(self, wanted: str, see: str = "this list") -> Row:
        """Return the conversation that is meant; numbers are those of the last list in this chat.

        Raises StoreUnreachable if it could be one on a server that does not answer: only a whole id is not.
        """
        if is_number(wanted.strip()):
            return self._numbered(wanted, see)
        answer = self.resumable()
        names = Resolver(answer.rows, self.workspace, newest_clone=True, see=see)
        try:
            row = names.only(list(self._without_requests(names.candidates(wanted))), wanted)
        except (AmbiguousId, NotFound):
            answer.check_whole()
            raise
        if row.id != wanted.strip():
            answer.check_whole()
        return row

    def _numbered(self, wanted: str, see: str) -> Row:
        shown = running_chats.numbers_of(self.chat, self.workspace)
        if not shown:
            answer = self.resumable()
            answer.check_whole()
            shown = [(row.root, row.id) for row in self.numbered(answer)]
        return Resolver(self.listing.named(wanted, shown), self.workspace, shown, see=see).resolve(wanted)

    def load(self, row: Row) -> StoredConversation:
        """Return the conversation of a row, up to date."""
        found, self._missing = up_to_date(self.listing.found(row), self._caught_up)
        return found if self.chat is None else session_to_continue(found, self.capture.home)

    # ── answering ────────────────────────────────────────────────────────────────────────────────────

    def choices(self) -> Reply:
        """Return a numbered list, and why it may lack something."""
        answer = self.resumable()
        if answer.away and not answer.hits:
            return Reply("", f"{answer.incomplete} No other conversation can be resumed here.")
        text = list_text(self.numbered(answer), len(answer.hits))
        return Reply("", "\n\n".join(filter(None, (answer.incomplete, text))))

    def answer(self, wanted: str, largest: int = LARGEST, size: Callable[[str], int] = len) -> Reply:
        """Return the packet of the conversation that continues here; if it is unclear which one is meant, the list."""
        branch, wanted = _branch_in(wanted)
        words = [word for word in wanted.split() if word != FORCE]
        force = FORCE in wanted.split()
        if not words:  # only a branch is named
            return self.choices()
        try:
            chosen = self.load(self.choose(" ".join(words)))
            choose_branch(chosen, branch)
        except (AmbiguousId, DamagedData, NotFound) as error:
            problem = disarmed(mask(f"{error.message}. {error.hint}.").text)
            return Reply("", f"{problem}\n\n{self.choices().record}")
        if chosen.session.status == COMPLETED and not force:
            return Reply(completed_text(chosen))
        done = "\n".join(self.attach(chosen, force=force))
        record = packet_text(chosen, largest - size(done) - 2 - PRICE, size)
        price = self.price(chosen, tokens.estimate(record))
        return Reply(f"{done}\nNote: {price}." if 0 < size(price) < PRICE - 10 else done, record)

    def price(self, conversation: StoredConversation, count: int) -> str:
        """Return what it costs to carry so many tokens of a conversation into this chat's tool; empty if unknown."""
        if self._price is None:
            return ""
        return self._price(conversation.session, count, self.chat.tool if self.chat is not None else "")

    def attach(self, conversation: StoredConversation, *, force: bool = False) -> list[str]:
        """Attach the chat to a conversation and make it active; return what was done, and what to know."""
        chat, session = self.chat, conversation.session
        here = Origin(tool=chat.tool, session_id=chat.key) if chat is not None else None
        notes = [f"Note: {note}." for note in (*self._missing, *notes_in_chat(conversation, here))]
        if chat is None:
            done = (
                "cortext could not tell which chat this is, so it is NOT attached: what is said here from now on is "
                f"kept as a chat of its own, and {session.id} is unchanged. To continue in it: /workspace.resume "
                f"{session.id}, or `cortext resume {session.id}` in a terminal."
            )
            return [done, *notes]
        before = self.current()
        if before is not None and before.root == conversation.root and before.session.id == session.id:
            before = None
        if before is not None and before.session.status == ACTIVE and self._save is not None:
            self._save(before)
            notes.append(f"{before.session.id}, which was held here until now, is saved and paused.")
        branch = session.branch if session.branch_count > 1 else None
        self.capture.attach(conversation.named_store, session.id, chat.tool, chat.key, from_now=True, branch=branch)
        change = Change(origin=Origin(tool=chat.tool, session_id=chat.key), last_active=clock.now())
        if session.status != ACTIVE:
            change.status, change.force = ACTIVE, force
        conversation.store.update(session.id, change)
        done = (
            f"cortext has attached this chat to {session.id}, which is active now: what is said here from now on is "
            "kept there. /workspace.stop-conversation saves and pauses it."
        )
        return [done, *notes]


def _branch_in(wanted: str) -> tuple[int, str]:
    """Return the branch that `--branch N` names (0: none), and the words without it."""
    found = _BRANCH.search(wanted)
    return (int(found[1]), _BRANCH.sub(" ", wanted)) if found else (0, wanted)


def packet_text(conversation: StoredConversation, largest: int, size: Callable[[str], int] = len) -> str:
    """Return the packet, shortened to what the tool's command can carry."""
    command = command_text(conversation.root, conversation.session.type, conversation.session.title)
    place = place_of(conversation, os.getcwd())
    session, history = place.shown(conversation.session), place.history(conversation)
    budget = largest // 4
    text = ""
    while budget > 200:  # tokens are an estimate, characters are the tool's limit
        text = build(session, history, command=command, budget=budget).masked().text()
        if size(text) <= largest:
            return text
        budget = budget * 3 // 4
    while size(text) > largest:
        text = text[: len(text) * max(largest, 0) // size(text)]
    return text


def _field(text: str) -> str:
    """Return a stored value masked and safe for one line."""
    return field(mask(text).text)


def list_text(shown: list[Row], total: int) -> str:
    """Return the resumable conversations as the user is to see them."""
    if not shown:
        return "There are no conversations to resume yet. Start one with /workspace.brainstorm and a topic."
    lines = ["Here are your resumable conversations:", ""]
    for number, row in enumerate(shown, 1):
        lines.append(_field(f"{number}. [{row.type or row.kind}] {row.name}"))
        status = " | ".join(_field(text) for text in (row.status, row.place) if text)
        lines.append(f"   Last active: {_field(clock.ago(row.last_active))} | Status: {status}")
        if row.summary:
            lines.append(f"   Summary: {field(clip_summary(mask(row.summary).text, LONGEST_SHOWN))}")
        lines.append("")
    if total > LISTED and len(shown) == LISTED:
        lines.append(f"({total - LISTED} more: search them by words from the title)")
    lines.append("Which conversation would you like to continue? (number or search)")
    return "\n".join(lines)


def reply_in_chat(
    resumer: ChatResumer,
    wanted: str,
    capture_chat: Callable[[], object] = lambda: None,
    largest: int = LARGEST,
    size: Callable[[str], int] = len,
) -> Reply:
    """Return the list, or the conversation that continues here; if a server does not answer, what is missing.

    `capture_chat` stores what was said in this chat so far. It must succeed before the chat is attached to another
    conversation; for a list it may fail, and the next hook repeats it.
    """
    if any(word != FORCE for word in wanted.split()):
        try:
            capture_chat()
            resumer.listing.refresh()
            return resumer.answer(wanted, largest, size)
        except StoreUnreachable as error:
            return Reply(f"cortext could not resume it: {error.message}. Nothing was changed: {error.hint}.")
    with suppress(StoreUnreachable):  # the list says so
        capture_chat()
    resumer.listing.refresh()
    return resumer.choices()
