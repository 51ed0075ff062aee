"""What happens when an AI tool calls us: the words of the session that it names are captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from cortext.errors import UsageError
from cortext.model.session import Change
from cortext.model.status import ACTIVE, PAUSED
from cortext.services.capture import Capture
from cortext.tools.base import HookEvent, Tool, Transcript


class World(Protocol):
    """What a hook needs of the wiring."""

    def tool(self, name: str) -> Tool: ...

    def capture(self) -> Capture: ...


def handle(wiring: Callable[[str], World], name: str, payload: bytes) -> str:
    """Take one event; what to say to the tool, if anything."""
    try:
        fields = msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise UsageError(f"the event of {name} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"the event of {name} is not an object")
    project = fields.get("cwd")
    world = wiring(project if isinstance(project, str) else "")
    tool = world.tool(name)
    event = tool.hook_event(fields)
    if event is None:
        return ""
    transcript = find_transcript(tool, event)
    if transcript is None:
        return ""
    capture = world.capture()
    capture.capture(tool, transcript)
    entry = capture.catalogue.get(tool.name, event.key)
    if event.kind == "ended" and entry is not None:
        store = capture.store_at(entry.root)
        if store is not None and store.get(entry.session_id).status == ACTIVE:
            store.update(entry.session_id, Change(status=PAUSED))
    return ""


def find_transcript(tool: Tool, event: HookEvent) -> Transcript | None:
    """The transcript that an event is about: where it says, else where the tool keeps it."""
    if event.path:
        found = tool.transcript_at(event.path)
        if found is not None:
            return found
    return next((item for item in tool.transcripts(event.project or None) if item.key == event.key), None)
