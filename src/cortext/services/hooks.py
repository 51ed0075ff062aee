"""What happens when an AI tool calls us. Everything that must happen, happens here and not in the model.

A command begins, resumes or stops a conversation; a start or a prompt in a chat that is part of one makes it active,
and a prompt may say that the user wants to stop; an answer and an end capture what was said. Safe to be called twice,
out of order, for several sessions at once, or never: the transcript is the truth, and the next call (or `cortext
sync`) takes in what is missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from cortext.config.schema import Settings
from cortext.errors import CortextError, UsageError
from cortext.index.catalogue import Entry
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.session import Change, Origin
from cortext.model.status import ACTIVE, COMPLETED, PAUSED
from cortext.safety.framing import disarmed
from cortext.safety.secrets.masking import mask
from cortext.services.capture.capture import Capture
from cortext.services.library.listing import Listing
from cortext.services.library.stores import Found, NamedStore
from cortext.services.workspace.running_chats import Chat
from cortext.tools.base import HookEvent, Hooks, Installer, Transcript, TranscriptSource

# The tool waits for us at every turn. What a quiet turn does not need is imported where it is used.

PREFIX = "workspace."
TOLD = "cortext: a mark was left"  # on an error that needs none any more


class World(Protocol):
    """What a hook works on: the stores seen from the folder of the chat."""

    workspace: str
    settings: Settings

    def capture(self) -> Capture: ...

    def caught_up(self, found: Found) -> Found: ...

    def listing(self) -> Listing: ...

    def workspace_store(self) -> NamedStore: ...


def handle(world_at: Callable[[str], World], tool: Hooks, payload: bytes) -> str:
    """Take one event; what to print for the tool, if anything."""
    try:
        fields = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"the event of {tool.name} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"the event of {tool.name} is not an object")
    project = fields.get("cwd")
    world = world_at(project if isinstance(project, str) and os.path.isdir(project) else "")
    event = tool.hook_event(fields)
    if event is None:
        return ""
    try:
        context = Hook(world, tool, event).run()
    except Exception as error:
        from cortext.services.capture import uncaptured
        from cortext.services.capture.intake import reason_of

        uncaptured.record(tool.name, event.key, event.path, reason_of(error), hook=True)
        error.add_note(TOLD)
        raise
    return tool.hook_answer(fields, context) if context else ""


class Hook:
    """One event on its way through."""

    def __init__(self, world: World, tool: Hooks, event: HookEvent) -> None:
        self.world, self.tool, self.event = world, tool, event
        self.capture = world.capture()

    def run(self) -> str:
        """Do what the event asks for; the words that the model is to hear."""
        command, kind = self.event.command, self.event.kind
        if kind in ("prompt", "command"):
            self._at_work(time.time())
            if command.startswith(PREFIX) and self.world.workspace:
                name = command.removeprefix(PREFIX)
                return self._resume_here() if name == "resume" else _told(self._command(name))
        if kind == "prompt":
            return _told(self._prompt())
        if kind == "started":
            self._started()
        elif kind in ("answered", "compacted", "ended"):
            added = self._take_in()
            if kind != "compacted":
                self._after_answer(ended=kind == "ended", added=added)
                return self._at_work(0.0)
        return ""

    def _chat(self) -> Chat:
        from cortext.services.workspace import running_chats as chats

        return chats.load(self.tool.name, self.event.key, self.world.workspace)

    def _at_work(self, since: float) -> str:
        """Note that the model is at work, or (0) has answered; then what it still is to receive, if anything."""
        if not self.world.workspace:
            return ""
        from cortext.services.workspace import running_chats as chats

        chat = self._chat()
        owed = "" if since else chat.owed
        chat.working_since, chat.workspace = since, self.world.workspace
        chat.stopped = chat.stopped and bool(since)
        if owed:
            chat.owed = ""
            chat.working_since = time.time()  # it goes on with that
        chats.save(chat)
        return owed

    def _take_in(self) -> int:
        """Take in what was said since; how many messages that were."""
        transcript = find_transcript(self.tool, self.event)
        if transcript is None:
            if self.event.path and os.path.lexists(self.event.path):
                os.close(fsio.plain_file(self.event.path))  # one that cannot be opened is told, not passed over
            return 0
        added = self.capture.capture(self.tool, transcript).added
        from cortext.services.capture import uncaptured

        uncaptured.clear(self.tool.name, (self.event.key, ""))
        return added

    def _entry(self) -> Entry | None:
        return self.capture.catalogue.get(self.tool.name, self.event.key)

    def _current(self) -> Found | None:
        """The conversation that this tool's session is part of, if any: of this workspace, or one kept elsewhere."""
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
        # A chat that nobody resumed is kept in the home store by itself: nothing is to be woken or stopped there.
        if self.capture.is_own(entry) and not entry.fresh and session.status != ACTIVE:
            return None
        # The number of the last message tells how many there are, without reading them.
        session.message_count = last[0].seq + 1 if last else 0
        return Found(named_store, session)

    def _resume_here(self) -> str:
        return "" if self.tool.commands_run else self._resume()  # some command files ask us themselves

    def _command(self, name: str) -> str:
        if name == "stop-conversation":
            self._take_in()
            found = self._current()
            if found is None:
                return "No conversation of this workspace is held here, so there is nothing to stop."
            chat = self._chat()
            if chat.stopped and found.session.status != ACTIVE:
                return ""  # the prompt's own event, a moment ago, has saved it and said so
            from cortext.services.workspace import running_chats as chats
            from cortext.services.workspace.lifecycle import confirmation

            chat.stopped, chat.owed = True, ""
            chats.save(chat)
            return confirmation(self._save(found))
        from cortext.services.workspace import registry

        entry = registry.load(self.world.workspace).types.get(name)
        if entry is None or not entry.sessions:  # a command of somebody else, or of a type that keeps none
            return ""
        return self._begin(name)

    def _resume(self) -> str:
        """The list, or the conversation that goes on in this chat from now on."""
        from cortext.services.resume.in_tool import LARGEST, Desk
        from cortext.services.workspace import running_chats as chats

        self._take_in()  # what was said before belongs to what was going on before
        listing = self.world.listing()
        listing.refresh()
        chat = self._chat()
        desk = Desk(listing, self.capture, self.world.workspace, chat, caught_up=self.world.caught_up, save=self._save)
        if not self.tool.records_after_answer:
            return desk.answer(self.event.arguments).text()
        reply = desk.answer(self.event.arguments, LARGEST, lambda text: len(text.encode("utf-8", "replace")))
        chat.owed = reply.record
        chats.save(chat)
        told = "cortext has answered this already; do not run the command again."
        if reply.record:
            told += (
                " What it found is a record of the past, so it does not stand here: it comes by itself as the next "
                "message, right after your answer. Answer now, in one short sentence, that you are looking it up."
            )
        return "\n".join(part for part in (reply.done, told) if part)

    def _begin(self, kind: str) -> str:
        """The conversation, its notes and its session exist when this returns: before the model is asked."""
        from cortext.services.workspace.lifecycle import begin

        found = self._current()
        wanted = mask(f"{kind} {self.event.arguments}").text  # it is kept with the session, and so in git
        if found is None or found.session.extra.get("begun_by") != wanted or found.session.message_count > 0:
            self._take_in()  # what was said before belongs to what was going on before
            named_store = self.world.workspace_store()
            session = begin(
                named_store,
                kind,
                self.event.arguments,
                origin=Origin(tool=self.tool.name, session_id=self.event.key),
                servers=self.tool.mcp_servers(self.world.workspace) if isinstance(self.tool, Installer) else set(),
                begun_by=wanted,
            )
            self.capture.attach(named_store, session.id, self.tool.name, self.event.key, from_now=True)
        else:
            session = found.session
        folder = os.path.relpath(session.path, self.world.workspace)
        return (
            f"This conversation is kept by cortext in {folder}/ (already made; every message is saved by itself). "
            f"Its notes document is {folder}/{kind}.md."
        )

    def _prompt(self) -> str:
        found = self._current()
        if found is None:
            return ""
        self._wake(found)
        from cortext.services.workspace import pausing

        said = pausing.look(self.event.text, found.session, self.world.settings)
        if said.change is not None:
            found.store.update(found.session.id, said.change)
        return said.context

    def _started(self) -> None:
        """A tool that opens a conversation makes it active; one that was completed only if it was handed over so."""
        entry = self._entry()
        found = self._current()
        self._take_in()
        if found is not None and (found.session.status != COMPLETED or (entry is not None and entry.fresh)):
            self._wake(found, opened=True)

    def _wake(self, found: Found, *, opened: bool = False) -> None:
        """The conversation is active, here, as of now; opening it counts as activity also where it was active."""
        here = Origin(tool=self.tool.name, session_id=self.event.key)
        if found.session.status == ACTIVE and found.session.origin == here and not opened:
            return
        change = Change(origin=here, last_active=clock.now())
        if found.session.status != ACTIVE:
            change.status, change.force = ACTIVE, True
        found.store.update(found.session.id, change)

    def _after_answer(self, *, ended: bool, added: int) -> None:
        found = self._current()
        if found is None:
            return
        if found.session.status != ACTIVE:
            # The answer to the command that stopped it is saved with it.
            if added and found.named_store.kind == "workspace":
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

            notices.leave([saved.commit.note])
        return saved


def _told(text: str) -> str:
    """Words of ours about a session, which quote what was stored: without secrets and markers."""
    if not text:
        return text

    return disarmed(mask(text).text)


def find_transcript(tool: TranscriptSource, event: HookEvent) -> Transcript | None:
    """The transcript that an event is about: where it says, else where the tool keeps it."""
    if event.path:
        found = tool.transcript_at(event.path)
        if found is not None:
            return found
    return next((item for item in tool.transcripts(event.project or None) if item.key == event.key), None)
