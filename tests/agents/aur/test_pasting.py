"""Text that is pasted into a prompt is one message, whenever it comes and whatever the terminal can."""

from __future__ import annotations

import pytest

from tests.agents.aur.kit import Aur

WAIT = 60.0
LINES = [f"line {number} of a pasted log" for number in range(1, 61)]
PASTE = "\n".join([*LINES[:30], "", *LINES[30:]])  # fits the terminal's buffer, with a blank line in it


@pytest.mark.req("SPAWN-10")
@pytest.mark.parametrize("marked", [True, False])
def test_a_paste_into_a_cold_prompt_is_one_message(aur: Aur, *, marked: bool) -> None:
    aur.server.push("Read it.", "Done.")
    with aur.screen("spawn", "-i", "--agent", "qa-test", "--session", "talk") as screen:
        screen.at_prompt()  # visible, but prompt_toolkit is not imported yet
        screen.paste(PASTE, marked=marked)
        screen.wait_for(LINES[-1], timeout=WAIT)
        assert not aur.file("talk").exists() or aur.turns("talk") == [], "nothing is sent before Enter"
        screen.press("Enter")
        screen.wait_for("Read it.", timeout=WAIT)
        screen.at_prompt().paste("two\nlines", marked=marked)  # into a prompt that is ready
        screen.wait_for("lines", timeout=WAIT)
        screen.press("Enter")
        screen.wait_for("Done.", timeout=WAIT)
        screen.at_prompt().press("C-d")
        assert screen.wait_for_end(WAIT) == 0
    assert [text for role, text in aur.turns("talk") if role == "user"] == [PASTE, "two\nlines"]
    assert len(aur.server.turns) == 2
