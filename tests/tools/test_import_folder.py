"""`cortext import FOLDER` names what may be a conversation and is recognised by no tool, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import cortext
from tests.tools import test_conformance as first_four
from tests.tools.aider.test_conformance import AiderSamples
from tests.tools.amp.test_conformance import AmpSamples
from tests.tools.chatgpt.test_conformance import ChatGptSamples
from tests.tools.claude_ai.test_conformance import ClaudeAiSamples
from tests.tools.cline.test_conformance import ClineSamples
from tests.tools.continue_cli.test_conformance import ContinueSamples
from tests.tools.copilot.test_conformance import CopilotSamples
from tests.tools.crush.test_conformance import CrushSamples
from tests.tools.cursor.test_conformance import CursorSamples
from tests.tools.droid.test_conformance import DroidSamples
from tests.tools.goose.test_conformance import GooseSamples
from tests.tools.gptme.test_conformance import GptmeSamples
from tests.tools.kimi_code.test_conformance import KimiSamples
from tests.tools.llm.test_conformance import LlmSamples
from tests.tools.openhands.test_conformance import OpenHandsSamples
from tests.tools.pi.test_conformance import Samples as PiSamples
from tests.tools.qwen_code.test_conformance import Samples as QwenSamples
from tests.tools.vibe.test_conformance import Vibe2Samples, Vibe3Samples

from cortext.testing.samples import Samples

pytestmark = pytest.mark.req("TRUE-05", "TRUE-06")
EVERY: list[type[Samples]] = [
    first_four.ClaudeSamples, first_four.CodexSamples, first_four.GeminiSamples, first_four.OpenCodeSamples,
    AiderSamples, AmpSamples, ChatGptSamples, ClaudeAiSamples, ClineSamples, ContinueSamples, CopilotSamples,
    CrushSamples, CursorSamples, DroidSamples, GooseSamples, GptmeSamples, KimiSamples, LlmSamples, OpenHandsSamples,
    PiSamples, QwenSamples, Vibe2Samples, Vibe3Samples,
]  # fmt: skip
# With the file whose beginning is lost; the others of such a session are of no use to an adapter without it.
DAMAGED: list[tuple[type[Samples], str]] = [
    (ContinueSamples, "1549*.json"), (CopilotSamples, "events.jsonl"), (DroidSamples, "*.jsonl"),
    (PiSamples, "*.jsonl"), (Vibe2Samples, "meta.json"), (Vibe3Samples, "meta.json"),
]  # fmt: skip
DATABASE = b"SQLite format 3\0" + bytes(50)


@pytest.fixture
def backup(home: Path) -> Path:
    """Return a folder with a good transcript of Claude Code, outside of every tool's store."""
    folder = home / "backup"
    first_four.ClaudeSamples().save(folder)
    return folder


@pytest.mark.parametrize(("samples", "pattern"), DAMAGED, ids=[samples.__name__ for samples, _ in DAMAGED])
def test_a_damaged_transcript_beside_a_good_one_is_named(
    home: Path, backup: Path, samples: type[Samples], pattern: str
) -> None:
    samples().save(backup)
    bad = next(path for path in sorted(backup.rglob(pattern)) if ".claude" not in path.parts)
    bad.write_bytes(b'{"garbage": tru\n' + bad.read_bytes().partition(b"\n")[2])

    done = cortext("import", str(backup), cwd=home)
    assert done.code == 3 and f"{bad.relative_to(backup)} (JSON that is cut or damaged)" in done.err, done.err
    assert "expected a transcript of a tool" in done.err and "claude" in done.out
    report = cortext("import", str(backup), "--json", cwd=home).json
    assert [f"{bad}: not recognised: it is JSON that is cut or damaged"] == [
        line for tool in report for line in tool["failed"] if str(bad) in line
    ]


def test_no_file_of_a_recognised_conversation_is_named(home: Path, backup: Path) -> None:
    for samples in EVERY:
        samples().save(backup)
    for words in ((), ("--from", "claude")):
        done = cortext("import", str(backup), *words, cwd=home)
        assert (done.code, "not recognised" in done.err) == (0, False), done.err


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("zeros.jsonl", bytes(64)),
        ("text.jsonl", b"garbage"),
        ("newer.jsonl", b'{"version": 9, "role": "user", "text": "Herons?"}\n'),
        ("broken.db", DATABASE),
        ("lost.db", bytes(64)),
        ("old.jsonl.zst", b"\x28\xb5\x2f\xfd"),
        ("cut.zip", b"PK\x03\x04 conversations.json"),
    ],
)
def test_a_file_that_may_be_a_conversation_is_named(home: Path, backup: Path, name: str, data: bytes) -> None:
    (backup / name).write_bytes(data)
    done = cortext("import", str(backup), cwd=home)
    assert done.code == 3 and f"1 file was not recognised: {name} (" in done.err, done.err


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("package.json", b'{\n  "name": "pond",\n  "dependencies": {"heron": "1"}\n}\n'),
        ("tsconfig.json", b'{\n  // comments\n  "strict": true,\n}\n'),
        ("numbers.jsonl", b"1\n2\n"),
        ("empty.jsonl", b""),
        ("notes.md", b"# Herons\n"),
        (".hidden.json", b"{"),
        ("Thumbs.db", b"\xd0\xcf\x11\xe0 thumbnails"),
        ("photos.zip", b"PK\x03\x04 herons.jpg"),
    ],
)
def test_a_file_of_another_kind_is_not_named(home: Path, backup: Path, name: str, data: bytes) -> None:
    (backup / name).write_bytes(data)
    assert (cortext("import", str(backup), cwd=home).code, cortext("import", str(backup), cwd=home).err) == (0, "")


def test_very_many_unrecognised_files_are_counted(home: Path, backup: Path) -> None:
    for number in range(150):
        (backup / f"{number:03d}.json").write_bytes(b"{")
    done = cortext("import", str(backup), "--json", cwd=home)
    assert done.code == 3 and "150 files were not recognised" in done.err and " and 147 more;" in done.err
    (unknown,) = (report for report in done.json if not report["tool"])
    assert len(unknown["failed"]) == 101 and unknown["failed"][-1] == "… and 50 more"
