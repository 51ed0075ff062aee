"""What Claude Code's summary of a compaction says, without what it says to the model that reads it."""

from __future__ import annotations

_OPENING = "This session is being continued from a previous conversation"
_BEGIN = ("<summary>", "\nSummary:\n")
# Where it turns to the model: how to go on, and where the old words are.
_END = ("</summary>", "\nIf you need specific details from before", "\nPlease continue the conversation from")


def said_in(text: str) -> str:
    """The summary itself. A text that is not built like one is given back as it is."""
    if not text.startswith((_OPENING, "<analysis>", "<summary>")):
        return text
    rest = text
    for mark in _BEGIN:
        _, found, after = rest.partition(mark)
        rest = after if found else rest
    if rest is text:
        rest = text.partition("\n\n")[2]  # without the sentence that says what this is
    for mark in _END:
        rest = rest.partition(mark)[0]
    return rest.strip() or text
