"""The text of the summary that Claude Code writes at a compaction."""

from __future__ import annotations

import pytest

from cortext.tools.claude_code.messages import summary_text

OPENING = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation."
)
CLOSING = (
    "If you need specific details from before compaction (like exact code snippets), read the full transcript at: /x\n"
    "Please continue the conversation from where we left it off without asking the user any further questions."
)


@pytest.mark.req("TOOL-01")
@pytest.mark.parametrize(
    ("written", "summary"),
    [
        (f"{OPENING}\n\nAnalysis:\nThey…\n\nSummary:\n1. A song.\n2. A walk.\n\n{CLOSING}", "1. A song.\n2. A walk."),
        (f"{OPENING}\n\nThey sang.\n{CLOSING}", "They sang."),
        ("<analysis>Let me see.</analysis>\n\n<summary>\nThey sang.\n</summary>", "They sang."),
        (f"{OPENING}", OPENING),
        ("Summary: they sang.", "Summary: they sang."),
        ("", ""),
    ],
)
def test_instructions_to_the_model_are_removed_from_a_summary(written: str, summary: str) -> None:
    assert summary_text(written) == summary
