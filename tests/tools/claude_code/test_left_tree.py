"""A conversation held in the real Claude Code on one branch is listed, continued and merged on another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import SCRIPTS, git
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.screen import Screen

from cortext.safety.framing import END

SAID = (
    ("/workspace.brainstorm waders", "Which waders do you mean?"),
    ("Where do the kingfishers nest?", "In the north bank."),
    ("And where do the bitterns nest?", "Deep in the reeds."),
)
NEXT, ANSWER = "Do the grebes dive?", "All day long."
WELCOME = "I have picked it up."
TEXTS = [text for turn in SAID for text in turn]


def _row(desk: Desk, folder: Path) -> dict[str, Any]:
    """Return the only conversation of the list."""
    (row,) = desk.cortext("list", "--json", cwd=folder).json
    return dict(row)


def _counts(desk: Desk, folder: Path, session_id: str, texts: list[str]) -> list[int]:
    """Return how often the conversation, as it is shown, has each of these texts as a message."""
    shown = desk.cortext("show", "--json", session_id, cwd=folder).json
    said = [message["content"] for message in shown["messages"]]
    return [said.count(text) for text in texts]


@pytest.mark.real_tool
@pytest.mark.req("STORE-03", "FIND-01", "SESS-001d")
def test_a_conversation_of_another_branch_is_listed_continued_and_never_doubled(tmp_path: Path) -> None:
    with ModelServer() as server:
        desk = Desk(tmp_path, server, ["claude"])
        folder = desk.project("w")
        assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
        consent = json.dumps({"enabledMcpjsonServers": ["cortext"]})
        (folder / ".claude" / "settings.local.json").write_text(consent, encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "workspace")
        git(folder, "branch", "-M", "main")
        git(folder, "checkout", "-qb", "feature")
        claude, key = desk.tools["claude"], None
        for prompt, answer in SAID:
            server.push(answer)
            assert claude.run(prompt, cwd=folder, resume=key).returncode == 0
            key = claude.sessions()[-1]

        git(folder, "checkout", "-q", "main")
        assert not list(folder.glob("conversations/*/*/.session"))
        row = _row(desk, folder)
        assert (row["message_count"], row["place"]) == (len(TEXTS), "on branch feature")
        assert _counts(desk, folder, row["id"], TEXTS) == [1] * len(TEXTS)

        server.answer(NEXT, ANSWER)
        server.answer(END, WELCOME)
        before = len(server.requests)
        command = [str(SCRIPTS / "cortext"), "resume", row["id"]]
        with Screen(tmp_path, command, desk.env, folder, "150x70") as screen:
            screen.wait_for(WELCOME)
            first = server.wait_for(lambda turn: turn.number > before and turn.is_turn and END in str(turn.texts()))
            desk.say(screen.at_prompt(), NEXT)
            screen.wait_for(ANSWER)
            screen.close()  # its last hook also saves
        sent = "\n".join(first.texts())
        offsets = [sent.index(text) for text in TEXTS[1:]]
        assert offsets == sorted(offsets), "the whole history, in order"
        assert desk.cortext("stop", row["id"], cwd=folder).code == 0
        assert "place" not in _row(desk, folder), "it is in the work tree again"

        git(folder, "branch", "other", "feature")
        git(folder, "branch", "-qD", "feature")
        everything = [*TEXTS, NEXT, ANSWER]
        assert _row(desk, folder)["id"] == row["id"]
        assert _counts(desk, folder, row["id"], everything) == [1] * len(everything)

        git(folder, "merge", "-q", "other", "-m", "merged")
        assert _row(desk, folder)["id"] == row["id"], "one conversation"
        assert _counts(desk, folder, row["id"], everything) == [1] * len(everything)
        (log,) = folder.glob("conversations/*/*/.session/messages.jsonl")
        stored = log.read_text(encoding="utf-8")
        assert [stored.count(text) for text in everything] == [1] * len(everything)
