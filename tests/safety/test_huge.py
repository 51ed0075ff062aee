"""A transcript that no model and hardly a program can take whole: handled in bounded memory, resumed as a lean one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cli import SCRIPTS, cortext
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.much import HUGE_ID, MEGABYTE, taken, write_huge_transcript
from tests.support.screen import Screen

pytestmark = pytest.mark.req("TOOL-10")
MEGABYTES = 60
MOST = 200  # MB
SHORTENED = "tool result shortened"


def test_every_command_takes_bounded_memory_for_a_huge_transcript(home: Path, tmp_path: Path) -> None:
    path = write_huge_transcript(str(home), str(tmp_path), MEGABYTES)
    assert os.path.getsize(path) > MEGABYTES * MEGABYTE * 0.9
    peaks = {}
    for words in (
        ("import",),
        ("search", "heron", "number", "12"),
        ("show", HUGE_ID, "--tail", "5"),
        ("export", HUGE_ID),
        ("resume", HUGE_ID, "--print"),
        ("resume", HUGE_ID, "--ai", "claude", "--dry-run"),
        ("restore", HUGE_ID, "--into", "claude"),  # byte for byte: nothing to do
        ("restore", HUGE_ID, "--into", "codex"),  # written from the messages
        ("doctor",),
    ):
        done = taken([str(SCRIPTS / "cortext"), *words], cwd=str(tmp_path), env=os.environ)
        assert done.code == 0 and "Traceback" not in done.err, (words, done)
        peaks[" ".join(words)] = done.peak
    assert max(peaks.values()) < MOST, peaks
    again = cortext("restore", HUGE_ID, "--into", "codex", "--json", cwd=tmp_path).json
    assert again["how"].startswith("nothing to do"), "the lean session is recognised"
    (lean,) = (home / ".codex" / "sessions").rglob("*.jsonl")
    assert MEGABYTE < lean.stat().st_size < 0.8 * os.path.getsize(path)


@pytest.mark.real_tool
def test_claude_code_opens_the_lean_session_of_a_huge_transcript(tmp_path: Path) -> None:
    with ModelServer() as server:
        desk = Desk(tmp_path, server, names=("claude",))
        folder = desk.project()
        path = write_huge_transcript(str(desk.home), str(folder), 50)
        assert desk.cortext("import", "--from", "claude", cwd=folder).code == 0
        planned = desk.cortext("resume", HUGE_ID, "--ai", "claude", "--dry-run", "--json", cwd=folder).json
        receipt = planned["receipt"]
        assert planned["how"] == "a new native session"
        assert receipt["messages"] > 100 and receipt["changed"][SHORTENED] == receipt["tool_calls"]
        assert sum(receipt["left_out"].values()) + receipt["messages"] == receipt["of_messages"] == 200

        server.push(*["Picked up."] * 3)
        command = [str(SCRIPTS / "cortext"), "resume", HUGE_ID, "--ai", "claude"]
        with Screen(tmp_path, command, desk.env, folder, "150x70") as screen:
            screen.wait_for("Picked up.", timeout=120)
        request = server.wait_for(lambda turn: "[RESUMED CONVERSATION]" in str(turn.body), 60)
        results = [turn.text for turn in request.conversation if turn.kind == "tool_result"]
        assert len(results) == receipt["tool_calls"]
        assert all("characters of this result left out" in text and len(text) < 20_000 for text in results)
        assert "Heron 49 is built." in str(request.body) and "Please build heron number 30." in str(request.body)
        lean = [other for other in Path(path).parent.glob("*.jsonl") if str(other) != path]
        assert len(lean) == 1 and lean[0].stat().st_size < 2 * MEGABYTE
