"""The provider that a written session names: the user's setting, else what his own sessions say, else Codex's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.tools.codex.adapter import Codex

SAID = [Message(id="m1", role="user", content="hello"), Message(id="m2", role="assistant", content="hi")]


def _written(home: Path) -> str:
    written = Codex(str(home), {}).write(SAID, project=str(home))
    with open(written.path, encoding="utf-8") as file:
        return str(json.loads(file.readline())["payload"]["model_provider"])


@pytest.mark.req("FLOW-09")
def test_the_provider_is_the_one_that_is_used_here(tmp_path: Path) -> None:
    assert _written(tmp_path) == "openai", "nothing is known, and our own sessions tell nothing"
    day = tmp_path / ".codex/sessions/2026/01/02"
    day.mkdir(parents=True)
    thread = "01a1e633-d1e1-73f3-850f-321fcecf18e4"
    meta = {"id": thread, "timestamp": "2026-01-02T03:04:05Z", "cwd": "/tmp", "model_provider": "theirs"}
    line = json.dumps({"timestamp": meta["timestamp"], "type": "session_meta", "payload": meta})
    (day / f"rollout-2026-01-02T03-04-05-{thread}.jsonl").write_text(line + "\n", encoding="utf-8")
    assert _written(tmp_path) == "theirs"
    settings = tmp_path / ".codex/config.toml"
    settings.write_text('model_provider = "mine"\n', encoding="utf-8")
    assert _written(tmp_path) == "mine"
    settings.write_text('model_provider = "mine"\nprofile = "work"\n[profiles.work]\nmodel_provider = "firm"\n')
    assert _written(tmp_path) == "firm"
    settings.write_text("model_provider = [broken\n", encoding="utf-8")
    assert _written(tmp_path) == "theirs", "a file that cannot be read is Codex's to complain about"
