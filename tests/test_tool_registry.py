"""Adapters of other packages are found through their entry points, and a broken one never stops a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import pytest

from cortext.faces.cortext.main import run
from cortext.services.workspace import installed_tools
from cortext.tools import registry
from cortext.tools.base import Headless, Hooks, Installer, NativeWriter, TranscriptSource, proof_of
from cortext.tools.shared.parts import LazyPart
from tests.index.world import World
from tests.support.cli import cortext
from tests.support.desk import NAMES
from tests.tools import matrix_data

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.req("LIB-02")

# A tool that keeps each conversation as a text file with one message per line.
NOTES = """
import os
from cortext.model.message import Message
from cortext.tools.base import About, Counts, Detected, Transcript


class Reading:
    def __init__(self, path):
        self.path, self.about, self.counts, self.cursor = path, About(title="Herons"), Counts(), None

    def __iter__(self):
        with open(self.path) as file:
            for number, line in enumerate(file):
                yield Message(role="assistant" if number % 2 else "user", content=line.strip(), id=f"m{number}")


class Notes:
    name, title, tested_version = "notes", "Notes", "1"

    def __init__(self):
        self.folder = os.path.join(os.environ["HOME"], "notes")

    def detect(self):
        return Detected(program=self.folder, version="1", tested=True) if os.path.isdir(self.folder) else None

    def transcripts(self, project=None):
        for name in os.listdir(self.folder) if os.path.isdir(self.folder) else ():
            yield self.transcript_at(os.path.join(self.folder, name))

    def transcript_at(self, path):
        if not path.endswith(".note"):
            return None
        status = os.stat(path)
        key = os.path.basename(path)
        return Transcript(tool="notes", key=key, path=path, size=status.st_size, changed=status.st_mtime_ns)

    def read(self, transcript, cursor=None):
        return Reading(transcript.path)

    def copy(self, transcript, target, later=None):
        from cortext.io import new_files

        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(transcript.path, target, later)
"""


def install(site: Path, name: str, value: str, module: str = "") -> None:
    """Create a package with one adapter, as pip would install it."""
    package = value.partition(":")[0]
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[cortext.tools]\n{name} = {value}\n")
    if module:
        (site / f"{package}.py").write_text(module)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder in which every command looks for packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_the_built_in_adapters_write_and_four_have_all_capabilities() -> None:
    for name in registry.BUILT_IN:
        tool = registry.load(name)
        assert isinstance(tool, NativeWriter), name
        for capability in (Installer, Hooks, Headless) if name in NAMES else ():
            assert isinstance(tool, capability), (name, capability)


def test_the_parts_of_every_adapter_have_the_methods_that_it_forwards() -> None:
    for name in (*registry.BUILT_IN, *registry.READERS):
        members = {
            each: getattr(type(registry.load(name)), each)
            for each in dir(type(registry.load(name)))
            if each[:2] != "__"
        }
        parts = [member.load() for member in members.values() if isinstance(member, LazyPart)]
        for each, member in members.items():
            if hasattr(member, "__wrapped__"):
                found = [list(signature(getattr(part, each)).parameters) for part in parts if hasattr(part, each)]
                assert list(signature(member).parameters) in found, (name, each)


@pytest.mark.req("TOOL-07")
def test_the_readers_are_marked_as_tested_with_the_program_or_with_samples() -> None:
    for name in registry.READERS:
        tool = registry.load(name)
        assert isinstance(tool, TranscriptSource), name
        assert not isinstance(tool, NativeWriter | Installer | Hooks | Headless), name
        assert proof_of(tool) in ("program", "samples"), name
        assert bool(tool.tested_version) or proof_of(tool) == "samples", name


@pytest.mark.req("TOOL-07")
def test_a_reader_is_named_where_it_can_be_used_and_refused_where_it_cannot(home: Path) -> None:
    assert "cursor" in cortext("import", "--help").out
    assert "cursor" not in cortext("resume", "--help").out
    refused = cortext("resume", "--ai", "cursor", "x")
    assert refused.code == 2
    assert "can read conversations of Cursor, but not resume one there" in refused.err
    assert cortext("resume", "--ai", "nothing", "x").code == 2


def test_tools_that_are_not_here_are_named_on_one_line(home: Path) -> None:
    (home / ".factory/sessions/x").mkdir(parents=True)
    (home / ".factory/sessions/x/a.jsonl").write_text('{"type": "session_start", "id": "a", "cwd": "/work"}\n')
    lines = cortext("tools", env={"PATH": "/nowhere"}).out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["droid", "Not", "Tested"]
    assert lines[1].split() == ["droid", "Droid", "not", "installed", "with", "samples", "1", "read", "-"]
    assert "claude, gemini" in lines[2] and "amp" in lines[2] and "droid" not in lines[2]
    listed = cortext("tools", "--json", env={"PATH": "/nowhere"}).json
    assert [row["name"] for row in listed] == [*registry.BUILT_IN, *registry.READERS]
    assert {row["tested_with"] for row in listed} == {"program", "samples"}


def test_tools_says_what_is_supported_and_which_pairs_were_proven(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / ".claude/projects/-work"
    folder.mkdir(parents=True)
    (folder / "5a1b0c6e-0000-4000-8000-000000000001.jsonl").write_text("{}\n")
    pairs = home / "pairs.json"
    rows = [
        Run("claude", "claude", True),
        Run("claude", "qwen", True),
        Run("claude", "qwen", False),  # in the other home
        Run("qwen", "claude", True, "2026-11-18"),
    ]
    matrix_data.write(rows, pairs)
    monkeypatch.setattr(installed_tools, "PAIRS", str(pairs))
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["tools", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["claude"]["supported"] == ["read", "resume", "hooks"]
    assert (listed["aider"]["supported"], listed["droid"]["supported"]) == (["read", "resume"], ["read"])
    code = installed_tools.code_of("claude")
    counts = {"run_from": 2, "passed_from": 1, "run_to": 2, "passed_to": 2}
    assert listed["claude"]["pairs"] == {"version": "1", "date": "2026-11-18", "code": code, **counts}
    assert listed["pi"]["pairs"] is None
    assert run(["tools"]) == 0
    lines = capsys.readouterr().out.splitlines()
    claude = next(line for line in lines if line.startswith("claude"))
    assert claude.split()[-4:] == ["read,", "resume,", "hooks", "1/2"]
    assert "3 of 144 pairs, 2 passed, last on 2026-11-18" in lines[-1]


class Run(NamedTuple):
    """A row of the matrix of pairs."""

    source: str
    target: str
    passed: bool
    date: str = "2026-11-17"
    versions: tuple[str, ...] = ("1", "1")
    is_older: bool = False


def test_the_pairs_that_ship_are_of_the_tested_versions() -> None:
    for name, pairs in installed_tools.proven_pairs().items():
        assert pairs.version == registry.load(name).tested_version, name
        assert pairs.run_from + pairs.run_to > 0
        assert pairs.passed_from <= pairs.run_from <= len(registry.BUILT_IN) >= pairs.run_to >= pairs.passed_to


def test_a_list_loads_no_adapter(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.talk("one", "Hello")  # with nothing stored, a list looks what the tools have
    loaded = "import sys; from cortext.faces.cortext.main import run; run(['list']); "
    loaded += "print([name for name in sys.modules if name.startswith('cortext.tools.') and name.endswith('adapter')])"
    done = subprocess.run([sys.executable, "-c", loaded], cwd=world.root, capture_output=True, text=True, check=False)
    assert "[]" in done.stdout.splitlines(), done.stdout + done.stderr


def test_a_read_only_tool_works_everywhere_but_cannot_be_resumed_in(site: Path, home: Path) -> None:
    install(site, "notes", "cortext_notes:Notes", NOTES)
    (home / "notes").mkdir()
    (home / "notes" / "a.note").write_text("How many herons?\nSeventeen herons.\n")
    listed = {row["name"]: row for row in cortext("tools", "--json").json}
    assert listed["notes"]["conversations"] == 1
    assert cortext("import").code == 0
    (home / "notes" / "a.note").write_text("How many herons?\nSeventeen herons.\nAnd storks?\n")
    assert cortext("sync").code == 0
    assert [row["title"] for row in cortext("list", "--tool", "notes", "--json").json] == ["Herons"]
    assert "Seventeen herons" in cortext("search", "seventeen").out
    assert "And storks?" in cortext("show", "herons").out
    assert cortext("sweep").code == 0
    assert cortext("doctor").code == 0
    assert "How many herons?" in cortext("resume", "herons", "--print").out
    refused = cortext("resume", "herons", "--ai", "notes")
    assert refused.code == 2
    assert "can read conversations of Notes, but not resume one there" in refused.err
    assert f"--ai ({', '.join(registry.BUILT_IN)})" in refused.err
    assert "--print" in refused.err
    # Without --ai it is as if it had been held nowhere: any tool that is installed will do, here none.
    assert "no AI tool is installed here" in cortext("resume", "herons").err
    refused = cortext("init", "--ai", "notes", cwd=home / "notes")
    assert refused.code == 2
    assert "nothing to set up in a workspace for Notes" in refused.err
    assert not (home / "notes" / ".workspace").exists()
    refused = cortext("export", "herons", "--format", "native", "--ai", "notes")
    assert refused.code == 2


def test_an_export_takes_the_tool_that_a_resume_would_take(
    site: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "notes", "cortext_notes:Notes", NOTES)
    (home / "notes").mkdir()
    (home / "notes" / "a.note").write_text("How many herons?\nSeventeen herons.\n")
    assert cortext("import").code == 0
    without = cortext("export", "herons", "--format", "native")
    assert without.code == 0 and "/.claude/" in without.out, "none is installed here"
    monkeypatch.setenv("CORTEXT_RESUME_TOOL", "gemini")
    chosen = cortext("export", "herons", "--format", "native")
    assert chosen.code == 0 and "/.gemini/" in chosen.out


def test_a_tool_without_a_version_is_listed_as_installed(site: Path, home: Path) -> None:
    install(site, "notes", "cortext_notes:Notes", NOTES.replace('version="1", tested=True', 'version="", tested=False'))
    assert "notes" in _line_of("Not")
    (home / "notes").mkdir()
    assert _line_of("notes").split() == ["notes", "Notes", "unknown", "no", "(1", "is)", "0", "read", "-"]
    listed = {row["name"]: row for row in cortext("tools", "--json").json}
    assert (listed["notes"]["version"], listed["notes"]["tested"]) == ("unknown", False)


def _line_of(tool: str) -> str:
    return next(line for line in cortext("tools").out.splitlines() if line.split()[0] == tool)


def test_a_conversation_of_a_read_only_tool_resumes_in_another_tool(site: Path, home: Path) -> None:
    install(site, "notes", "cortext_notes:Notes", NOTES)
    (home / "notes").mkdir()
    (home / "notes" / "a.note").write_text("How many herons?\nSeventeen herons.\n")
    assert cortext("import").code == 0
    planned = cortext("resume", "herons", "--ai", "claude", "--dry-run", "--json").json
    assert planned["receipt"]["messages"] == 2
    planned = cortext("resume", "herons", "--dry-run", "--json", env={"CORTEXT_RESUME_TOOL": "claude"}).json
    assert planned["receipt"]["target"] == "claude"


@pytest.mark.parametrize(
    ("value", "module", "why"),
    [
        ("cortext_gone:Gone", "", "ModuleNotFoundError"),
        ("cortext_bad:Bad", "raise RuntimeError('of no use')", "of no use"),
        ("cortext_odd:Odd", "class Odd:\n    name = title = 'odd'", "lacks copy, detect, read"),
        ("cortext_name:Notes", NOTES, "calls itself 'notes'"),
    ],
)
def test_a_broken_adapter_is_reported_in_one_line(site: Path, home: Path, value: str, module: str, why: str) -> None:
    install(site, "broken", value, module)
    done = cortext("import")
    assert done.code == 0
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("cortext: the adapter 'broken'")
    assert why in done.err
    assert "broken" not in {row["name"] for row in cortext("tools", "--json").json}
    refused = cortext("import", "--from", "broken")
    assert refused.code != 0
    assert why in refused.err
    assert "Traceback" not in refused.err


def test_an_adapter_that_fails_when_it_is_asked_stops_nothing(site: Path, home: Path) -> None:
    fails = NOTES.replace("        return Detected(", "        raise RuntimeError('no idea')\n        return Detected(")
    lists = "        for name in os.listdir"
    fails = fails.replace(lists, f"        raise RuntimeError('of no use')\n{lists}")
    install(site, "notes", "cortext_notes:Notes", NOTES)
    (home / "notes").mkdir()
    (home / "notes" / "a.note").write_text("How many herons?\nSeventeen herons.\n")
    assert cortext("import").code == 0
    (site / "cortext_notes.py").write_text(fails)
    listed = cortext("tools", "--json")
    assert listed.err == "cortext: notes: cannot list its conversations: of no use\n"
    assert len(listed.json) == len(registry.BUILT_IN | registry.READERS) + 1
    done = cortext("import")
    assert done.code == 3
    assert "of no use" in done.out
    assert "of no use" in cortext("doctor").out
    for words in (("resume", "herons", "--print"), ("resume", "herons", "--ai", "claude", "--dry-run")):
        done = cortext(*words)
        assert done.code == 0, words
        assert "Traceback" not in done.err, words


def test_a_built_in_adapter_wins_over_one_of_the_same_name(site: Path) -> None:
    install(site, "claude", "cortext_notes:Notes", NOTES)
    done = cortext("tools", "--json")
    assert "'claude' (cortext_notes:Notes) is ignored" in done.err
    assert len(done.err.splitlines()) == 1
    assert [row["title"] for row in done.json if row["name"] == "claude"] == ["Claude Code"]


def test_an_adapter_with_an_invalid_name_is_ignored(site: Path) -> None:
    install(site, "No/tes", "cortext_notes:Notes", NOTES)
    done = cortext("tools", "--json")
    assert "lower-case" in done.err
    assert len(done.json) == len(registry.BUILT_IN | registry.READERS)


def test_a_conversation_survives_the_removal_of_its_adapter(site: Path, home: Path) -> None:
    install(site, "notes", "cortext_notes:Notes", NOTES)
    (home / "notes").mkdir()
    (home / "notes" / "a.note").write_text("How many herons?\nSeventeen herons.\n")
    assert cortext("import").code == 0
    gone = {"PYTHONPATH": os.devnull}
    assert "Seventeen" in cortext("show", "herons", env=gone).out
    planned = cortext("resume", "herons", "--ai", "claude", "--dry-run", "--json", env=gone)
    assert json.loads(planned.out)["receipt"]["messages"] == 2


def test_help_and_completion_include_installed_adapters(site: Path) -> None:
    install(site, "notes", "cortext_notes:Notes", NOTES)
    names = [*registry.BUILT_IN, "notes"]
    assert ",".join(names) in "".join(cortext("resume", "--help").out.split())
    words = cortext("complete-words", "resume", "--ai", "").out.split()
    assert words == names
