"""What a packet and a plan are printed without: modules that cost more to import than the whole answer to compute."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cortext.model.message import Message, Part
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from tests.support.cli import Ran, run

# Each takes between 0.5 and 12 ms.
HEAVY = (
    "asyncio", "dataclasses", "email", "gettext", "hashlib", "heapq", "importlib.metadata", "importlib.resources",
    "inspect", "locale", "logging", "numpy", "pathlib", "pickle", "platform", "random", "shutil", "subprocess",
    "tempfile", "textwrap", "threading", "tomllib", "traceback", "typing_extensions", "unicodedata", "urllib",
    "zipfile",
)  # fmt: skip
# Compiling a text takes 2 ms the first time; typing and msgspec do so for each annotation that is one.
COUNTED = """
import builtins, sys
before = set(sys.modules)
compile, compiled = builtins.compile, []
def counted(source, *given, **named):
    if isinstance(source, str):  # a module that has no compiled file yet comes as bytes
        compiled.append(source)
    return compile(source, *given, **named)
builtins.compile = counted
from cortext.faces.cortext.main import run
status = run(sys.argv[1:])
print(sorted(set(sys.modules) - before), compiled, sep="\\n", file=sys.stderr)
sys.exit(status)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / ".workspace").mkdir(parents=True)
    store = WorkspaceStore(str(made))
    store.create(Session(id="001-plan-x", type="plan", title="X", created_at="2026-11-15T10:00:00Z"))
    for number in range(20):
        call = Part(type="tool_call", id=f"c{number}", name="Read", input={"file_path": "src/retry_budget.py"})
        store.append(
            "001-plan-x",
            Message(role="user", content="What is the retry budget?"),
            Message(role="assistant", content="Let us look.", parts=[call]),
            Message(role="tool", parts=[Part(type="tool_result", call_id=call.id, output="größer → 3")]),
            Message(role="assistant", content="Three tries."),
        )
    assert _cortext(made, "list").code == 0  # from now on nothing has to be read again
    return made


def _cortext(folder: Path, *words: str) -> Ran:
    return run([sys.executable, "-c", COUNTED, *words], cwd=folder)


@pytest.mark.req("SESS-004a")
@pytest.mark.parametrize("options", [["--print"], ["--print", "--tokens", "800"]], ids=" ".join)
def test_it_imports_nothing_heavy(folder: Path, options: list[str]) -> None:
    ran = _cortext(folder, "resume", "001", *options)
    assert ran.code == 0, ran.err
    assert "retry budget" in ran.out
    modules, compiled = ran.err.strip().splitlines()[-2:]
    assert [name for name in HEAVY if f"'{name}'" in modules] == []
    assert compiled == "[]"


@pytest.mark.req("SESS-004a")
def test_half_a_surrogate_pair_is_told_as_json(folder: Path) -> None:
    WorkspaceStore(str(folder)).append("001-plan-x", Message(role="user", content="broken \ud800 here"))
    ran = _cortext(folder, "resume", "001", "--print", "--json")
    assert ran.code == 0, ran.err
    assert "broken \ud800 here" in json.loads(ran.out)["packet"]


def test_argparse_speaks_without_gettext_and_others_get_the_real_one(folder: Path) -> None:
    code = "import gettext; assert gettext.translation; import argparse; print(argparse._('usage: '))"
    ran = run([sys.executable, "-c", COUNTED.replace("sys.exit(status)", code), "list"], cwd=folder)
    assert (ran.out.splitlines()[-1], ran.code) == ("usage: ", 0), ran.err
    wrong = _cortext(folder, "resume", "--nonsense")
    assert wrong.code == 2
    assert "unrecognized arguments: --nonsense" in wrong.err
