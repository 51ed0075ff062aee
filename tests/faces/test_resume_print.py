"""`resume --print`: the packet as text and as JSON, and usage errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.model.message import Message, Part
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from tests.support.cli import cortext


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
    assert cortext("list", cwd=made).code == 0  # builds the list, so that nothing has to be read again
    return made


@pytest.mark.req("SESS-004a")
@pytest.mark.parametrize("options", [["--print"], ["--print", "--tokens", "800"]], ids=" ".join)
def test_it_prints_the_packet(folder: Path, options: list[str]) -> None:
    ran = cortext("resume", "001", *options, cwd=folder)
    assert ran.code == 0, ran.err
    assert "retry budget" in ran.out


@pytest.mark.req("SESS-004a")
def test_half_a_surrogate_pair_survives_as_json(folder: Path) -> None:
    WorkspaceStore(str(folder)).append("001-plan-x", Message(role="user", content="broken \ud800 here"))
    ran = cortext("resume", "001", "--print", "--json", cwd=folder)
    assert ran.code == 0, ran.err
    assert "broken \ud800 here" in json.loads(ran.out)["packet"]


def test_an_unknown_option_is_a_usage_error(folder: Path) -> None:
    ran = cortext("resume", "--nonsense", cwd=folder)
    assert ran.code == 2
    assert "unrecognized arguments: --nonsense" in ran.err
