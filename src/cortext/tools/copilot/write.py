"""Writes sessions into Copilot's own store: a new one, or a lost one from our copy.

`copilot sessions import` is not used: it gives every session and message an id of its own and drops the times, so that
neither the session nor its messages could be recognised when the conversation comes back.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence

import msgspec

from cortext.errors import DamagedData, SessionExists, UsageError
from cortext.io import durable, new_files
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.turns import whole_characters
from cortext.tools.base import Transcript, Written
from cortext.tools.copilot import records
from cortext.tools.copilot.read import CopilotReading, head_of
from cortext.tools.copilot.render import Rendering
from cortext.tools.shared.folders import is_uuid
from cortext.tools.shared.verify import same_message, verify

_TITLE = "GitHub Copilot CLI"
EVENTS = "events.jsonl"


def write_session(
    sessions: str,
    messages: Sequence[Message],
    *,
    tool: str,
    version: str,
    project: str,
    title: str,
    key: str,
    note: str = "",
) -> Written:
    """Write a new session below the folder `sessions`; it is read back, and removed if it is not what was written."""
    rendering = Rendering(messages, note)
    if not rendering.events:
        raise UsageError("nothing to write: every message is empty", kept="nothing was changed")
    if not is_uuid(key) or os.path.lexists(os.path.join(sessions, key)):
        key = str(uuid.uuid4())
    folder = os.path.join(sessions, key)
    if os.path.lexists(folder):
        raise SessionExists(f"{folder} already exists", kept="it is unchanged", hint="try again")
    path = os.path.join(folder, EVENTS)
    durable.ensure_folder(folder)
    try:
        durable.replace_file(path, _lines(rendering, key, project, version))
        reading = CopilotReading(Transcript(tool=tool, key=key, path=path, project=project))
        verify(_TITLE, rendering.expected, reading, reading.counts, same_message)
        if title:
            durable.replace_file(os.path.join(folder, "workspace.yaml"), [_workspace(key, project, title)])
    except BaseException:
        durable.remove_tree(folder)
        raise
    return Written.of(rendering.normal, key, path)


def _lines(rendering: Rendering, key: str, project: str, version: str) -> Iterator[bytes]:
    """Yield the lines of the file; each event names the one before it."""
    first = rendering.events[0]["timestamp"]
    start = {
        "sessionId": key,
        "version": 1,
        "producer": "copilot-agent",
        "copilotVersion": version,
        "startTime": first,
        "context": {"cwd": project},
        "alreadyInUse": False,
    }
    previous = None
    begin = {"type": records.START, "data": start, "id": str(uuid.uuid4()), "timestamp": first, "parentId": None}
    for event in (begin, *rendering.events):
        event["parentId"], previous = previous, event["id"]
        yield msgspec.json.encode(event) + b"\n"


def _workspace(key: str, project: str, title: str) -> bytes:
    """Return the file with the session's name, which Copilot shows in its list. A JSON string is a YAML string."""
    now = clock.now()
    fields: dict[str, str | bool] = {"id": key, "cwd": project, "name": title, "user_named": True}
    fields |= {"created_at": now, "updated_at": now}
    return "".join(f"{name}: {_yaml(value)}\n" for name, value in fields.items()).encode("utf-8")


def _yaml(value: str | bool) -> str:
    return json.dumps(whole_characters(value) if isinstance(value, str) else value, ensure_ascii=False)


def put_back(sessions: str, copy: str) -> str:
    """Restore a kept copy byte for byte if Copilot has lost the session; return the session's id."""
    head = head_of(copy)
    if head is None or not is_uuid(head.sessionId):
        raise DamagedData(f"{copy} is not a session of {_TITLE}", kept="nothing was changed")
    path = os.path.join(sessions, head.sessionId, EVENTS)
    if not os.path.lexists(path):
        durable.ensure_folder(os.path.dirname(path))
        new_files.mirror_file(copy, path)
    return head.sessionId
