"""The provider of a written session is the current one; one held with another is not opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.tools.codex.adapter import Codex

MESSAGES = [Message(id="m1", role="user", content="hello"), Message(id="m2", role="assistant", content="hi")]
THREAD = "01a1e633-d1e1-73f3-850f-321fcecf18e4"


def _provider_written(home: Path) -> str:
    written = Codex(str(home), {}).write(MESSAGES, project=str(home))
    with open(written.path, encoding="utf-8") as file:
        return str(json.loads(file.readline())["payload"]["model_provider"])


def _session(home: Path, *applied: str) -> Path:
    """Write a session of Codex that was started with the provider `theirs`, and continued with these."""
    day = home / ".codex/sessions/2026/01/02"
    day.mkdir(parents=True, exist_ok=True)
    time = {"timestamp": "2026-01-02T03:04:05Z"}
    meta = {"id": THREAD, **time, "cwd": "/tmp", "model_provider": "theirs"}
    lines: list[dict[str, object]] = [{**time, "type": "session_meta", "payload": meta}]
    for provider in applied:
        event = {"type": "thread_settings_applied", "thread_settings": {"model_provider_id": provider}}
        lines.append({**time, "type": "event_msg", "payload": event})
    path = day / f"rollout-2026-01-02T03-04-05-{THREAD}.jsonl"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    return path


def _refusal(home: Path, path: Path) -> str:
    codex = Codex(str(home), {})
    transcript = codex.transcript_at(str(path))
    assert transcript is not None
    return codex.refusal(transcript)


@pytest.mark.req("FLOW-09", "TRUE-01")
def test_the_provider_is_that_of_the_settings_never_a_removed_one(tmp_path: Path) -> None:
    assert _provider_written(tmp_path) == "openai", "the default"
    _session(tmp_path)
    assert _provider_written(tmp_path) == "openai", "one that left the settings would not be accepted"
    settings = tmp_path / ".codex/config.toml"
    settings.write_text('model_provider = "mine"\n', encoding="utf-8")
    assert _provider_written(tmp_path) == "mine"
    settings.write_text('model_provider = "mine"\nprofile = "work"\n[profiles.work]\nmodel_provider = "firm"\n')
    assert _provider_written(tmp_path) == "firm"
    settings.write_text("model_provider = [broken\n", encoding="utf-8")
    assert _provider_written(tmp_path) == "openai", "unreadable settings are ignored"


@pytest.mark.req("TRUE-01")
def test_a_session_is_refused_unless_its_last_provider_is_current(tmp_path: Path) -> None:
    settings = tmp_path / ".codex/config.toml"
    path = _session(tmp_path)
    assert "'theirs'" in _refusal(tmp_path, path) and "'openai'" in _refusal(tmp_path, path)
    settings.write_text('model_provider = "theirs"\n', encoding="utf-8")
    assert _refusal(tmp_path, path) == ""
    path = _session(tmp_path, "other", "mine")
    assert "'mine'" in _refusal(tmp_path, path), "the newest settings of the session count"
    settings.write_text('model_provider = "mine"\n[model_providers.theirs]\n', encoding="utf-8")
    assert _refusal(tmp_path, path) == ""
    settings.write_text("model_provider = [broken\n", encoding="utf-8")
    assert _refusal(tmp_path, path) == "", "Codex reports unreadable settings itself"
