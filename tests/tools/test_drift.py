"""What happened when a tool's format changed, played again with the reader of before: never silence.

Each change is made to samples of the real format. The reader of before is today's without its newer part. An import
with it must raise an alarm that `doctor` shows, and an import with today's reader must end it and have the whole
conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools.codex import corpus as codex
from tests.tools.codex.test_pages import save_rewound_thread, squeeze
from tests.tools.gemini_cli import corpus as gemini
from tests.tools.opencode import corpus as opencode
from tests.tools.opencode.test_version2 import SPOKEN as SPOKEN_IN_OPENCODE
from tests.tools.opencode.test_version2 import upgraded
from tests.tools.vibe import samples as vibe

from cortext.services.capture.importing import ImportReport, capture_all, scan
from cortext.services.doctor import uncaptured_findings
from cortext.tools.base import TranscriptSource
from cortext.tools.codex import pages
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode import version2
from cortext.tools.opencode.adapter import Folders, OpenCode
from cortext.tools.opencode.store import TABLES
from cortext.tools.vibe.adapter import Vibe
from cortext.wiring.stores import Stores

pytestmark = pytest.mark.req("TRUE-05")

Before = Callable[[pytest.MonkeyPatch], None]
ASKED, ANSWERED = "How many herons?", "Two herons."
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


def gemini_lines(home: Path) -> None:
    path = home / ".gemini/tmp/boats/chats" / f"session-2026-11-15T02-10-{gemini.KEY[:8]}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(line + b"\n" for line in gemini.everyday().lines))


def only_documents(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("cortext.tools.gemini_cli.store._NAME", re.compile(r"session-.+-([0-9A-Za-z]{8})\.json"))


def codex_rewound(home: Path) -> None:
    save_rewound_thread(home)


def only_first_pages(patch: pytest.MonkeyPatch) -> None:
    name = rf"rollout-(\d{{4}})-(\d\d)-(\d\d)T(\d\d-\d\d-\d\d)-({UUID})()\.jsonl"
    patch.setattr(pages, "_NAME", re.compile(name))


def codex_compressed(home: Path) -> None:
    squeeze(codex.everyday().save(home))


def without_library(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pages, "library", lambda: None)


def opencode_2(home: Path) -> None:
    upgraded(home)


def only_version_1(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(version2, "is_here", lambda database: False)
    known = {name: needed for name, needed in TABLES.items() if not name.startswith("session_")}
    patch.setattr("cortext.tools.opencode.read.TABLES", known)


def opencode_database(home: Path) -> None:
    corpus = opencode.Corpus(home / ".local/share/opencode/opencode.db")
    corpus.session()
    corpus.user(ASKED)
    corpus.assistant(ANSWERED)
    corpus.close()


def only_documents_of_opencode(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Folders, "databases", property(lambda folders: []))


def vibe_3(home: Path) -> None:
    vibe.save_unified(home, vibe.JOURNAL)


def only_vibe_2(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Vibe, "unified", property(lambda tool: f"{tool.root}/nowhere"))


CHANGES: dict[
    str, tuple[Callable[[Path], None], Before, Callable[[str, dict[str, str]], TranscriptSource], list[str]]
] = {
    "Gemini CLI, documents to lines": (gemini_lines, only_documents, GeminiCli, [text for _, text in gemini.EVERYDAY]),
    "Codex, pages of a thread": (codex_rewound, only_first_pages, Codex, ["two-b"]),
    "Codex, compressed pages": (codex_compressed, without_library, Codex, [text for _, text in codex.EVERYDAY]),
    "OpenCode 1 to 2": (opencode_2, only_version_1, OpenCode, [text for _, text in SPOKEN_IN_OPENCODE]),
    "OpenCode, files to a database": (
        opencode_database,
        only_documents_of_opencode,
        OpenCode,
        [ASKED, ANSWERED],
    ),
    "Vibe 2 to 3": (vibe_3, only_vibe_2, Vibe, [text for _, text in vibe.SPOKEN]),
}


def imported(tool: TranscriptSource) -> tuple[ImportReport, list[str]]:
    """Import everything of a tool; return the report, and what every stored message says."""
    reports = ImportReport()
    capture = Stores().capture()
    for _ in capture_all(capture, scan([tool], reports), reports, share=False):
        pass
    store = capture.home.store
    return reports, [message.text for session in store.sessions() for message in store.read(session.id)]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_format_is_told_until_it_is_read(home: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save, before, kind, texts = CHANGES[change]
    save(home)
    environ = {"HOME": str(home), "PATH": "/nowhere"}
    with monkeypatch.context() as patch:
        before(patch)
        reports, stored = imported(kind(str(home), environ))
        assert not set(texts) <= set(stored), "the reader of before has all of it: this change plays nothing"
        (alarm,) = uncaptured_findings()
        assert any(report.failed for report in reports.tools.values()) or "×" in alarm.findings[0].what, (
            "the import says so, too"
        )
        assert imported(kind(str(home), environ)) and uncaptured_findings(), "and it lasts"

    _, stored = imported(kind(str(home), environ))

    assert set(texts) <= set(stored), stored
    assert uncaptured_findings() == []
