"""Helpers of the reading tests."""

from __future__ import annotations

import json
from typing import Any

from cortext.model.message import Message
from cortext.tools.base import TranscriptReading
from cortext.tools.opencode.adapter import OpenCode


def reading(tool: OpenCode, cursor: dict[str, Any] | None = None) -> tuple[list[Message], TranscriptReading]:
    transcript = next(item for item in tool.transcripts() if item.key == "ses_one")
    found = tool.read(transcript, json.loads(json.dumps(cursor)) if cursor else None)
    return list(found), found


def roles_and_texts(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]
