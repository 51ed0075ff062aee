"""The provider of a written session: from the settings, else from the user's own sessions, else the default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.tools.codex.adapter import Codex

MESSAGES = [Message(id="m1", role="user", content="hello"), Message(id="m2", role="assistant", content="hi")]


def _provider_written(home: Path) -> str:
    written = Codex(str(home), {}).write(MESSAGES, project=str(home))
    with open(written.path, encoding="utf-8") as file:
        return str(json.loads(file.readline())["payload"]["model_provider"])


@pytest.mark.req("FLOW-09")
def test_the_provider_comes_from_settings_then_sessions(tmp_path: Path) -> None:
    assert _provider_written(tmp_path) == "openai", "the default: sessions that we wrote do not count"
    day = tmp_path / ".codex/sessions/2026/01/02"
    day.mkdir(parents=True)
    thread = "01a1e633-d1e1-73f3-850f-321fcecf18e4"
    meta = {"id": thread, "timestamp": "2026-01-02T03:04:05Z", "cwd": "/tmp", "model_provider": "theirs"}
    line = json.dumps({"timestamp": meta["timestamp"], "type": "session_meta", "payload": meta})
    (day / f"rollout-2026-01-02T03-04-05-{thread}.jsonl").write_text(line + "\n", encoding="utf-8")
    assert _provider_written(tmp_path) == "theirs"
    settings = tmp_path / ".codex/config.toml"
    settings.write_text('model_provider = "mine"\n', encoding="utf-8")
    assert _provider_written(tmp_path) == "mine"
    settings.write_text('model_provider = "mine"\nprofile = "work"\n[profiles.work]\nmodel_provider = "firm"\n')
    assert _provider_written(tmp_path) == "firm"
    settings.write_text("model_provider = [broken\n", encoding="utf-8")
    assert _provider_written(tmp_path) == "theirs", "unreadable settings are ignored"
