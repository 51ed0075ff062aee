"""From an update to an answer: what is done in a thread of its own, because models and disks make one wait.

Every step is durable before the next one, and each finds out by itself whether it was done before: a process that
takes over from one that was killed goes on where that one stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cortext.errors import CortextError, ModelError, SessionBusy, StoreUnreachable, WriteFailed
from cortext.faces.telegram.incoming import COMMAND, DELETION, EDIT, MOVED, WORDS, Incoming, Media, is_safe_name
from cortext.model.message import ASSISTANT, USER, Message, Part
from cortext.services.chat_commands import NO_SESSION, Answer, Commands, created
from cortext.services.chat_turn import Assistant, answer_to, unanswered_calls
from cortext.services.chat_updates import Taken, Updates
from cortext.services.stores import settle
from cortext.services.turn import Note, Talk, Text

PASSING = (WriteFailed, SessionBusy, StoreUnreachable)  # a full disk, another writer, a server that is away
_LOOK_BACK = 64  # messages among which an update of a moment ago is looked for

STOP = "/stop"  # only here: at the desk Ctrl-C does it

GREETING = (
    "Hello. I keep every conversation with you, here and at your desk. Just write; "
    "/sessions shows what there is, /search finds what was said, /help lists the rest."
)

Grown = Callable[[str], None]  # called with the answer as far as it has come


def _sorry(error: CortextError) -> str:
    """An error as a message: what happened, and what to do."""
    return "\n".join(filter(None, (f"⚠ {error.message[:1].upper()}{error.message[1:]}", error.hint)))


def _with_news(text: str, session_id: str, made: bool) -> str:
    """The answer; under the first one of a session it says how to begin anew."""
    return f"{text}\n\n{created(session_id)}" if made else text


def _update_of(message: Message) -> tuple[Any, Any] | None:
    """The bot and the update that brought a message."""
    told = (message.extra or {}).get("telegram")
    return (told.get("bot"), told.get("update")) if isinstance(told, dict) else None


class Answering:
    """Answers updates, one at a time for each chat (the caller sees to that)."""

    def __init__(self, assistant: Assistant, commands: Commands, updates: Updates, bot: int) -> None:
        self._assistant, self._commands, self._updates, self._bot = assistant, commands, updates, bot
        self._talks: dict[str, Talk] = {}
        self._stopping = False

    def answer(self, taken: Taken, incoming: Incoming, grown: Grown) -> Answer | None:
        """What to say to an update; None where nothing is to be said. Errors become words, but those that pass by."""
        try:
            return self._answer(taken, incoming, grown)
        except PASSING:
            raise  # the caller tries again
        except CortextError as error:
            return Answer(_sorry(error))

    def _answer(self, taken: Taken, incoming: Incoming, grown: Grown) -> Answer | None:
        if incoming.kind == COMMAND:
            return self._command(taken, incoming)
        if incoming.kind == EDIT:
            self._record_edit(taken, incoming)
            return None
        if incoming.kind == DELETION:
            self.record_deletion(taken.chat, incoming.deleted)
            return None
        if incoming.kind == MOVED:
            new = incoming.address._replace(chat=incoming.moved_to).name
            self._assistant.sessions.chats.activate(new, self._assistant.sessions.active(taken.chat))
            return None
        return self._words(taken, incoming, grown) if incoming.kind == WORDS else None

    def stop(self) -> None:
        """End what is under way; it is answered by the next process."""
        self._stopping = True
        for talk in list(self._talks.values()):
            talk.stop()

    def interrupt(self, chat: str) -> None:
        """The user wants no more of the answer that is being written: what came of it stays, flagged."""
        talk = self._talks.get(chat)
        if talk is not None:
            talk.stop()

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────

    def _command(self, taken: Taken, incoming: Incoming) -> Answer:
        if incoming.text.split()[0] == "/start":
            return Answer(GREETING)
        if incoming.text == STOP:
            return Answer("Nothing more is being written.")
        if "answer" in taken.facts:
            return msgspec.convert(taken.facts["answer"], Answer)
        answer = self._commands.run(taken.chat, incoming.text, seed=f"telegram {self._bot} {taken.update}")
        if not is_safe_name(answer.name):
            answer.name = "session.md"  # a name that the user gave to /export, and that is a path
        if not answer.document and not answer.hits:
            # What was done is not done again, however often its answer has to be sent.
            self._updates.note(taken.update, {"answer": msgspec.to_builtins(answer)})
        return answer

    # ── words ────────────────────────────────────────────────────────────────────────────────────────

    def _words(self, taken: Taken, incoming: Incoming, grown: Grown) -> Answer:
        assistant = self._assistant
        if not assistant.auto_create and not assistant.sessions.active(taken.chat) and "session" not in taken.facts:
            return Answer(NO_SESSION)
        session_id, made = self._session(taken)
        stored = self._stored(taken, session_id)
        if stored is not None:
            there = answer_to(list(assistant.store.read(session_id, stored.seq)), stored.id)
            if there is not None:
                return Answer(_with_news(there.text, session_id, made), markdown=True)
        if incoming.media is not None and not incoming.text:
            return self._polite(taken, incoming, incoming.media, session_id, made, stored)
        try:
            model = assistant.models.take()
        except ModelError as error:
            if stored is None:
                stored = self._note(taken, session_id, assistant.store.append(session_id, self._message(incoming))[0])
                assistant.afterwards(session_id, [stored])
            return Answer(_with_news(_sorry(error), session_id, made))
        talk = assistant.talk(session_id, model)
        self._talks[taken.chat] = talk
        try:
            if stored is None:
                stored = self._note(taken, session_id, assistant.say(talk, self._message(incoming)))
            else:
                missing = unanswered_calls(list(assistant.store.read(session_id, stored.seq)))
                if missing is not None:
                    talk.store(missing)
            return Answer(_with_news(self._ask(talk, grown), session_id, made), markdown=True)
        finally:
            self._talks.pop(taken.chat, None)
            assistant.models.give_back(model)
            assistant.afterwards(session_id, [message for message in (stored, talk.reply) if message is not None])

    def _session(self, taken: Taken) -> tuple[str, bool]:
        """The session of this update: the one that was noted, or the active one of the chat."""
        noted = taken.facts.get("session")
        if isinstance(noted, str) and self._assistant.sessions.is_there(noted):
            return noted, bool(taken.facts.get("made"))
        session_id, made = self._assistant.sessions.ensure(taken.chat)
        if made:
            # Durable before the first words: a crash in between must not leave the user untold.
            self._updates.note(taken.update, {"made": True})
        return session_id, made or bool(taken.facts.get("made"))

    def _stored(self, taken: Taken, session_id: str) -> Message | None:
        """The user's words of this update, if they are in the session already."""
        store = self._assistant.store
        start = taken.facts.get("seq") if taken.facts.get("session") == session_id else None
        messages = store.read(session_id, start) if isinstance(start, int) else store.tail(session_id, _LOOK_BACK)
        return next((message for message in messages if _update_of(message) == (self._bot, taken.update)), None)

    def _note(self, taken: Taken, session_id: str, stored: Message) -> Message:
        self._updates.note(taken.update, {"session": session_id, "seq": stored.seq})
        return stored

    def _ask(self, talk: Talk, grown: Grown) -> str:
        said: list[str] = []
        masked: list[str] = []
        try:
            for event in talk.answer():
                if isinstance(event, Text):
                    said.append(event.text)
                    grown("".join(said))
                elif isinstance(event, Note):
                    masked += [f"_({event.text})_"] if event.text.startswith("masked") else []
                elif said and not said[-1].endswith("\n\n") and talk.reply is not None:
                    said.append("\n\n")  # between what was said before a tool was called and after
        except ModelError as error:
            return "\n\n".join(filter(None, ("".join(said).strip(), _sorry(error))))
        if talk.stopped and self._stopping:
            raise Stopped
        if talk.stopped:
            masked.append("_(stopped)_")
        return "\n\n".join(["".join(said).strip() or "(The model gave no answer.)", *masked])

    def _polite(
        self, taken: Taken, incoming: Incoming, media: Media, session_id: str, made: bool, stored: Message | None
    ) -> Answer:
        """A voice message, photo or file without words: kept by reference, with a word to the user."""
        words = f"I cannot open a {media.kind} yet. I kept a reference to it; please tell me in words what it is about."
        reply = Message(role=ASSISTANT, content=words)
        store = self._assistant.store
        if stored is None:
            stored, _ = store.append(session_id, self._message(incoming), reply)
            self._note(taken, session_id, stored)
        else:
            store.append(session_id, reply)
        settle(store, session_id)
        return Answer(_with_news(words, session_id, made))

    # ── edits and deletions ──────────────────────────────────────────────────────────────────────────

    def _record_edit(self, taken: Taken, incoming: Incoming) -> None:
        """An edit is one more line that says what it replaces; nothing in the log is changed."""
        session_id = self._assistant.sessions.active(taken.chat)
        if not session_id or self._stored(taken, session_id) is not None:
            return
        message = self._message(incoming)
        assert message.extra is not None
        message.content = f"[I edited an earlier message. It now says:] {message.content}"
        message.extra["telegram"]["edits"] = incoming.message
        stored = self._assistant.store.append(session_id, message)
        self._assistant.afterwards(session_id, stored)

    def record_deletion(self, chat: str, gone: tuple[int, ...]) -> None:
        """A deletion is a record about the message that was deleted at the messenger; here it stays."""
        store: Any = self._assistant.store
        session_id = self._assistant.sessions.active(chat)
        if not session_id or not hasattr(store, "annotate"):
            return
        for message in store.read(session_id):
            told = (message.extra or {}).get("telegram")
            if isinstance(told, dict) and told.get("message") in gone:
                store.annotate(session_id, {"type": "deletion", "message_id": message.id, "by": "telegram"})

    def _message(self, incoming: Incoming) -> Message:
        """The user's words as they are stored, with the number of the update that brought them."""
        media = incoming.media
        told = {
            "bot": self._bot,
            "update": incoming.update,
            "chat": incoming.address.chat,
            "message": incoming.message,
            "from": incoming.user,
        }
        if incoming.address.thread is not None:
            told["thread"] = incoming.address.thread
        parts = None
        words = incoming.text
        if media is not None:
            words = f"{media.told()} {words}".strip()
            kind = "image" if media.kind == "photo" else "file"
            parts = [
                Part(type="text", text=words),
                Part(type=kind, ref=media.ref, name=media.name, media_type=media.media_type),
            ]
        return Message(role=USER, content=words, parts=parts, extra={"telegram": told})


class Stopped(Exception):
    """The process ends; the answer is left to the next one."""
