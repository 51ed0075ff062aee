"""The text of a summary that Claude Code wrote at a compaction, without its instructions to the model."""

from __future__ import annotations

_OPENING = "This session is being continued from a previous conversation"
_BEGIN = ("<summary>", "\nSummary:\n")
# Where the instructions to the model begin: how to continue, and where to find the old messages.
_END = ("</summary>", "\nIf you need specific details from before", "\nPlease continue the conversation from")


def summary_text(text: str) -> str:
    """Return the summary itself. A text of any other form is returned unchanged."""
    if not text.startswith((_OPENING, "<analysis>", "<summary>")):
        return text
    rest = text
    for marker in _BEGIN:
        _, found, after = rest.partition(marker)
        rest = after if found else rest
    if rest is text:
        rest = text.partition("\n\n")[2]  # without the opening sentence
    for marker in _END:
        rest = rest.partition(marker)[0]
    return rest.strip() or text
