"""Import in batches and by several processes makes the same sessions as one by one, and never a partial one."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortext.index.catalogue import Catalogue
from cortext.model.message import Message
from cortext.model.session import Origin, Session
from cortext.services.capture.capture import Capture
from cortext.services.capture.first_reading import BATCH_MESSAGES
from cortext.services.capture.importing import ImportReport, capture_all
from cortext.services.library.stores import NamedStore
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.base import Transcript, TranscriptSource
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode.adapter import OpenCode
from tests.tools.claude_code.corpus import Script, call, full_conversation
from tests.tools.codex import corpus as codex
from tests.tools.gemini_cli import corpus as gemini
from tests.tools.opencode.corpus import Corpus

ROOT = Path(__file__).parents[2]
Work = list[tuple[TranscriptSource, Transcript]]


def key(number: int) -> str:
    return f"0b5c8a52-6f3d-4a63-9d7e-{number:012d}"


def script_of(number: int, turns: int = 3) -> Script:
    """Return a conversation with text, thinking, a tool call and a long result that is not ASCII."""
    script = Script(key(number))
    for turn in range(turns):
        script.user(f"question {turn} of {number}")
        script.assistant({"type": "thinking", "thinking": "hm → so", "signature": "c2ln"}, answer=f"m{turn}", tokens=3)
        script.assistant(call(f"toolu_{turn}", command="ls"), answer=f"m{turn}", tokens=3)
        script.result(f"toolu_{turn}", f"     1→line {turn} ünï 漢字\n" * 200)
        script.assistant(f"answer {turn}", answer=f"n{turn}", tokens=9)
    return script


def fill(home: Path) -> Path:
    """Write transcripts of every tool, those of Claude Code in every state; return the folder of the latter."""
    projects = home / ".claude" / "projects" / "p"
    projects.mkdir(parents=True)
    full_conversation().save(projects)
    for number in range(5):
        script_of(number, turns=1 + number).save(projects)
    script_of(7, turns=BATCH_MESSAGES // 4).save(projects)  # more than one batch of messages
    damaged = script_of(8)
    damaged.lines[2] += damaged.lines[3]  # two records on one line
    damaged.lines[5] = damaged.lines[5][:60]  # torn
    damaged.raw({"type": "never-seen", "uuid": "x"})
    damaged.save(projects)
    sides = projects / key(0) / "subagents"
    sides.mkdir(parents=True)
    side = script_of(0)
    side.user("aside")
    (sides / "agent-a1.jsonl").write_bytes(side.data().replace(b'"isSidechain":false', b'"isSidechain":true'))
    Script(key(9)).save(projects)  # no message yet
    codex.everyday().save(home)
    corpus = Corpus(home / ".local" / "share" / "opencode" / "opencode.db")
    corpus.session()
    corpus.user("Which boat?")
    corpus.assistant("The green one.")
    corpus.close()
    return projects


def work_in(home: Path) -> Work:
    tools: list[TranscriptSource] = [
        ClaudeCode(str(home), {}),
        Codex(home=str(home)),
        OpenCode(str(home), {"PATH": ""}),
    ]
    work = [(tool, transcript) for tool in tools for transcript in tool.transcripts()]
    chat = gemini.everyday().save(home)
    reader = GeminiCli(str(home), {})
    transcript = reader.transcript_at(str(chat))
    assert transcript is not None
    return [*work, (reader, transcript)]


def capture_in(folder: Path, *more: NamedStore) -> Capture:
    home = NamedStore("home", "home", str(folder), WorkspaceStore(str(folder)))
    return Capture(home, Catalogue(str(folder / "cache")), more)


def all_of(capture: Capture, work: Work) -> ImportReport:
    capture.remember_all()
    reports = ImportReport()
    assert sorted(done.key for done in capture_all(capture, work, reports)) == sorted(item.key for _, item in work)
    return reports


def one_by_one(capture: Capture, work: Work) -> ImportReport:
    reports = ImportReport()
    for tool, transcript in work:
        reports.of(tool.name).transcripts += 1
        reports.add(tool.name, capture.capture(tool, transcript))
    return reports


def tree(folder: Path) -> dict[str, Any]:
    """Return every file of the conversations; metadata is decoded, because the order of its keys does not matter."""
    found = {}
    for path in (folder / "conversations").rglob("*"):
        if path.is_file():
            raw = path.read_bytes()
            name = str(path.relative_to(folder))
            found[name] = json.loads(raw) if path.name == "session.json" else raw
    return found


def entries(capture: Capture) -> list[Any]:
    return sorted(entry._replace(root="") for entry in capture.catalogue.all().values())


@pytest.fixture
def world(tmp_path: Path) -> Path:
    fill(tmp_path / "home")
    return tmp_path


@pytest.mark.req("TOOL-03", "STORE-13")
def test_an_import_in_batches_makes_the_same_files_as_one_by_one(world: Path) -> None:
    work = work_in(world / "home")
    single, batch = capture_in(world / "single"), capture_in(world / "batch")
    expected = one_by_one(single, work)
    assert all_of(batch, work) == expected
    assert tree(world / "batch") == tree(world / "single")
    assert entries(batch) == entries(single)
    assert expected.tools["claude"].created == 8 and expected.tools["claude"].messages > BATCH_MESSAGES
    assert expected.tools["claude"].counts.unknown == {"never-seen": 1} and expected.tools["claude"].counts.damaged
    assert (
        expected.tools["codex"].created == expected.tools["opencode"].created == expected.tools["gemini"].created == 1
    )
    natives = [name for name in tree(world / "batch") if "/native" in name]
    assert len(natives) == 8 + 3 + 1, "including the file of the subagent"


@pytest.mark.req("TOOL-03")
def test_a_second_import_adds_only_what_is_new(world: Path) -> None:
    work = work_in(world / "home")
    capture = capture_in(world / "batch")
    all_of(capture, work)
    before = tree(world / "batch")
    again = all_of(capture, work)
    assert tree(world / "batch") == before
    assert (again.tools["claude"].unchanged, again.tools["claude"].created, again.tools["claude"].messages) == (9, 0, 0)
    grown = script_of(1, turns=2)
    grown.user("one more")
    grown.save(world / "home" / ".claude" / "projects" / "p")
    more = all_of(capture, work_in(world / "home")).tools["claude"]
    assert (more.updated, more.messages, more.created) == (1, 1, 0)


@pytest.mark.req("TOOL-03")
def test_without_the_catalogue_nothing_is_imported_twice(world: Path) -> None:
    work = work_in(world / "home")
    all_of(capture_in(world / "batch"), work)
    before = tree(world / "batch")
    for path in (world / "batch" / "cache").iterdir():
        path.unlink()
    again = all_of(capture_in(world / "batch"), work).tools["claude"]
    assert tree(world / "batch") == before
    assert (again.created, again.messages, again.failed) == (0, 0, [])


@pytest.mark.req("TOOL-03")
def test_a_transcript_of_a_workspace_is_captured_there(world: Path) -> None:
    pond = NamedStore("pond", "workspace", str(world / "pond"), WorkspaceStore(str(world / "pond")))
    pond.store.create(Session(id="brainstorm-001", origin=Origin(tool="claude", session_id=key(2))))
    capture = capture_in(world / "batch", pond)
    report = all_of(capture, work_in(world / "home")).tools["claude"]
    assert (report.created, report.updated) == (7, 1)
    assert next(iter(pond.store.read("brainstorm-001"))).content == "question 0 of 2"
    assert not [name for name in tree(world / "batch") if key(2) in name]


@pytest.mark.req("TOOL-03")
def test_an_unreadable_transcript_does_not_stop_the_others(world: Path) -> None:
    work = work_in(world / "home")
    path = world / "home" / ".claude" / "projects" / "p" / f"{key(3)}.jsonl"
    path.unlink()
    bad = script_of(4)
    bad.raw(json.loads(bad.lines[0]) | {"uuid": "late", "timestamp": "2026-99-99T99:99:99.999Z"})
    bad.save(path.parent)
    report = all_of(capture_in(world / "batch"), work).tools["claude"]
    assert report.created == 7
    assert [line.split(": ")[0].rpartition("/")[2] for line in report.failed] == [f"{key(3)}.jsonl"]
    assert report.counts.damaged["not a time"] == 1, "the record is kept, and its invalid time is reported"
    assert not (world / "batch" / ".workspace" / "state" / "incoming").exists()
    assert not [name for name in tree(world / "batch") if key(3) in name]


@pytest.mark.req("TOOL-03", "STORE-08")
def test_a_hook_that_was_faster_keeps_its_session(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the batch is built, a hook captures one of its transcripts; what the hook has not read is appended."""
    work = [item for item in work_in(world / "home") if item[1].key == key(4)]
    complete = Path(work[0][1].path).read_bytes()
    capture, hook = capture_in(world / "batch"), capture_in(world / "batch")
    copy = ClaudeCode.copy

    def copy_and_run_hook(self: ClaudeCode, *arguments: Any) -> None:
        copy(self, *arguments)
        monkeypatch.setattr(ClaudeCode, "copy", copy)
        Path(work[0][1].path).write_bytes(complete[: complete.rfind(b"\n", 0, -1) + 1])
        assert hook.capture(self, next(item for item in self.transcripts() if item.key == key(4))).created
        Path(work[0][1].path).write_bytes(complete)

    monkeypatch.setattr(ClaudeCode, "copy", copy_and_run_hook)
    report = all_of(capture, work).tools["claude"]
    assert (report.created, report.updated, report.messages, report.failed) == (0, 1, 1, [])
    messages = list(capture.home.store.read(f"claude-{key(4)}"))
    assert len(messages) == len({message.id for message in messages}) == 25


# ── several processes ────────────────────────────────────────────────────────────────────────────────

_WORKERS = """
import json, os, signal, sys
from cortext.services.capture import importing
from cortext.wiring.stores import Stores
from cortext.wiring.tools import tool
from cortext.services.capture.importing import ImportReport, capture_all
from cortext.services.capture.transcripts import work_for
importing.worker_count = lambda work: 2
capture_each, parent = importing.capture_each, os.getpid()
def killed(*arguments):
    yield from capture_each(*arguments)
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)  # it has published, but not reported
if {how!r} == "kill":
    importing.capture_each = killed
stores = Stores()
capture = stores.capture()
capture.remember_all()
reports = ImportReport()
from contextlib import closing
try:
    with closing(capture_all(capture, work_for([tool("claude")]), reports)) as captured:
        for number, done in enumerate(captured):
            if {how!r} in ("interrupt", "report") and not number:
                os.kill(os.getpid(), signal.SIGINT)
            if {how!r} == "wait" and not number:
                print("begun", flush=True)
                sys.stdin.read()
except KeyboardInterrupt:
    if {how!r} != "report":
        raise
print(json.dumps({{"created": reports.tools["claude"].created, "messages": reports.tools["claude"].messages,
                  "again": all(map(capture.unchanged, [t for _, t in work_for([tool("claude")])]))}}))
"""


def run_workers(home: Path, how: str = "") -> subprocess.CompletedProcess[str]:
    (home / "killed").mkdir(exist_ok=True)
    command = [sys.executable, "-c", _WORKERS.format(how=how)]
    environ = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, timeout=60, check=False)


def many(home: Path) -> Work:
    projects = home / ".claude" / "projects" / "p"
    projects.mkdir(parents=True)
    for number in range(30):
        script_of(number, turns=1 + number % 5).save(projects)
    tool = ClaudeCode(str(home), {})
    return [(tool, transcript) for transcript in tool.transcripts()]


@pytest.fixture
def thirty(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A home with thirty transcripts, and the sessions that they become one by one."""
    work = many(tmp_path / "home")
    one_by_one(capture_in(tmp_path / "single"), work)
    yield tmp_path / "home", tmp_path / "single"


def home_store(home: Path) -> Path:
    return home / ".local" / "share" / "cortext" / "home"


@pytest.mark.req("TOOL-03", "STORE-03")
@pytest.mark.parametrize("accident", ["", "kill"])
def test_several_processes_make_the_same_sessions_even_if_killed(thirty: tuple[Path, Path], accident: str) -> None:
    home, single = thirty
    done = run_workers(home, accident)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["again"] and (accident or report == {"created": 30, "messages": 30 * 15, "again": True})
    assert tree(home_store(home)) == tree(single)
    assert not (home_store(home) / ".workspace" / "state" / "incoming").exists()


@pytest.mark.req("TOOL-03", "STORE-03")
def test_ctrl_c_leaves_complete_sessions_and_the_next_run_continues(thirty: tuple[Path, Path]) -> None:
    home, single = thirty
    done = run_workers(home, "interrupt")
    assert "KeyboardInterrupt" in done.stderr
    expected = tree(single)
    published = tree(home_store(home))
    assert len(published) > 0 and all(expected[name] == value for name, value in published.items())
    assert run_workers(home).returncode == 0
    assert tree(home_store(home)) == expected
    assert not (home_store(home) / ".workspace" / "state" / "incoming").exists()


@pytest.mark.req("TOOL-03")
def test_after_ctrl_c_the_report_counts_every_published_session(thirty: tuple[Path, Path]) -> None:
    home, _ = thirty
    done = run_workers(home, "report")
    assert done.returncode == 0, done.stderr
    published = list((home_store(home) / "conversations").glob("*/*/.session/session.json"))
    assert json.loads(done.stdout)["created"] == len(published) > 0


@pytest.mark.req("TOOL-03")
def test_a_full_disk_for_the_catalogue_loses_no_session(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(Catalogue, "put_all", full)
    capture = capture_in(world / "batch")
    reports = all_of(capture, work_in(world / "home"))
    assert reports.tools["claude"].created == 8 and not reports.tools["claude"].failed
    [trouble] = reports.notes
    assert "disk is full" in trouble and "kept" in trouble


@pytest.mark.req("TOOL-03", "STORE-03")
def test_workers_end_when_the_parent_process_is_killed(thirty: tuple[Path, Path]) -> None:
    home, single = thirty
    (home / "killed").mkdir()
    environ = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _WORKERS.format(how="wait")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=home, env=environ, stdin=pipe, stdout=pipe, start_new_session=True) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"begun\n"
        begun.send_signal(signal.SIGKILL)
        assert begun.stdout.read() == b"", "the pipe closes when the last process has ended"
    assert run_workers(home).returncode == 0
    assert tree(home_store(home)) == tree(single)


def test_a_small_import_starts_no_other_process(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a fork"))
    assert all_of(capture_in(world / "batch"), work_in(world / "home")).tools["claude"].created == 8


def test_the_injected_context_block_is_not_captured(tmp_path: Path) -> None:
    script = script_of(1, turns=1)
    script.user("[RESUMED CONVERSATION]\nwhat was said before")
    (tmp_path / "p").mkdir()
    transcript = script.save(tmp_path / "p")
    capture = capture_in(tmp_path / "batch")
    all_of(capture, [(ClaudeCode(str(tmp_path), {}), transcript)])
    found: list[Message] = list(capture.home.store.read(f"claude-{key(1)}"))
    assert len(found) == 5 and not [message for message in found if "RESUMED" in message.content]
