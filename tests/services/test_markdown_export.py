"""The Markdown export: what of a conversation's own fields it shows."""

from __future__ import annotations

from cortext.model.session import Session
from cortext.safety import terminal
from cortext.services.library.export import as_markdown


def test_a_summary_loses_signs_that_control_or_turn_text() -> None:
    session = Session(id="001-plan-x", type="pl\u202ean", title="T\x1b[2J", summary="one\x1b[31m\ntwo\u202eevil\u2066")
    text = as_markdown(session, [])
    assert "> one␛[31m\n> two<U+202E>evil<U+2066>\n" in text
    assert terminal.block(text) == text
