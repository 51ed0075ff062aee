"""The entries of a Pi session (version 3 of its documented format), and the fields of each that we need."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.shared.mark import RunMark

# Entries that are Pi's own bookkeeping: known, and not part of the conversation.
BOOKKEEPING = frozenset(("model_change", "thinking_level_change", "usage", "context_edit", "custom", "label"))
MESSAGE, INJECTED, BRANCH_SUMMARY = "message", "custom_message", "branch_summary"
SESSION, TITLE, COMPACTION, EDIT = "session", "session_info", "compaction", "context_edit"


class Block(msgspec.Struct, gc=False):
    """One block of a message's content. The base64 of an image is not a field, so that it is never decoded."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    mimeType: str | None = None


Content = str | list[Block] | None


class Body(msgspec.Struct, gc=False):
    """The `message` of an entry, of any role."""

    role: str = ""
    content: Content = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    stopReason: str | None = None
    toolCallId: str | None = None
    toolName: str | None = None
    isError: bool | None = None
    customType: str | None = None
    command: str | None = None
    output: str | None = None
    excludeFromContext: bool | None = None


class Record(msgspec.Struct, gc=False):
    """A line of a session. `parentId` is null at a root, and empty if it is missing, as in version 1."""

    type: str = ""
    id: str = ""
    parentId: str | None = ""
    timestamp: str | None = None
    cwd: str | None = None
    message: Body | None = None
    content: Content = None
    customType: str | None = None
    summary: str | None = None
    name: str | None = None
    targetId: str | None = None
    replacement: Any = None
    cortext: RunMark | None = None


decoder = msgspec.json.Decoder(Record)


def blocks_of(content: Content) -> list[Block]:
    """Return a content of either form as a list of blocks."""
    if isinstance(content, str):
        return [Block("text", content)] if content else []
    return content or []
