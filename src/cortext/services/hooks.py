"""What happens when an AI tool calls us. Everything that must happen, happens here and not in the model.

A command begins, resumes or stops a conversation; a prompt wakes a paused one and may say that the user wants to
stop; an answer and an end capture what was said. Safe to be called twice, out of order, for several sessions at
once, or never: the transcript is the truth, and the next call (or `cortext sync`) takes in what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from cortext.errors import CortextError, UsageError
from cortext.model import clock
from cortext.model.session import Change, Origin
from cortext.model.status import ACTIVE, PAUSED
from cortext.services.stores import Found, NamedStore
from cortext.tools.base import HookEvent, Tool, Transcript

# The tool waits for us at every turn. What a quiet turn does not need is imported where it is used.
if TYPE_CHECKING:
    from cortext.services.capture import Capture
    from cortext.services.listing import Listing

PREFIX = "workspace."


class World(Protocol):
    """What a hook needs of the wiring."""

    workspace: str
    settings: Any

    def tool(self, name: str) -> Tool: ...

    def capture(self) -> Capture: ...

    def listing(self) -> Listing: ...

    def workspace_store(self) -> NamedStore: ...


def handle(wiring: Callable[[str], World], name: str, payload: bytes) -> str:
    """Take one event; what to print for the tool, if anything."""
    try:
        fields = msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise UsageError(f"the event of {name} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"the event of {name} is not an object")
    project = fields.get("cwd")
    world = wiring(project if isinstance(project, str) and os.path.isdir(project) else "")
    tool = world.tool(name)
    event = tool.hook_event(fields)
    if event is None:
        return ""
    context = Hook(world, tool, event).run()
    return tool.hook_answer(fields, context) if context else ""


class Hook:
    """One event on its way through."""

    def __init__(self, world: World, tool: Tool, event: HookEvent) -> None:
        self.world, self.tool, self.event = world, tool, event
        self.capture = world.capture()

    def run(self) -> str:
        """Do what the event asks for; the words that the model is to hear."""
        command = self.event.command
        if self.event.kind in ("prompt", "command") and command.startswith(PREFIX) and self.world.workspace:
            return self._command(command.removeprefix(PREFIX))
        if self.event.kind == "prompt":
            return self._prompt()
        if self.event.kind in ("answered", "compacted", "ended", "started"):
            added = self._take_in()
            if self.event.kind == "started":
                self._wake()
            if self.event.kind in ("answered", "ended"):
                self._after_answer(ended=self.event.kind == "ended", added=added)
        return ""

    def _take_in(self) -> int:
        """Take in what was said since; how many messages that were."""
        transcript = find_transcript(self.tool, self.event)
        return self.capture.capture(self.tool, transcript).added if transcript is not None else 0

    def _current(self) -> Found | None:
        """The conversation of a workspace that this tool's session is held in, if any."""
        entry = self.capture.catalogue.get(self.tool.name, self.event.key)
        if entry is None or not self.world.workspace or entry.root != self.world.workspace:
            return None
        place = self.world.workspace_store()
        try:
            session = place.store.peek(entry.session_id)
            last = place.store.tail(entry.session_id, 1)
        except CortextError:
            return None
        # The number of the last message tells how many there are, without reading them.
        session.message_count = last[0].seq + 1 if last else 0
        return Found(place, session)

    def _command(self, name: str) -> str:
        if name == "resume":
            if self.tool.commands_run:  # its command file asks us itself
                return ""
            from cortext.services.resume.in_tool import answer_in_tool

            listing = self.world.listing()
            listing.refresh()
            return answer_in_tool(listing, self.event.arguments)
        if name == "stop-conversation":
            self._take_in()
            found = self._current()
            if found is None:
                return "No conversation of this workspace is held here, so there is nothing to stop."
            if self.event.kind == "command" and found.session.status != ACTIVE:
                return ""  # the prompt's own event, a moment ago, has saved it and said so
            from cortext.services.lifecycle import confirmation

            return confirmation(self._save(found))
        from cortext.services import registry

        entry = registry.load(self.world.workspace).types.get(name)
        if entry is None or not entry.sessions:  # a command of somebody else, or of a type that keeps none
            return ""
        return self._begin(name)

    def _begin(self, kind: str) -> str:
        """The conversation, its notes and its session exist when this returns: before the model is asked."""
        from cortext.safety.secrets import mask
        from cortext.services.lifecycle import begin

        found = self._current()
        wanted = mask(f"{kind} {self.event.arguments}").text  # it is kept with the session, and so in git
        if found is None or found.session.extra.get("begun_by") != wanted or found.session.message_count > 0:
            self._take_in()  # what was said before belongs to what was going on before
            place = self.world.workspace_store()
            session = begin(
                place,
                kind,
                self.event.arguments,
                origin=Origin(tool=self.tool.name, session_id=self.event.key),
                servers=self.tool.mcp_servers(self.world.workspace),
            )
            session = place.store.update(session.id, Change(extra={"begun_by": wanted}))
            self.capture.attach(place, session.id, self.tool.name, self.event.key, from_now=True)
        else:
            session = found.session
        folder = os.path.relpath(session.path, self.world.workspace)
        return (
            f"This conversation is kept by cortext in {folder}/ (already made; every message is saved by itself). "
            f"Its notes document is {folder}/{kind}.md."
        )

    def _wake(self) -> None:
        """The tool opened a conversation: it is active, held in this tool, and not idle since its last message."""
        found = self._current()
        if found is None:
            return
        change = Change(origin=Origin(tool=self.tool.name, session_id=self.event.key), last_active=clock.now())
        if found.session.status != ACTIVE:
            change.status, change.force = ACTIVE, True
        found.place.store.update(found.session.id, change)

    def _prompt(self) -> str:
        found = self._current()
        if found is None:
            return ""
        if found.session.status != ACTIVE or found.session.origin.session_id != self.event.key:
            self._wake()
        from cortext.services import pausing

        said = pausing.look(self.event.text, found.session, self.world.settings)
        if said.change is not None:
            found.place.store.update(found.session.id, said.change)
        return said.context

    def _after_answer(self, *, ended: bool, added: int) -> None:
        found = self._current()
        if found is None:
            return
        if found.session.status != ACTIVE:
            if added:  # the answer to the command that stopped it: it belongs to what was saved
                self._save(found, found.session.status)
        elif ended or found.session.extra.get("pause_after_answer"):
            self._save(found)

    def _save(self, found: Found, status: str = PAUSED) -> Any:
        from cortext.services.lifecycle import save

        saved = save(found.place, found.session.id, status, commit=self.world.settings["workspace.commit"])
        if saved.commit.note:
            from cortext.services import notices

            notices.leave([saved.commit.note])
        return saved


def find_transcript(tool: Tool, event: HookEvent) -> Transcript | None:
    """The transcript that an event is about: where it says, else where the tool keeps it."""
    if event.path:
        found = tool.transcript_at(event.path)
        if found is not None:
            return found
    return next((item for item in tool.transcripts(event.project or None) if item.key == event.key), None)
