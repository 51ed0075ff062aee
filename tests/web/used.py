"""Conversations that say what they used: tokens, models and files, on days that the charts show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.session import Origin, Session
from cortext.store.files.workspace import WorkspaceStore
from tests.faces.pond import SECRET, Pond

TODAY = datetime.now(UTC).date()
OPUS, STRANGER = "claude-opus-4-5", "stranger-1"


def day(back: int) -> str:
    """Return the day so many days ago."""
    return (TODAY - timedelta(days=back)).isoformat()


def answered(back: int, model: str, output: int, *parts: Part) -> Message:
    """Return an answer of a model, with what it used: 1,000 tokens of input."""
    usage = {"input_tokens": 1_000, "output_tokens": output}
    return Message(
        role="assistant",
        content="" if parts else "An answer.",
        timestamp=f"{day(back)}T09:00:00.000Z",
        model=model,
        usage=usage,
        parts=[*parts] or None,
    )


def fill(pond: Pond) -> None:
    """Add conversations over several days, with what they used and the files they changed."""
    store = WorkspaceStore(str(pond.folder))
    store.create(Session(id="005-build-reeds", type="build", title="Reeds", origin=Origin(tool="claude")))
    edit = Part(TOOL_CALL, id="e", name="Edit", input={"file_path": "reeds.py", "old_string": "a", "new_string": "b"})
    read = Part(TOOL_CALL, id="r", name="Read", input={"file_path": f"{pond.folder}/reeds.py"})
    key = Part(TOOL_CALL, id="k", name="Read", input={"file_path": f"/keys/{SECRET}.pem"})
    store.append(
        "005-build-reeds",
        Message(role="user", content="Cut the reeds.", timestamp=f"{day(20)}T08:00:00.000Z"),
        answered(20, OPUS, 2_000, edit),
        Message(role="tool", parts=[Part(TOOL_RESULT, call_id="e", output="ok")], timestamp=f"{day(20)}T09:01:00.000Z"),
        answered(3, OPUS, 4_000, read),
        answered(3, STRANGER, 500, key),
    )
    store.create(Session(id="006-build-many", type="build", title="Many models", origin=Origin(tool="codex")))
    store.append("006-build-many", *(answered(40, f"model-{number:02}", 10) for number in range(15)))
