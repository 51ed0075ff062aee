"""What is beside the transcripts: whatever may be a conversation is told, and what the programs keep there is not."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.cli import cortext
from tests.tools.copilot.test_conformance import CopilotSamples
from tests.tools.crush.test_conformance import CrushSamples
from tests.tools.droid.test_conformance import DroidSamples
from tests.tools.gptme.test_conformance import GptmeSamples
from tests.tools.kimi_code.test_conformance import KimiSamples
from tests.tools.qwen_code.test_conformance import Samples as QwenSamples
from tests.tools.test_conformance import ClaudeSamples, GeminiSamples, OpenCodeSamples
from tests.tools.vibe.test_conformance import Vibe3Samples

from cortext.testing import Samples
from cortext.tools.base import Leftover, NamesLeftovers
from cortext.tools.shared import leftovers
from cortext.tools.shared.leftovers import renamed, table_leftovers, unlisted_below

pytestmark = pytest.mark.req("TRUE-05")

# Files that the real programs write, relative to the folder of the transcript.
KEPT: dict[str, tuple[type[Samples], Iterable[str]]] = {
    "Claude Code": (
        ClaudeSamples,
        (
            *("sessions-index.json", "memory/MEMORY.md", "agent-1.jsonl", "{stem}/subagents/agent-2.jsonl"),
            *(
                "{stem}/tool-results/call.txt",
                "gone/tool-results/call.txt",
                "{stem}/1795050738916.cast",
            ),
        ),
    ),
    "Gemini CLI": (
        GeminiSamples,
        ("../logs.json", "../checkpoint-mine.json", "../shell_history", "../tool-outputs/session-1/call.txt"),
    ),
    "Copilot": (
        CopilotSamples,
        (
            *(
                "workspace.yaml",
                "plan.md",
                "checkpoints/index.md",
                "rewind-file-snapshots/tracking.json",
                "files/notes.md",
            ),
            *(
                "../.session-operation-locks/1.lock",
                "inuse.7.lock",
            ),
        ),
    ),
    "Qwen Code": (QwenSamples, ("{stem}.runtime.json", "../tool-results/call.txt", "../subagents/1/a.jsonl")),
    "Kimi Code": (
        KimiSamples,
        (
            *("../../notify/state.json", "../../logs/kimi-code.log", "../one/wire.jsonl", "blobs/1"),
            *("../../../../.index-cache/scan.json",),
        ),
    ),
    "gptme": (GptmeSamples, ("events.jsonl", "prompt-queue-closed", "branches/one.jsonl", ".lock", "workspace/a.py")),
    "Vibe": (Vibe3Samples, ("scheduled-loops.json", "chunks/1.json", "../.session-index.json", "../../active/x")),
    "OpenCode": (
        OpenCodeSamples,
        (
            *("auth.json", "log/opencode.log", "opencode.db-wal.tmp", "storage/session/project/{key}.json"),
            *(
                "storage/session/message/1/msg_1.json",
                "snapshot/HEAD",
            ),
        ),
    ),
    "Crush": (CrushSamples, ("logs/crush.log", "init", "commands/one.md", "crush.json")),
    "Droid": (DroidSamples, ("{stem}.settings.json",)),
}


def left_in(samples: Samples, home: Path) -> list[Leftover]:
    tool = samples.tool(home)
    assert isinstance(tool, NamesLeftovers)
    return list(tool.leftovers(list(tool.transcripts())))


@pytest.mark.parametrize("program", KEPT)
def test_what_the_program_itself_keeps_there_is_no_alarm(home: Path, program: str) -> None:
    samples, names = KEPT[program][0](), KEPT[program][1]
    samples.save(home)
    (found,) = samples.tool(home).transcripts()
    folder, name = os.path.split(found.path)
    for pattern in names:
        kept = pattern.format(stem=name.removesuffix(".jsonl"), key=found.key)
        path = Path(os.path.normpath(os.path.join(folder, kept)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("something\n")

    assert left_in(samples, home) == []


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("something")


def paths_of(found: Iterable[Leftover], folder: Path) -> list[str]:
    return [os.path.relpath(left.path, folder) for left in found]


def test_every_file_is_told_but_companions_and_those_of_a_program_at_work(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl.zst", "new/b.jsonl", "p/list.json", "p/notes/c.md", "p/q/notes/d.md", "list.json")
    write(tmp_path, ".hidden", ".cache/e.jsonl", "f.jsonl.tmp", "g.tmp.17", "h.lock", "i.db-wal")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl.zst")

    found = unlisted_below(str(tmp_path), [], "Toy Chat", ("*/list.json", "*/notes/"))

    assert paths_of(found, tmp_path) == ["a.jsonl.zst", "list.json", "new/b.jsonl", "p/q/notes/d.md"]


def test_very_many_files_are_counted_and_named_only_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_NAMED", 2)
    write(tmp_path, *(f"{number}.zst" for number in range(5)))

    found = list(unlisted_below(str(tmp_path), [], "Toy Chat"))

    assert paths_of(found, tmp_path) == ["0.zst", "1.zst", "."]
    assert found[-1].why.startswith("3 more files")


def test_a_huge_folder_is_looked_at_in_part_and_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_LOOKED_AT", 3)
    write(tmp_path, *(f"{number}.zst" for number in range(4)))

    found = list(unlisted_below(str(tmp_path), [], "Toy Chat"))

    assert paths_of(found, tmp_path) == ["0.zst", "1.zst", "2.zst", "."]
    assert "more than 3 files" in found[-1].why


def test_a_database_by_another_name_is_found_among_other_files(tmp_path: Path) -> None:
    write(tmp_path, "chats.db.zst", "v3-chats.db", "keys.json", "new/chats.db", "new/keys.json", ".old/chats.db")
    with closing(sqlite3.connect(tmp_path / "talk.sqlite")) as database:
        database.execute("CREATE TABLE talk (words TEXT)")

    found = renamed(str(tmp_path / "chats.db"), [str(tmp_path / "chats.db")])

    assert [os.path.relpath(path, tmp_path) for path in found] == [
        "chats.db.zst",
        "new/chats.db",
        "talk.sqlite",
        "v3-chats.db",
    ]


@pytest.mark.parametrize(
    ("columns", "values", "is_told"),
    [
        ("id TEXT, said_by TEXT, words TEXT", "('1', 'user', 'hello')", True),
        ("id, body", "(1, 'all of what was said')", True),
        ("id INTEGER, at TIMESTAMP, done BOOLEAN", "(1, 2, 3)", False),
    ],
)
def test_a_table_with_text_is_told_whatever_its_name(tmp_path: Path, columns: str, values: str, is_told: bool) -> None:
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE known (id TEXT)")
        database.execute("CREATE TABLE notes (id TEXT)")
        database.execute("INSERT INTO notes VALUES ('1')")
        database.execute("CREATE TABLE empty (id TEXT)")
        database.execute(f"CREATE TABLE talk ({columns})")
        database.execute(f"INSERT INTO talk VALUES {values}")

    found = [left.why for left in table_leftovers(str(path), {"known": ("id",)}, ("notes",))]

    assert found == (["its table talk (1 rows) is of a kind that is not known yet"] if is_told else [])


def test_a_tool_with_an_alarm_is_not_said_to_have_no_conversations() -> None:
    home = Path(os.environ["HOME"])
    DroidSamples().save(home)
    (path,) = home.rglob("*.jsonl")
    path.rename(f"{path}.zst")
    assert cortext("import", cwd=home).code != 0

    shown = cortext("tools", cwd=home).out

    (others,) = [line for line in shown.splitlines() if line.startswith("Not installed")]
    assert "droid" not in others and "! droid:" in shown
