"""From an update to an answer: the work that runs in a thread of its own, because models and disks block.

Every step is durable before the next one begins, and each checks whether it was already done: a process that takes over
from one that was killed continues where that one stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cortext.agents.assistant.commands import NO_SESSION, Commands, Outcome, created_notice
from cortext.agents.assistant.turn import Assistant, answer_to, missing_setup, unanswered_calls
from cortext.agents.talk.context import REMARK, cut_reason_of
from cortext.agents.talk.turn import Talk, cut_error
from cortext.agents.telegram.incoming import (
    AGAIN,
    COMMAND,
    DELETION,
    EDIT,
    MOVED,
    WORDS,
    Incoming,
    Media,
    clean_name,
    message_of,
)
from cortext.agents.telegram.withheld import error_text
from cortext.errors import CortextError, ModelError, SessionBusy, StoreUnreachable, WriteFailed
from cortext.model.answer import AnswerNote, AnswerText
from cortext.model.message import (
    ASSISTANT,
    USER,
    Message,
)
from cortext.services.library.stores import settle
from cortext.store.assistant import PendingUpdate, Updates

PASSING = (WriteFailed, SessionBusy, StoreUnreachable)  # a full disk, another writer, an unreachable server
_LOOK_BACK = 64  # messages that are searched for a recent update

STOP = "/stop"  # only here: on the command line Ctrl-C does it
STOP_HELP = (STOP, "stop the answer that is being written")

GREETING = (
    "Hello. I keep every conversation with you, here and on the command line. Just write; "
    "/sessions lists your sessions, /search finds what was said, /help lists the rest."
)

Grown = Callable[[str], None]  # called with the answer so far


RETRY = [("Ask again", "/retry")]
CONTINUE = [("Continue", "/continue")]


def _cut_note(reason: str) -> str:
    """Return the note under an answer that the model's limit or a filter has cut off."""
    return f"_(⚠ {cut_error(reason, '').message}; /continue goes on)_" if reason else ""


def _with_notes(text: str, session_id: str, made: bool, media: Media | None = None) -> str:
    """Return the answer with notes: what the model was not shown and, for a new session, how to start another one."""
    notes = [f"_(the {media.kind} itself was not opened: only your text was read)_"] if media and media.ref else []
    return "\n\n".join([text, *notes, *([created_notice(session_id)] if made else [])])


def _update_of(message: Message) -> tuple[Any, Any] | None:
    """Return the bot and the update that a message came from."""
    origin = (message.extra or {}).get("telegram")
    return (origin.get("bot"), origin.get("update")) if isinstance(origin, dict) else None


class Answering:
    """Answers updates, one at a time per chat (the caller ensures that)."""

    def __init__(self, assistant: Assistant, commands: Commands, updates: Updates, bot: int) -> None:
        self._assistant, self._commands, self._updates, self._bot = assistant, commands, updates, bot
        self._talks: dict[str, Talk] = {}
        self._current: dict[str, Incoming] = {}  # what is being answered in each chat
        self._edits: dict[tuple[str, int], Incoming] = {}  # the newest edit of each message that waits for its turn
        self._stopping = False

    def answer(self, taken: PendingUpdate, incoming: Incoming, grown: Grown) -> Outcome | None:
        """Return the answer to an update, or None if there is none. Errors become text, except transient ones."""
        try:
            return self._answer(taken, incoming, grown)
        except PASSING:
            raise  # the caller retries
        except CortextError as error:
            return Outcome(error_text(error))

    def _answer(self, taken: PendingUpdate, incoming: Incoming, grown: Grown) -> Outcome | None:
        if incoming.kind == COMMAND:
            return self._command(taken, incoming)
        if incoming.kind == EDIT:
            return self._edited(taken, incoming, grown)
        if incoming.kind == DELETION:
            self.record_deletion(taken.chat, incoming.deleted)
            return None
        if incoming.kind == MOVED:
            new = incoming.address._replace(chat=incoming.moved_to).name
            self._assistant.sessions.chats.activate(new, self._assistant.sessions.active(taken.chat))
            return None
        if incoming.kind == AGAIN:
            return self._again(taken, grown)
        return self._words(taken, incoming, grown) if incoming.kind == WORDS else None

    def stop(self) -> None:
        """Stop the answers in progress; the next process finishes them."""
        self._stopping = True
        for talk in list(self._talks.values()):
            talk.stop()

    def interrupt(self, chat: str) -> None:
        """Stop the answer that is being written at the user's request: the part so far stays, flagged as partial."""
        talk = self._talks.get(chat)
        if talk is not None:
            talk.stop()

    def edited(self, chat: str, incoming: Incoming) -> None:
        """Note an edit that has arrived and waits: an answer to the text before it is stopped, or not begun."""
        if incoming.kind != EDIT or not incoming.text:
            return
        self._edits[chat, incoming.message] = incoming
        current = self._current.get(chat)
        if current is not None and self._is_replaced(chat, current):
            self.interrupt(chat)

    def has(self, incoming: Incoming) -> bool:
        """Whether a session of the chat holds a version of this message."""
        return self._place_of(incoming)[1] is not None

    def _is_replaced(self, chat: str, incoming: Incoming) -> bool:
        """Whether a later edit of the same message, with other words, waits for its turn."""
        newest = self._edits.get((chat, incoming.message))
        return newest is not None and newest.update > incoming.update and newest.text != incoming.text

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────

    def _command(self, taken: PendingUpdate, incoming: Incoming) -> Outcome:
        if incoming.text.split()[0] == "/start":
            return Outcome(GREETING)
        if incoming.text == STOP:
            return Outcome("Nothing is being written now.")
        if "answer" in taken.facts:
            return msgspec.convert(taken.facts["answer"], Outcome)
        answer = self._commands.run(taken.chat, incoming.text, seed=f"telegram {self._bot} {taken.update}")
        if answer.name:
            answer.name = clean_name(answer.name) or "session.md"  # the user may have given /export a path
        if not answer.document and not answer.hits:
            # A command is not executed again, however often its answer has to be sent.
            self._updates.note(taken.update, {"answer": msgspec.to_builtins(answer)})
        return answer

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────

    def _words(self, taken: PendingUpdate, incoming: Incoming, grown: Grown, replaced: str = "") -> Outcome | None:
        """Answer a message of the user; `replaced` is the id of the stored one that it is the edited version of."""
        self._current[taken.chat] = incoming
        try:
            return self._answer_words(taken, incoming, grown, replaced)
        finally:
            del self._current[taken.chat]

    def _answer_words(self, taken: PendingUpdate, incoming: Incoming, grown: Grown, replaced: str) -> Outcome | None:
        assistant = self._assistant
        if not assistant.auto_create and not assistant.sessions.active(taken.chat) and "session" not in taken.facts:
            return Outcome(NO_SESSION)
        session_id, made = self._session(taken)
        stored = self._stored(taken, session_id)
        if stored is not None:
            existing = answer_to(list(assistant.store.read(session_id, stored.seq)), stored.id)
            if existing is not None:
                said = "\n\n".join(filter(None, (existing.text, _cut_note(cut_reason_of(existing)))))
                return Outcome(_with_notes(said, session_id, made, incoming.media), markdown=True)
        if incoming.media is not None and not incoming.text and not incoming.media.content:
            return self._decline_media(taken, incoming, incoming.media, session_id, made, stored)
        message = message_of(incoming, self._bot, replaced)
        if self._is_replaced(taken.chat, incoming):
            if stored is None:
                stored = self._note(taken, session_id, assistant.store.append(session_id, message)[0])
                assistant.end_turn(session_id, [stored])
            return None  # what it was edited into is answered
        try:
            model = assistant.models.take()
        except ModelError as error:
            if stored is None:
                stored = self._note(taken, session_id, assistant.store.append(session_id, message)[0])
                assistant.end_turn(session_id, [stored])
            return Outcome(_with_notes(error_text(error), session_id, made), buttons=RETRY)
        talk = assistant.talk(session_id, model)
        self._talks[taken.chat] = talk
        try:
            if stored is None:
                stored = self._note(taken, session_id, assistant.say(talk, message))
            else:
                missing = unanswered_calls(list(assistant.store.read(session_id, stored.seq)))
                if missing is not None:
                    talk.store(missing)
            if self._is_replaced(taken.chat, incoming):
                talk.stop()  # it was edited before there was anything to stop
            answer = self._ask(talk, grown, edited=lambda: self._is_replaced(taken.chat, incoming))
            without = missing_setup(model) if made else ""
            said = "\n\n".join(filter(None, (answer.text, f"_({without})_" if without else "")))
            answer.text = _with_notes(said, session_id, made, incoming.media)
            return answer
        finally:
            self._talks.pop(taken.chat, None)
            assistant.models.give_back(model)
            assistant.end_turn(session_id, [message for message in (stored, talk.reply) if message is not None])

    def _again(self, taken: PendingUpdate, grown: Grown) -> Outcome:
        """Handle /retry and /continue: answer what has no answer yet, or write the rest of one that was cut off."""
        assistant = self._assistant
        noted = taken.facts.get("session")
        session_id = noted if isinstance(noted, str) else assistant.sessions.active(taken.chat)
        if not session_id:
            return Outcome(NO_SESSION)
        after = taken.facts.get("seq")
        if isinstance(after, int):  # an earlier process began this; the answer may already be stored
            for message in assistant.store.read(session_id, after + 1):
                if message.role == ASSISTANT and not message.partial and message.text:
                    return Outcome(message.text, markdown=True)
        model = assistant.models.take()
        talk = assistant.talk(session_id, model)
        self._talks[taken.chat] = talk
        try:
            missing = unanswered_calls(talk.view.messages)
            if missing is not None:
                talk.store(missing)
            if not talk.view.awaits_answer and not talk.view.cut_reason:
                return Outcome("There is nothing to answer: just write.")
            last = assistant.store.tail(session_id, 1)
            self._updates.note(taken.update, {"session": session_id, "seq": last[-1].seq if last else -1})
            return self._ask(talk, grown)
        finally:
            self._talks.pop(taken.chat, None)
            assistant.models.give_back(model)
            assistant.end_turn(session_id, [talk.reply] if talk.reply is not None else [])

    def _session(self, taken: PendingUpdate) -> tuple[str, bool]:
        """Return the session of this update: the recorded one, or the active one of the chat."""
        noted = taken.facts.get("session")
        if isinstance(noted, str) and self._assistant.sessions.exists(noted):
            return noted, bool(taken.facts.get("made"))
        session_id, made = self._assistant.sessions.ensure(taken.chat)
        if made:
            # Durable before the first message is stored: after a crash in between, the user must still be told.
            self._updates.note(taken.update, {"made": True})
        return session_id, made or bool(taken.facts.get("made"))

    def _stored(self, taken: PendingUpdate, session_id: str) -> Message | None:
        """Return the user's message of this update, if it is already in the session."""
        store = self._assistant.store
        start = taken.facts.get("seq") if taken.facts.get("session") == session_id else None
        messages = store.read(session_id, start) if isinstance(start, int) else store.tail(session_id, _LOOK_BACK)
        return next((message for message in messages if _update_of(message) == (self._bot, taken.update)), None)

    def _note(self, taken: PendingUpdate, session_id: str, stored: Message) -> Message:
        self._updates.note(taken.update, {"session": session_id, "seq": stored.seq})
        return stored

    def _ask(self, talk: Talk, grown: Grown, edited: Callable[[], bool] = lambda: False) -> Outcome:
        said: list[str] = []
        masked: list[str] = []
        try:
            for event in talk.answer():
                if isinstance(event, AnswerText):
                    said.append(event.text)
                    grown("".join(said))
                elif isinstance(event, AnswerNote):
                    masked += [f"_({event.text})_"] if event.text.startswith("masked") else []
                elif said and not said[-1].endswith("\n\n") and talk.reply is not None:
                    said.append("\n\n")  # between the text before a tool call and the text after it
        except ModelError as error:
            text = "\n\n".join(filter(None, ("".join(said).strip(), error_text(error))))
            return Outcome(text, markdown=True, buttons=RETRY)
        if talk.stopped and self._stopping:
            raise Stopped
        buttons = RETRY if talk.stopped else CONTINUE if talk.cut_reason else []
        if talk.stopped and edited():
            buttons = []
            masked.append("_(stopped: you edited the message)_")
        elif talk.stopped:
            masked.append("_(stopped)_")
        said = ["".join(said).strip(), *masked, _cut_note(talk.cut_reason)]
        return Outcome("\n\n".join(filter(None, said)), markdown=True, buttons=list(buttons))

    def _decline_media(
        self,
        taken: PendingUpdate,
        incoming: Incoming,
        media: Media,
        session_id: str,
        made: bool,
        stored: Message | None,
    ) -> Outcome:
        """Keep a reference to a voice message, photo or file without text, and ask the user to describe it."""
        kept = "I kept a reference to it" if media.ref else "I kept a note of it, but not its content"
        words = f"I cannot open a {media.kind} yet. {kept}; please describe it in text."
        reply = Message(role=ASSISTANT, content=words)
        store = self._assistant.store
        if stored is None:
            stored, _ = store.append(session_id, message_of(incoming, self._bot), reply)
            self._note(taken, session_id, stored)
        else:
            store.append(session_id, reply)
        settle(store, session_id)
        return Outcome(_with_notes(words, session_id, made))

    # ── edits and deletions ──────────────────────────────────────────────────────────────────────────

    def _edited(self, taken: PendingUpdate, incoming: Incoming, grown: Grown) -> Outcome | None:
        """Answer an edited message. It is stored as another one that names what it replaces; no line is changed."""
        newest = self._edits.get((taken.chat, incoming.message))
        try:
            if incoming.text.startswith("/"):
                return Outcome("An edited command is not run. Send it as a new message.")
            active = self._assistant.sessions.active(taken.chat)
            session_id, before = self._place_of(incoming)
            if before is not None and session_id != active:  # after /new or /resume: it is answered where it was said
                self._updates.note(taken.update, {"session": session_id})
            # Telegram reports more than new words, such as each move of a live location: those are only recorded.
            if before is not None and before.content == message_of(incoming, self._bot).content:
                is_stored = _update_of(before) == (self._bot, taken.update)
                return self._words(taken, incoming, grown) if is_stored and incoming.text else None
            if not incoming.text:
                self._record_move(taken, incoming, session_id)
                return None
            outcome = self._words(taken, incoming, grown, before.id if before is not None else "")
            if outcome is not None and before is not None and session_id != active:
                outcome.text += f"\n\n_(in the session of that message, {session_id})_"
            return outcome
        finally:
            if newest is not None and newest.update == incoming.update:
                self._edits.pop((taken.chat, incoming.message), None)

    def _place_of(self, incoming: Incoming) -> tuple[str, Message | None]:
        """Return the session of the chat that holds a message, and its newest version: else the active one, None."""
        sessions = self._assistant.sessions
        return sessions.place_of(incoming.address.name, lambda message: self._is_of(message, incoming))

    def _is_of(self, message: Message, incoming: Incoming) -> bool:
        origin = (message.extra or {}).get("telegram")
        if not isinstance(origin, dict) or message.role != USER:
            return False
        named = (origin.get("bot"), origin.get("chat"), origin.get("message"))
        return named == (self._bot, incoming.address.chat, incoming.message)

    def _record_move(self, taken: PendingUpdate, incoming: Incoming, session_id: str) -> None:
        """Store the new state of a message without words as a remark, which needs no answer."""
        if not session_id or self._stored(taken, session_id) is not None:
            return
        message = message_of(incoming, self._bot)
        message.extra = {**(message.extra or {}), REMARK: True}
        stored = self._assistant.store.append(session_id, message)
        self._assistant.end_turn(session_id, stored)

    def record_deletion(self, chat: str, gone: tuple[int, ...]) -> None:
        """Store a record about the message that was deleted in Telegram; the message itself stays here."""
        sessions = self._assistant.sessions
        session_id = sessions.active(chat)
        for message in self._assistant.store.read(session_id) if session_id else ():
            origin = (message.extra or {}).get("telegram")
            if isinstance(origin, dict) and origin.get("message") in gone:
                sessions.annotate(session_id, {"type": "deletion", "message_id": message.id, "by": "telegram"})


class Stopped(Exception):
    """The process is ending; the answer is left to the next one."""
