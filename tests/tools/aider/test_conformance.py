"""The adapter of Aider passes the conformance suite, except where its format cannot be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faces.test_rescue import claude_session
from tests.support.cli import cortext, git

from cortext.testing import Samples, ToolConformance
from cortext.testing.reading import GARBAGE
from cortext.testing.writing import everyday
from cortext.tools.aider.adapter import Aider
from cortext.tools.base import NativeWriter, TranscriptSource

pytestmark = pytest.mark.req("TOOL-01", "TOOL-03", "SESS-001d", "SESS-004d", "STORE-13")

# What Aider appends at once, in order.
PIECES = (
    "\n# aider chat started at 2026-11-02 08:00:00\n\n",
    "> aider --model gpt-x --message two\n\nlines  \n> Aider v0.86.2  \n> Model: gpt-x with diff edit format  \n",
    "\n#### /add note.txt  \n> Added note.txt to the chat  \n> a second output\nof two lines  \n",
    "\n#### Read note.txt  \n####   \n#### 覚えて 🦩  \n",
    "\n# The note\n\n> the heron stands still\n\n```sh\n# how to read it\ncat note.txt\n```\n#### Done\n\n",
    "> Tokens: 1.2k sent, 18 received. Cost: $0.01 message, $0.01 session.  \n",
    "\n#### <blank>  \n",
    "\n#### /ask And now?  \n",
    "\nNow it flies.\n\n> Tokens: 600 sent, 1,005 received.  \n",
)


class AiderSamples(Samples):
    has_folder = False
    records = len(PIECES)
    messages = (
        ("user", "Read note.txt\n\n覚えて 🦩"),
        (
            "assistant",
            "# The note\n\n> the heron stands still\n\n```sh\n# how to read it\ncat note.txt\n```\n#### Done",
        ),
        ("user", "/ask And now?"),
        ("assistant", "Now it flies."),
    )

    def tool(self, home: Path) -> NativeWriter:
        known = home / ".local/share/cortext/workspaces"
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(f"{self.path(home).parent}\n")
        return Aider(home=str(home), environ={"PATH": "/nowhere"})

    def path(self, home: Path) -> Path:
        """Return the history in a project that cortext knows as a workspace."""
        return home / "pond" / ".aider.chat.history.md"

    def save(self, home: Path, records: int | None = None) -> None:
        self._save(home, [piece.encode() for piece in PIECES[:records]])

    def save_with(self, home: Path, index: int, record: bytes) -> None:
        pieces = [piece.encode() for piece in PIECES]
        self._save(home, [*pieces[:index], record + b"\n", *pieces[index:]])

    def _save(self, home: Path, pieces: list[bytes]) -> None:
        self.path(home).parent.mkdir(exist_ok=True)
        self.path(home).write_bytes(b"".join(pieces))


class TestAider(ToolConformance):
    samples = AiderSamples()

    def test_a_damaged_record_is_counted_and_the_others_are_read(self, home: Path, tool: TranscriptSource) -> None:
        """Any line is a valid one, so there is nothing to count: it becomes a part of an answer."""
        self.samples.save(home)
        complete, _, _ = self.read(tool)
        for record in GARBAGE:
            self.samples.save_with(home, self.samples.records, record)
            messages, _, counts = self.read(tool)
            assert messages[: len(complete)] == complete
            assert [role for _, role, _, _, _ in messages[len(complete) :]] == ["assistant"]
            assert (counts.damaged, counts.unknown) == ({}, {})

    def test_the_tool_is_started_in_the_project_with_that_session(self, writer: NativeWriter, project: Path) -> None:
        """It takes no first prompt."""
        written = writer.write(everyday(), project=str(project))
        launch = writer.launch(written.key, project=str(project), prompt="secret", model="some/model")

        assert launch.cwd == str(project)
        assert launch.argv[1:4] == ["--chat-history-file", written.path, "--restore-chat-history"]
        assert launch.argv[-2:] == ["--model", "some/model"]
        assert "secret" not in " ".join([*launch.argv, *launch.env.values()])


def test_a_history_is_found_in_every_repository_that_another_tool_was_used_in(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    repositories = [tmp_path / name for name in ("pond", "lake")]
    for number, repository in enumerate(repositories):
        repository.mkdir()
        git(repository, "init", "-q")
        git(repository, "commit", "-q", "--allow-empty", "-m", f"start {number}")
        (repository / ".aider.chat.history.md").write_text("".join(PIECES).replace("08:00:00", f"08:00:0{number}"))
    path = claude_session(home, 0, days_ago=1)
    path.write_text(path.read_text("utf-8").replace("/work/pond", str(repositories[0])), encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    assert cortext("import", "--from", "claude", cwd=elsewhere).code == 0
    assert cortext("import", "--from", "aider", cwd=elsewhere).code == 0

    found = [row for row in cortext("list", "--json", cwd=elsewhere).json if row["id"].startswith("aider")]
    assert [row["message_count"] for row in found] == [4], "the other repository is not known to any tool"
