"""What gptme sends in another form when it opens one of its own sessions."""

from __future__ import annotations

from cortext.model.message import ASSISTANT, TOOL_CALL
from cortext.model.turns import Change
from cortext.tools.base import Transcript, Withheld
from cortext.tools.gptme.read import GptmeReading
from cortext.tools.gptme.store import folder_of, settings_of
from cortext.tools.shared.lines import note


def withheld(transcript: Transcript) -> Withheld:
    """Count the calls that gptme sends as text, because the session has another tool format than `tool`."""
    found = Withheld()
    if settings_of(folder_of(transcript.path)).get("tool_format", "tool") != "tool":
        for message in GptmeReading(transcript, None):
            calls = len(message.parts_of(TOOL_CALL)) if message.role == ASSISTANT else 0
            if calls:
                note(found.changed, Change.CALLS_AS_TEXT, calls)
    return found
