"""The other files of a session of gptme: its settings, its full history after a compaction, its views."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.gptme.test_conformance import PROJECT, line

from cortext.model.turns import Difference
from cortext.tools.base import Transcript
from cortext.tools.gptme.adapter import Gptme

pytestmark = pytest.mark.req("TOOL-03", "SESS-004d")

QUESTION = line("user", "How many herons?", 1)
CALL = line("assistant", '@shell(c1): {"command": "ls"}', 2)
RESULT = line("system", "17 herons", 3, call_id="c1", metadata={"tool": "shell"})
ANSWER = line("assistant", "Seventeen.", 4)
SUMMARY = line("system", "Summary: there are herons.", 5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a session with a call."""
    folder = tmp_path / "logs" / "counting-herons"
    folder.mkdir(parents=True)
    (folder / "conversation.jsonl").write_bytes(b"\n".join([QUESTION, CALL, RESULT, ANSWER, b""]))
    (folder / "config.toml").write_text(f'[chat]\nname = "Herons"\nworkspace = "{PROJECT}"\ntool_format = "tool"\n')
    return folder


@pytest.fixture
def gptme(tmp_path: Path) -> Gptme:
    environ = {"HOME": str(tmp_path), "PATH": "/nowhere", "GPTME_LOGS_HOME": str(tmp_path / "logs")}
    return Gptme(environ=environ)


def only(gptme: Gptme) -> Transcript:
    (found,) = gptme.transcripts()
    return found


def test_the_settings_give_the_project_and_the_title(gptme: Gptme, folder: Path) -> None:
    reading = gptme.read(only(gptme))
    assert [message.text for message in reading] == ["How many herons?", "", "17 herons", "Seventeen."]
    assert (reading.about.project, reading.about.title, reading.about.tools) == (PROJECT, "Herons", ["shell"])
    assert gptme.withheld(only(gptme)) is not None


@pytest.mark.req("TRUE-01")
@pytest.mark.parametrize(
    ("setting", "refuses"), [("", False), ("interactive = true", False), ("interactive = false", True)]
)
def test_a_session_that_was_held_without_a_terminal_is_not_opened_in_one(
    gptme: Gptme, folder: Path, setting: str, refuses: bool
) -> None:
    with (folder / "config.toml").open("a") as file:
        file.write(f"{setting}\n")
    assert bool(gptme.refusal(only(gptme))) == refuses


@pytest.mark.req("TRUE-01")
def test_a_session_whose_provider_is_no_longer_set_up_is_not_opened(gptme: Gptme, folder: Path, tmp_path: Path) -> None:
    with (folder / "config.toml").open("a") as file:
        file.write('model = "anthropic/claude-sonnet-5"\n')
    assert "ANTHROPIC_API_KEY is not set" in gptme.refusal(only(gptme))
    settings = tmp_path / ".config/gptme/config.local.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[env]\nANTHROPIC_API_KEY = "x"\n', encoding="utf-8")
    assert gptme.refusal(only(gptme)) == ""


@pytest.mark.parametrize("damaged", [b"", b"[chat", b"chat = 7", b"\xff", b'[chat]\nname = 1\nworkspace = ["x"]'])
def test_damaged_settings_do_not_hide_the_conversation(gptme: Gptme, folder: Path, damaged: bytes) -> None:
    (folder / "config.toml").write_bytes(damaged)
    reading = gptme.read(only(gptme))
    assert len(list(reading)) == 4
    assert (reading.about.project, reading.about.title) == ("", "")


def test_after_a_compaction_by_the_user_every_message_is_still_read(gptme: Gptme, folder: Path, tmp_path: Path) -> None:
    before = [message.id for message in gptme.read(only(gptme))]
    (folder / "lossless.jsonl").write_bytes((folder / "conversation.jsonl").read_bytes())
    (folder / "conversation.jsonl").write_bytes(SUMMARY + b"\n")
    assert [message.id for message in gptme.read(only(gptme))] == before
    assert gptme.withheld(only(gptme)) is None, "gptme would send the summary"

    gptme.copy(only(gptme), str(tmp_path / "copy"))
    copy = gptme.transcript_at(str(tmp_path / "copy"))
    assert copy is not None and copy.key == "counting-herons"
    assert [message.id for message in gptme.read(copy)] == before


def test_a_view_of_a_compacted_session_is_noticed(gptme: Gptme, folder: Path) -> None:
    (folder / "views").mkdir()
    (folder / "views" / ".current").write_text("compacted-001\n")
    assert gptme.withheld(only(gptme)) is None


def test_calls_that_gptme_sends_as_text_are_counted(gptme: Gptme, folder: Path) -> None:
    (folder / "config.toml").write_text('[chat]\ntool_format = "markdown"\n')
    withheld = gptme.withheld(only(gptme))
    assert withheld is not None and withheld.changed == {Difference.CALLS_AS_TEXT: 1}


def test_a_session_whose_log_was_deleted_is_restored(gptme: Gptme, folder: Path, tmp_path: Path) -> None:
    gptme.copy(only(gptme), str(tmp_path / "copy"))
    log = (folder / "conversation.jsonl").read_bytes()
    (folder / "conversation.jsonl").unlink()
    (folder / "config.toml").write_text('[chat]\nname = "Newer"\n')
    assert gptme.put_back(str(tmp_path / "copy"), project=PROJECT) == "counting-herons"
    assert (folder / "conversation.jsonl").read_bytes() == log
    assert "Newer" in (folder / "config.toml").read_text()
