"""Import by the lot and by several processes: the same sessions as one by one, and nothing half there."""

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
from cortext.services.capture.capture import Capture, ToolReport
from cortext.services.capture.first_reading import BATCH_MESSAGES
from cortext.services.capture.importing import capture_all
from cortext.services.library.stores import NamedStore
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.base import Transcript, TranscriptSource
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode.adapter import OpenCode
from tests.tools.claude_code.corpus import Script, a_whole_life, call
from tests.tools.codex import corpus as codex
from tests.tools.gemini_cli import corpus as gemini
from tests.tools.opencode.corpus import Corpus

ROOT = Path(__file__).parents[2]
Work = list[tuple[TranscriptSource, Transcript]]


def key(number: int) -> str:
    return f"0b5c8a52-6f3d-4a63-9d7e-{number:012d}"


def talk(number: int, turns: int = 3) -> Script:
    """A conversation with words, a thought, a call and a long result with signs beyond ASCII."""
    script = Script(key(number))
    for turn in range(turns):
        script.user(f"question {turn} of {number}")
        script.assistant({"type": "thinking", "thinking": "hm → so", "signature": "c2ln"}, answer=f"m{turn}", tokens=3)
        script.assistant(call(f"toolu_{turn}", command="ls"), answer=f"m{turn}", tokens=3)
        script.result(f"toolu_{turn}", f"     1→line {turn} ünï 漢字\n" * 200)
        script.assistant(f"answer {turn}", answer=f"n{turn}", tokens=9)
    return script


def fill(home: Path) -> Path:
    """Transcripts of every tool; those of Claude Code in every state. Where those are."""
    projects = home / ".claude" / "projects" / "p"
    projects.mkdir(parents=True)
    a_whole_life().save(projects)
    for number in range(5):
        talk(number, turns=1 + number).save(projects)
    talk(7, turns=BATCH_MESSAGES // 4).save(projects)  # more than one lot of messages
    odd = talk(8)
    odd.lines[2] += odd.lines[3]  # glued together
    odd.lines[5] = odd.lines[5][:60]  # torn
    odd.raw({"type": "never-seen", "uuid": "x"})
    odd.save(projects)
    sides = projects / key(0) / "subagents"
    sides.mkdir(parents=True)
    side = talk(0)
    side.user("aside")
    (sides / "agent-a1.jsonl").write_bytes(side.data().replace(b'"isSidechain":false', b'"isSidechain":true'))
    Script(key(9)).save(projects)  # nothing was said yet
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


def all_of(capture: Capture, work: Work) -> dict[str, ToolReport]:
    capture.remember_all()
    reports: dict[str, ToolReport] = {}
    assert sorted(done.key for done in capture_all(capture, work, reports)) == sorted(item.key for _, item in work)
    return reports


def one_by_one(capture: Capture, work: Work) -> dict[str, ToolReport]:
    reports: dict[str, ToolReport] = {}
    for tool, transcript in work:
        report = reports.setdefault(tool.name, ToolReport(tool=tool.name))
        report.transcripts += 1
        report.add(capture.capture(tool, transcript))
    return reports


def tree(folder: Path) -> dict[str, Any]:
    """Every file of the conversations; metadata as what it says, because the order of its keys says nothing."""
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
def test_the_same_files_as_one_by_one(world: Path) -> None:
    work = work_in(world / "home")
    single, lot = capture_in(world / "single"), capture_in(world / "lot")
    meant = one_by_one(single, work)
    assert all_of(lot, work) == meant
    assert tree(world / "lot") == tree(world / "single")
    assert entries(lot) == entries(single)
    assert meant["claude"].created == 8 and meant["claude"].messages > BATCH_MESSAGES
    assert meant["claude"].counts.unknown == {"never-seen": 1} and meant["claude"].counts.damaged
    assert meant["codex"].created == meant["opencode"].created == meant["gemini"].created == 1
    natives = [name for name in tree(world / "lot") if "/native" in name]
    assert len(natives) == 8 + 3 + 1, "with the file of the side agent"


@pytest.mark.req("TOOL-03")
def test_a_second_time_changes_nothing_and_only_what_is_new_is_added(world: Path) -> None:
    work = work_in(world / "home")
    capture = capture_in(world / "lot")
    all_of(capture, work)
    before = tree(world / "lot")
    again = all_of(capture, work)
    assert tree(world / "lot") == before
    assert (again["claude"].unchanged, again["claude"].created, again["claude"].messages) == (9, 0, 0)
    grown = talk(1, turns=2)
    grown.user("one more")
    grown.save(world / "home" / ".claude" / "projects" / "p")
    more = all_of(capture, work_in(world / "home"))["claude"]
    assert (more.updated, more.messages, more.created) == (1, 1, 0)


@pytest.mark.req("TOOL-03")
def test_without_the_catalogue_nothing_is_doubled(world: Path) -> None:
    work = work_in(world / "home")
    all_of(capture_in(world / "lot"), work)
    before = tree(world / "lot")
    for path in (world / "lot" / "cache").iterdir():
        path.unlink()
    again = all_of(capture_in(world / "lot"), work)["claude"]
    assert tree(world / "lot") == before
    assert (again.created, again.messages, again.failed) == (0, 0, [])


@pytest.mark.req("TOOL-03")
def test_what_belongs_to_a_workspace_goes_there(world: Path) -> None:
    pond = NamedStore("pond", "workspace", str(world / "pond"), WorkspaceStore(str(world / "pond")))
    pond.store.create(Session(id="brainstorm-001", origin=Origin(tool="claude", session_id=key(2))))
    capture = capture_in(world / "lot", pond)
    report = all_of(capture, work_in(world / "home"))["claude"]
    assert (report.created, report.updated) == (7, 1)
    assert next(iter(pond.store.read("brainstorm-001"))).content == "question 0 of 2"
    assert not [name for name in tree(world / "lot") if key(2) in name]


@pytest.mark.req("TOOL-03")
def test_one_that_cannot_be_read_stops_nothing(world: Path) -> None:
    work = work_in(world / "home")
    path = world / "home" / ".claude" / "projects" / "p" / f"{key(3)}.jsonl"
    path.unlink()
    bad = talk(4)
    bad.raw(json.loads(bad.lines[0]) | {"uuid": "late", "timestamp": "2026-99-99T99:99:99.999Z"})
    bad.save(path.parent)
    report = all_of(capture_in(world / "lot"), work)["claude"]
    assert report.created == 7
    assert [line.split(": ")[0].rpartition("/")[2] for line in report.failed] == [f"{key(3)}.jsonl"]
    assert report.counts.damaged["not a time"] == 1, "the record is kept, and what is odd about it is told"
    assert not (world / "lot" / ".workspace" / "state" / "incoming").exists()
    assert not [name for name in tree(world / "lot") if key(3) in name]


@pytest.mark.req("TOOL-03", "STORE-08")
def test_a_hook_that_was_quicker_keeps_its_session(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the lot is built, somebody takes in one of its transcripts; what they had not got yet is appended."""
    work = [item for item in work_in(world / "home") if item[1].key == key(4)]
    whole = Path(work[0][1].path).read_bytes()
    capture, hook = capture_in(world / "lot"), capture_in(world / "lot")
    copy = ClaudeCode.copy

    def quicker(self: ClaudeCode, *given: Any) -> None:
        copy(self, *given)
        monkeypatch.setattr(ClaudeCode, "copy", copy)
        Path(work[0][1].path).write_bytes(whole[: whole.rfind(b"\n", 0, -1) + 1])
        assert hook.capture(self, next(item for item in self.transcripts() if item.key == key(4))).created
        Path(work[0][1].path).write_bytes(whole)

    monkeypatch.setattr(ClaudeCode, "copy", quicker)
    report = all_of(capture, work)["claude"]
    assert (report.created, report.updated, report.messages, report.failed) == (0, 1, 1, [])
    messages = list(capture.home.store.read(f"claude-{key(4)}"))
    assert len(messages) == len({message.id for message in messages}) == 25


# ── several processes ────────────────────────────────────────────────────────────────────────────────

_CREW = """
import json, os, signal, sys
from cortext.services.capture import workers
from cortext.wiring.stores import Stores
from cortext.wiring.tools import tool
from cortext.services.capture.importing import capture_all
from cortext.services.capture.transcripts import work_for
workers.worker_count = lambda work: 2
capture_each, parent = workers.capture_each, os.getpid()
def killed(*given):
    yield from capture_each(*given)
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)  # it has published, and nobody was told
if {how!r} == "kill":
    workers.capture_each = killed
stores = Stores()
capture = stores.capture()
capture.remember_all()
reports = {{}}
from contextlib import closing
try:
    with closing(capture_all(capture, work_for([tool("claude")]), reports)) as captured:
        for number, done in enumerate(captured):
            if {how!r} in ("interrupt", "told") and not number:
                os.kill(os.getpid(), signal.SIGINT)
            if {how!r} == "wait" and not number:
                print("begun", flush=True)
                sys.stdin.read()
except KeyboardInterrupt:
    if {how!r} != "told":
        raise
print(json.dumps({{"created": reports["claude"].created, "messages": reports["claude"].messages,
                  "again": all(map(capture.unchanged, [t for _, t in work_for([tool("claude")])]))}}))
"""


def crew(home: Path, how: str = "") -> subprocess.CompletedProcess[str]:
    (home / "killed").mkdir(exist_ok=True)
    command = [sys.executable, "-c", _CREW.format(how=how)]
    environ = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, timeout=60, check=False)


def many(home: Path) -> Work:
    projects = home / ".claude" / "projects" / "p"
    projects.mkdir(parents=True)
    for number in range(30):
        talk(number, turns=1 + number % 5).save(projects)
    tool = ClaudeCode(str(home), {})
    return [(tool, transcript) for transcript in tool.transcripts()]


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A home with thirty transcripts, and what they become one by one."""
    work = many(tmp_path / "home")
    one_by_one(capture_in(tmp_path / "single"), work)
    yield tmp_path / "home", tmp_path / "single"


def home_store(home: Path) -> Path:
    return home / ".local" / "share" / "cortext" / "home"


@pytest.mark.req("TOOL-03", "STORE-03")
@pytest.mark.parametrize("accident", ["", "kill"])
def test_several_processes_make_the_same_sessions_and_what_a_killed_one_leaves_is_done_by_us(
    crowd: tuple[Path, Path], accident: str
) -> None:
    home, single = crowd
    done = crew(home, accident)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["again"] and (accident or told == {"created": 30, "messages": 30 * 15, "again": True})
    assert tree(home_store(home)) == tree(single)
    assert not (home_store(home) / ".workspace" / "state" / "incoming").exists()


@pytest.mark.req("TOOL-03", "STORE-03")
def test_ctrl_c_leaves_whole_sessions_and_the_next_run_goes_on(crowd: tuple[Path, Path]) -> None:
    home, single = crowd
    done = crew(home, "interrupt")
    assert "KeyboardInterrupt" in done.stderr
    meant = tree(single)
    so_far = tree(home_store(home))
    assert len(so_far) > 0 and all(meant[name] == value for name, value in so_far.items())
    assert crew(home).returncode == 0
    assert tree(home_store(home)) == meant
    assert not (home_store(home) / ".workspace" / "state" / "incoming").exists()


@pytest.mark.req("TOOL-03")
def test_after_ctrl_c_the_report_counts_every_session_that_was_published(crowd: tuple[Path, Path]) -> None:
    home, _ = crowd
    done = crew(home, "told")
    assert done.returncode == 0, done.stderr
    published = list((home_store(home) / "conversations").glob("*/*/.session/session.json"))
    assert json.loads(done.stdout)["created"] == len(published) > 0


@pytest.mark.req("TOOL-03")
def test_a_full_disk_under_the_catalogue_costs_no_session(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(Catalogue, "put_all", full)
    capture = capture_in(world / "lot")
    reports = all_of(capture, work_in(world / "home"))
    assert reports["claude"].created == 8 and not reports["claude"].failed
    assert "disk is full" in capture.trouble and "kept" in capture.trouble


@pytest.mark.req("TOOL-03", "STORE-03")
def test_the_others_end_when_the_one_that_began_them_is_killed(crowd: tuple[Path, Path]) -> None:
    home, single = crowd
    (home / "killed").mkdir()
    environ = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _CREW.format(how="wait")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=home, env=environ, stdin=pipe, stdout=pipe, start_new_session=True) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"begun\n"
        begun.send_signal(signal.SIGKILL)
        assert begun.stdout.read() == b"", "ends when the last that holds it has ended"
    assert crew(home).returncode == 0
    assert tree(home_store(home)) == tree(single)


def test_little_work_needs_no_other_process(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a fork"))
    assert all_of(capture_in(world / "lot"), work_in(world / "home"))["claude"].created == 8


def test_words_of_ours_are_left_out(tmp_path: Path) -> None:
    script = talk(1, turns=1)
    script.user("[RESUMED CONVERSATION]\nwhat was said before")
    (tmp_path / "p").mkdir()
    transcript = script.save(tmp_path / "p")
    capture = capture_in(tmp_path / "lot")
    all_of(capture, [(ClaudeCode(str(tmp_path), {}), transcript)])
    found: list[Message] = list(capture.home.store.read(f"claude-{key(1)}"))
    assert len(found) == 5 and not [message for message in found if "RESUMED" in message.content]
