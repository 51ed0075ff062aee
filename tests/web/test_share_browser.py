"""Exported files in a real browser: readable for everyone, in light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.model.message import THINKING, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.session import Session
from cortext.web.html.document import SiteEntry, document, first_page, sealed
from tests.support import chromium
from tests.web.room import broken_rules, started_browser

pytestmark = [
    pytest.mark.req("PAGE-02"),
    pytest.mark.skipif(chromium.program() is None, reason="no Chromium here: python -m tests.support.chromium"),
]

EDIT = {"file_path": "heron.py", "old_string": "count = 1", "new_string": "count = 17  # herons"}
MESSAGES = [
    Message(role="user", content="```python\nx = 1  # why\n```\n\n[masked anthropic-key 3f2a9c] and `code`", seq=0),
    Message(
        role="assistant",
        model="m",
        parts=[Part(THINKING, text="Let me see."), Part(TOOL_CALL, id="e", name="Edit", input=EDIT)],
        seq=1,
    ),
    Message(role="tool", parts=[Part(TOOL_RESULT, call_id="e", output="It failed.", is_error=True)], seq=2),
    Message(role="tool", parts=[Part(TOOL_RESULT, call_id="gone", output="x" * 7_000)], seq=3),
    Message(role="assistant", content="| a | b |\n|---|---|\n| 1 | [link](https://example.org) |\n\n> quoted", seq=4),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_exported_files_break_no_rule_of_accessibility(tmp_path: Path, scheme: str) -> None:
    session = Session(id="x", title="Herons", summary="All of it.", type="plan")
    entry = SiteEntry(session, "page.html")
    files = {"page": document(session, entry.noting(MESSAGES)), "index": first_page([entry])}
    files["sealed"] = sealed(files["page"], "seventeen herons")
    broken = []
    with started_browser() as browser:
        page = browser.new_context(color_scheme=scheme).new_page()  # type: ignore[arg-type]
        for name, text in files.items():
            (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
            page.goto(f"file://{tmp_path}/{name}.html")
            for fold in page.locator("details > summary").all():
                fold.click()
            broken += [f"{name}: {problem}" for problem in broken_rules(page)]
    assert broken == []
