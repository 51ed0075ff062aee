"""Handling the hook events of an AI tool. Nothing that must happen is left to the model.

A command starts, resumes or stops a conversation. When the tool starts, or the user sends a prompt, in a chat that
belongs to a conversation, that conversation becomes active; a prompt may also say that the user wants to stop. An
answer and the end of the chat capture the new messages. Events may come twice, out of order, for several sessions at
once, or never: the transcript is authoritative, and the next event (or `cortext sync`) captures what is missing.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from cortext.config.schema import Settings
from cortext.errors import CortextError, StoreUnreachable, UsageError
from cortext.index.catalogue import Entry
from cortext.io import durable
from cortext.model import clock
from cortext.model.amounts import amount
from cortext.model.session import Change, Origin
from cortext.model.status import ACTIVE, COMPLETED, PAUSED
from cortext.safety.framing import disarmed
from cortext.safety.secrets.masking import mask
from cortext.services.capture.capture import Capture
from cortext.services.library.listing import Listing, incomplete_line
from cortext.services.library.stores import Found, NamedStore
from cortext.services.workspace.running_chats import Chat
from cortext.tools.base import HookEvent, Hooks, Installer, ShowsNotes, Transcript, TranscriptSource

if TYPE_CHECKING:
    from cortext.services.library.search import Search

# The tool waits for every hook, so modules that an ordinary turn does not need are imported where they are used.

PREFIX = "workspace."
_TAIL = 20  # messages among which one is of the conversation itself
# For a tool whose hooks speak with a developer's authority: the record is sent as a user's message instead.
_FOLLOWS = (
    "The record follows as the next message, right after your answer. Answer now, in one short sentence, that you are "
    "looking it up."
)
FAILURE_RECORDED = "cortext: the failure is recorded"  # a note on an error that needs no second record


class World(Protocol):
    """The stores that a hook uses in the folder of the chat."""

    workspace: str
    settings: Settings

    def capture(self) -> Capture: ...

    def caught_up(self, found: Found) -> Found: ...

    def listing(self) -> Listing: ...

    def search(self) -> Search: ...

    def workspace_store(self) -> NamedStore: ...


def handle(world_at: Callable[[str], World], tool: Hooks, payload: bytes) -> str:
    """Handle one event; return what to print for the tool, or nothing. Raise UsageError if the payload is invalid."""
    try:
        fields = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"the hook payload of {tool.name} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"the hook payload of {tool.name} is not an object")
    project = fields.get("cwd")
    world = world_at(project if isinstance(project, str) and os.path.isdir(project) else "")
    event = tool.hook_event(fields)
    if event is None:
        return ""
    try:
        hook = Hook(world, tool, event)
        context = hook.run()
        answer = tool.hook_answer(fields, context) if context else ""
        if answer:
            hook.was_heard()
        alarms = "\n".join(hook.capture.alarms)
        if alarms and isinstance(tool, ShowsNotes):
            answer = tool.with_note(answer, f"cortext: {alarms}")
    except Exception as error:
        from cortext.services.capture import uncaptured
        from cortext.services.capture.intake import reason_of

        uncaptured.record(tool.name, event.key, event.path, reason_of(error), hook=True)
        error.add_note(FAILURE_RECORDED)
        raise
    return answer


class Hook:
    """The handling of one event."""

    def __init__(self, world: World, tool: Hooks, event: HookEvent) -> None:
        self.world, self.tool, self.event = world, tool, event
        self.capture = world.capture()
        self._giving_back = False  # whether the text has what a compaction dropped

    def run(self) -> str:
        """Do what the event requires; return the text for the model."""
        command, kind = self.event.command, self.event.kind
        if kind in ("prompt", "command"):
            self._set_working_since(time.time())
            if command.startswith(PREFIX) and self.world.workspace:
                name = command.removeprefix(PREFIX)
                return self._resume_if_needed() if name == "resume" else _safe_text(self._command(name))
        if kind == "prompt":
            text = _safe_text(self._prompt())
            return "\n\n".join(filter(None, (self._dropped(len(text)), text)))
        if kind == "started":
            self._started()
        elif kind in ("answered", "compacted", "ended"):
            added = self._capture_new()
            if kind == "compacted":
                self._note_compaction()
                return self._dropped()
            self._after_answer(ended=kind == "ended", added=added)
            return self._set_working_since(0.0)
        return ""

    def was_heard(self) -> None:
        """Note that the tool passes on what `run` returned."""
        found = self._kept() if self._giving_back else None
        if found is not None:
            from cortext.services.workspace import running_chats as chats

            chat = self._chat()
            chat.compacted, chat.restored = False, _newest(found)
            chats.save(chat)

    def _note_compaction(self) -> None:
        """Note that the tool replaced messages by a summary. One compaction may be reported twice."""
        found = self._kept()
        # Text of a past conversation must not get the authority of a developer's instruction.
        if found is None or not self.world.workspace or self.tool.records_after_answer:
            return
        from cortext.services.workspace import running_chats as chats

        chat = self._chat()
        chat.compacted, chat.workspace = _newest(found) != chat.restored, self.world.workspace
        chats.save(chat)

    def _dropped(self, taken: int = 0) -> str:
        """Return what the tool's last compaction dropped, if the model has not got it back yet.

        `taken` is how many characters of the tool's largest answer are needed for something else.
        """
        budget = self.world.settings.resume.compaction_tokens
        if budget <= 0 or not self.world.workspace or not self._chat().compacted:
            return ""
        found = self._kept()
        if found is None:
            return ""
        from cortext.services.resume.dropped import dropped
        from cortext.services.resume.in_tool import LARGEST

        # While a tool reports a compaction, its new summary is not necessarily stored yet.
        summary = self.event.text if self.event.kind == "compacted" else found.session.summary
        try:
            text = _safe_text(dropped(found, summary, budget, LARGEST - taken - 2))
        except CortextError:  # a damaged session, which `doctor` reports
            return ""
        self._giving_back = bool(text)
        return text

    def _related(self) -> str:
        """Return three conversations about what was asked for, or about the last thing that the user asked here."""
        from cortext.services.capture.capture import session_id_for
        from cortext.services.events import related
        from cortext.services.workspace import running_chats as chats

        with suppress(StoreUnreachable):  # the answer says so, and the next event captures it
            self._capture_new()  # the last ask may not be stored yet
        kept = self._kept()
        topic = self.event.arguments.strip()
        if not topic and kept is not None:
            topic = related.topic_in(kept.store.tail(kept.session.id, _TAIL))
        if not topic:
            return (
                "Nothing was asked in this chat yet: `/workspace.related TOPIC` looks for conversations about a topic."
            )
        this_chat = [session_id_for(self.tool.name, self.event.key), *([kept.session.id] if kept else [])]
        search = self.world.search()
        try:
            with search.listing.partly() as missing:
                found = related.related(search, topic, self.world.workspace, this_chat)
                gone = incomplete_line(error.message for error in missing.values())
        except (CortextError, OSError, ValueError, sqlite3.Error) as error:
            return f"cortext could not search: {error}. `cortext doctor` says more."
        chat = self._chat()
        chats.remember_list(chat, self.world.workspace, [(one.session.root, one.session.id) for one in found])
        text = "\n\n".join(filter(None, (gone, related.text_of(found, search, topic))))
        if not self.tool.records_after_answer or not found:
            return text
        chat.owed = _safe_text(text)
        chats.save(chat)
        return f"cortext has found {amount(len(found), 'conversation')}. {_FOLLOWS}"

    def _chat(self) -> Chat:
        from cortext.services.workspace import running_chats as chats

        return chats.load(self.tool.name, self.event.key, self.world.workspace)

    def _set_working_since(self, since: float) -> str:
        """Store since when the model is working (0: it has answered); then return the text that it is still owed."""
        if not self.world.workspace:
            return ""
        from cortext.services.workspace import running_chats as chats

        chat = self._chat()
        owed = "" if since else chat.owed
        chat.working_since, chat.workspace = since, self.world.workspace
        chat.answered_by = chat.answered_by if since else ""
        if owed:
            chat.owed = ""
            chat.working_since = time.time()  # the model continues with that text
        chats.save(chat)
        return owed

    def _capture_new(self) -> int:
        """Capture the new messages of the chat; return how many there were."""
        transcript = find_transcript(self.tool, self.event)
        if transcript is None:
            if self.event.path and os.path.lexists(self.event.path):
                os.close(durable.plain_file(self.event.path))  # raises an error if the file cannot be opened
            return 0
        added = self.capture.capture(self.tool, transcript).added
        from cortext.services.capture import uncaptured

        uncaptured.clear(self.tool.name, (self.event.key, ""))
        return added

    def _entry(self) -> Entry | None:
        return self.capture.catalogue.get(self.tool.name, self.event.key)

    def _kept(self) -> Found | None:
        """Return the session that this chat is stored in; None if there is none."""
        entry = self._entry()
        named_store = self.capture.store_at(entry.root) if entry is not None else None
        if entry is None or named_store is None:
            return None
        try:
            return Found(named_store, named_store.store.peek(entry.session_id))
        except CortextError:
            return None

    def _current(self) -> Found | None:
        """Return the conversation that this chat belongs to; None if there is none, or it is in another workspace."""
        entry = self._entry()
        named_store = self.capture.store_at(entry.root) if entry is not None else None
        if (
            entry is None
            or named_store is None
            or (named_store.kind == "workspace" and named_store.root != self.world.workspace)
        ):
            return None
        try:
            session = named_store.store.peek(entry.session_id)
            last = named_store.store.tail(entry.session_id, 1)
        except CortextError:
            return None
        # A chat that was captured by itself and never resumed has no status to change.
        if self.capture.is_own(entry) and not entry.fresh and session.status != ACTIVE:
            return None
        # The sequence number of the last message gives the count without reading the others.
        session.message_count = last[0].seq + 1 if last else 0
        return Found(named_store, session)

    def _resume_if_needed(self) -> str:
        return "" if self.tool.commands_run else self._resume()  # otherwise the command file has run `cortext resume`

    def _command(self, name: str) -> str:
        own = {"stop-conversation": self._stop, "related": self._related}
        if name in own:
            return self._once(own[name])
        from cortext.services.workspace import registry

        entry = registry.load(self.world.workspace).types.get(name)
        if entry is None or not entry.sessions:  # not one of our commands, or of a type without sessions
            return ""
        return self._start(name)

    def _once(self, answer: Callable[[], str]) -> str:
        """Return the answer to a command, unless an event of another kind has answered it in the same prompt.

        A second event of the same kind is another prompt: of a turn that was interrupted, no end is reported.
        """
        from cortext.services.workspace import running_chats as chats

        if self._chat().answered_by not in ("", self.event.kind):
            return ""
        said = answer()
        chat = self._chat()
        chat.answered_by = self.event.kind
        chats.save(chat)
        return said

    def _stop(self) -> str:
        """Save and pause the conversation of this chat; return the confirmation."""
        self._capture_new()
        found = self._current()
        if found is None:
            return "This chat belongs to no conversation of this workspace, so there is nothing to stop."
        from cortext.services.workspace import running_chats as chats
        from cortext.services.workspace.lifecycle import confirmation

        chat = self._chat()
        chat.owed = ""
        chats.save(chat)
        return confirmation(self._save(found))

    def _resume(self) -> str:
        """Return the list of conversations, or resume one in this chat and return its context."""
        from cortext.services.resume import in_chat
        from cortext.services.resume.in_tool import LARGEST, ChatResumer
        from cortext.services.workspace import running_chats as chats

        listing = self.world.listing()
        chat = self._chat()
        resumer = ChatResumer(
            listing, self.capture, self.world.workspace, chat, caught_up=self.world.caught_up, save=self._save
        )
        # Earlier messages belong to the earlier conversation.
        wanted, capture_chat = self.event.arguments, self._capture_new
        if not self.tool.records_after_answer:
            return in_chat.answer(resumer, wanted, capture_chat).text()
        reply = in_chat.answer(
            resumer, wanted, capture_chat, LARGEST, lambda text: len(text.encode("utf-8", "replace"))
        )
        chat.owed = reply.record
        chats.save(chat)
        instruction = "cortext has answered this already; do not run the command again."
        if reply.record:
            instruction += f" {_FOLLOWS}"
        return "\n".join(part for part in (reply.done, instruction) if part)

    def _start(self, kind: str) -> str:
        """Create the conversation, its notes and its session before the model receives the prompt."""
        from cortext.services.workspace.lifecycle import begin

        found = self._current()
        command = mask(f"{kind} {self.event.arguments}").text  # it is stored with the session, and so in git
        if found is None or found.session.extra.get("begun_by") != command or found.session.message_count > 0:
            self._capture_new()  # earlier messages belong to the earlier conversation
            named_store = self.world.workspace_store()
            session = begin(
                named_store,
                kind,
                self.event.arguments,
                origin=Origin(tool=self.tool.name, session_id=self.event.key),
                servers=self.tool.mcp_servers(self.world.workspace) if isinstance(self.tool, Installer) else set(),
                begun_by=command,
            )
            self.capture.attach(named_store, session.id, self.tool.name, self.event.key, from_now=True)
        else:
            session = found.session
        folder = os.path.relpath(session.path, self.world.workspace)
        return (
            f"cortext keeps this conversation in {folder}/, which already exists, and saves every message by itself. "
            f"Its notes document is {folder}/{kind}.md."
        )

    def _prompt(self) -> str:
        found = self._current()
        if found is None:
            return ""
        self._activate(found)
        from cortext.services.workspace import pausing

        reaction = pausing.react_to_prompt(self.event.text, found.session, self.world.settings)
        if reaction.change is not None:
            found.store.update(found.session.id, reaction.change)
        return reaction.context

    def _started(self) -> None:
        """Activate the conversation that the tool opened; a completed one only if it was just resumed."""
        entry = self._entry()
        found = self._current()
        self._capture_new()
        if found is not None and (found.session.status != COMPLETED or (entry is not None and entry.fresh)):
            self._activate(found, opened=True)

    def _activate(self, found: Found, *, opened: bool = False) -> None:
        """Make the conversation active in this chat. Opening it counts as activity even if it is already active."""
        this_chat = Origin(tool=self.tool.name, session_id=self.event.key)
        if found.session.status == ACTIVE and found.session.origin == this_chat and not opened:
            return
        change = Change(origin=this_chat, last_active=clock.now())
        if found.session.status != ACTIVE:
            change.status, change.force = ACTIVE, True
        found.store.update(found.session.id, change)

    def _after_answer(self, *, ended: bool, added: int) -> None:
        found = self._current()
        if found is None:
            return
        if found.session.status != ACTIVE:
            if added and found.named_store.kind == "workspace":  # commit the answer to the command that stopped it too
                self._save(found, found.session.status)
            return
        origin = found.session.origin
        elsewhere = origin.tool and (origin.tool, origin.session_id) != (self.tool.name, self.event.key)
        if (ended and not elsewhere) or found.session.extra.get("pause_after_answer"):
            self._save(found)

    def _save(self, found: Found, status: str = PAUSED) -> Any:
        from cortext.services.workspace.lifecycle import save

        commit = found.named_store.kind == "workspace" and self.world.settings.workspace.commit
        saved = save(found.named_store, found.session.id, status, commit=commit)
        if saved.commit.note:
            from cortext.services.workspace import notices

            notices.add([saved.commit.note])
        return saved


def _newest(found: Found) -> str:
    """Return the id of the newest message of the conversation itself; empty if there is none."""
    messages = found.store.tail(found.session.id, _TAIL)
    return next((message.id for message in reversed(messages) if not message.aside), "")


def _safe_text(text: str) -> str:
    """Return a text for the model, which may quote stored messages, without secrets and our own markers."""
    return disarmed(mask(text).text) if text else ""


def find_transcript(tool: TranscriptSource, event: HookEvent) -> Transcript | None:
    """Return the transcript of an event: the file that it names, else the one with its key in the tool's store."""
    if event.path:
        found = tool.transcript_at(event.path)
        if found is not None:
            return found
    return next((item for item in tool.transcripts(event.project or None) if item.key == event.key), None)
