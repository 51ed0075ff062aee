"""Which conversations a chat history of Aider has, and where histories are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.model.turns import Difference
from cortext.tools.aider.adapter import Aider

pytestmark = pytest.mark.req("TOOL-03")

HISTORY = ".aider.chat.history.md"


def section(second: int, *turns: tuple[str, str], restored: bool = False) -> str:
    """Return what Aider writes in one start."""
    note = "> Restored previous conversation history.  \n" if restored else ""
    said = "".join(f"\n#### {user}  \n\n{answer}\n\n> Tokens: 10 sent, 5 received.  \n" for user, answer in turns)
    return f"\n# aider chat started at 2026-11-02 08:00:{second:02d}\n\n> Aider v0.86.2  \n{note}{said}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "pond"
    folder.mkdir()
    return folder


@pytest.fixture
def aider(tmp_path: Path) -> Aider:
    return Aider(home=str(tmp_path / "home"), environ={"PATH": "/nowhere"})


def conversations(aider: Aider, project: Path) -> list[list[str]]:
    """Return the texts of each conversation of a project."""
    return [[message.content for message in aider.read(found)] for found in aider.transcripts(str(project))]


def test_each_start_is_a_conversation_unless_it_restored_the_history(aider: Aider, project: Path) -> None:
    (project / HISTORY).write_text(
        section(1, ("one", "eins"))
        + section(2)
        + section(3, ("two", "zwei"))
        + section(4, ("three", "drei"), restored=True),
        encoding="utf-8",
    )
    assert conversations(aider, project) == [["one", "eins"], ["two", "zwei", "three", "drei"]]


def test_a_conversation_keeps_its_id_while_others_are_added(aider: Aider, project: Path) -> None:
    path = project / HISTORY
    path.write_text(section(1, ("one", "eins")), encoding="utf-8")
    (before,) = aider.transcripts(str(project))
    path.write_text(section(1, ("one", "eins")) * 2 + section(2, ("one", "eins")), encoding="utf-8")
    first, second, third = aider.transcripts(str(project))
    assert (first.key, first.size) == (before.key, before.size)
    assert len({first.key, second.key, third.key}) == 3
    assert aider.transcript_at(str(path)) is None
    assert [found.key for found in aider.transcripts_in(str(path))] == [first.key, second.key, third.key]


def test_a_history_is_found_from_a_folder_inside_the_repository(aider: Aider, project: Path) -> None:
    (project / ".git").mkdir()
    (project / "src").mkdir()
    (project / HISTORY).write_text(section(1, ("one", "eins")), encoding="utf-8")
    (found,) = aider.transcripts(str(project / "src"))
    assert found.project == str(project)


def test_the_current_project_is_found_without_being_named(
    aider: Aider, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / HISTORY).write_text(section(1, ("one", "eins")), encoding="utf-8")
    assert list(aider.transcripts()) == []
    monkeypatch.chdir(project)
    assert [found.project for found in aider.transcripts()] == [str(project)]


def test_opening_a_conversation_copies_it_and_leaves_aiders_file_alone(aider: Aider, project: Path) -> None:
    path = project / HISTORY
    path.write_text(section(1, ("one", "eins")) + section(2, ("two", "zwei")), encoding="utf-8")
    before = path.read_bytes()
    first, _ = aider.transcripts(str(project))
    ids = [message.id for message in aider.read(first)]

    launch = aider.launch(first.key, project=str(project))

    own = Path(launch.argv[launch.argv.index("--chat-history-file") + 1])
    assert b"zwei" not in own.read_bytes()
    assert path.read_bytes() == before
    own.write_text(own.read_text(encoding="utf-8") + section(9, ("three", "drei"), restored=True), encoding="utf-8")
    found = {item.key: item for item in aider.transcripts(str(project))}
    assert len(found) == 2 and found[first.key].path == str(own)
    messages = list(aider.read(found[first.key]))
    assert [message.content for message in messages] == ["one", "eins", "three", "drei"]
    assert [message.id for message in messages][:2] == ids


def test_lines_that_aider_would_leave_out_are_indented_or_counted(aider: Aider, project: Path) -> None:
    answer = "# Title\n> quoted\n#### deep\n#hash\n  # inside\nlast"
    messages = [
        Message(role="user", content="# mine\n> mine", id="u"),
        Message(role="assistant", content=answer, id="a"),
    ]
    written = aider.write(messages, project=str(project))
    assert written.changed == {Difference.INDENTED: 3}
    text = Path(written.path).read_text(encoding="utf-8")
    assert "\n#### # mine\n#### > mine\n\n # Title\n > quoted\n #### deep\n#hash\n" in text

    (project / HISTORY).write_text(section(1, ("one", answer)), encoding="utf-8")
    (own,) = (found for found in aider.transcripts(str(project)) if found.key != written.key)
    withheld = aider.withheld(own)
    assert withheld is not None and withheld.changed == {Difference.LINE_LEFT_OUT: 3}
