"""Conversations as Mistral Vibe 3.0.2 stores them: a folder of Vibe 2, and a session of Vibe 3."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

KEY = "0b8c4f2e-1111-4222-8333-944455556666"
UNIFIED = "cdd67122-12d1-14a8-e6da-d070e6cf52bb"
PROJECT = "/work/pond"
FOLDER = f"session_20261102_080000_{KEY[:8]}"

Json = dict[str, Any]


def encoded(value: Any) -> bytes:
    """Return a value as Vibe writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def call(key: str, name: str, **arguments: str) -> Json:
    """Return a call of Vibe 2."""
    return {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


LINES = tuple(
    encoded(line)
    for line in (
        {"role": "system", "content": "You are Vibe."},
        {"role": "user", "content": "/workspace-plan Ünïcode: 答え", "message_id": "m1"},
        {
            "role": "assistant",
            "content": "Two at once.",
            "reasoning_content": "hm",
            "tool_calls": [call("c1", "bash", command="cat a"), call("c2", "read", path="/nope")],
            "message_id": "m2",
        },
        {"role": "tool", "content": "the heron", "name": "bash", "tool_call_id": "c1"},
        {"role": "tool", "content": "no such file", "name": "read", "tool_call_id": "c2"},
        {"role": "user", "content": "Remember the plan.", "injected": True},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": [{"type": "text", "text": "And storks?"}]},
    )
)
MESSAGES = (
    ("user", "/workspace-plan Ünïcode: 答え"),
    ("assistant", "Two at once."),
    ("tool", "the heron"),
    ("tool", "no such file"),
    ("assistant", "Done."),
    ("user", "And storks?"),
)


def meta(key: str, title: str | None = "Herons") -> bytes:
    """Return a `meta.json`."""
    fields = {"start_time": "2026-11-17T13:11:18.628000+00:00", "environment": {"working_directory": PROJECT}}
    return encoded({"session_id": key, "title": title, "config": {"model_name": "test-model"}, **fields})


# ── Vibe 3 ───────────────────────────────────────────────────────────────────────────────────────────


def text(words: str) -> list[Json]:
    """Return the content of a message."""
    return [{"type": "text", "text": words}]


def entry(role: str, identity: str, words: str) -> Json:
    """Return an entry of the screen."""
    created = {"createdAt": 1794921078991, "type": "message"}
    return {"id": identity, "role": role, "content": text(words), **created}


def said(words: str, turn: str) -> list[Json]:
    """Return the records of a journal for a prompt."""
    shown = {"op": "append_entry", "entry": entry("user", f"user-{turn}", words)}
    params = {"method": "turn/start", "params": {"message": text(words)}}
    return [
        {"type": "command_reserved", "payload": params},
        {"type": "projection_delta", "payload": {"delta": [shown, {"op": "set_envelope", "state": {}}]}},
    ]


def asked(action: str, messages: Sequence[Json], *answer: Json) -> list[Json]:
    """Return the records of a request with these messages, and of the model's answer."""
    sent = {"messages": {"type": "append", "messages": messages}}
    request = {"type": "llm_call", "purpose": "agent", "model_input": sent}
    result = {"parts": answer, "usage": {"input_tokens": 10, "output_tokens": 5}}
    outcome = {"type": "completion_succeeded", "result": result}
    words = "".join(part.get("text", "") for part in answer)
    shown = {"op": "append_entry", "entry": entry("assistant", f"assistant-{action}", words)}
    return [
        {"type": "action_intent", "payload": {"action_id": action, "kind": "completion", "request": request}},
        {"type": "action_result", "payload": {"action_id": action, "result": outcome}},
        {"type": "core_input", "payload": {"input": {}}},
        {"type": "projection_delta", "payload": {"delta": [shown]}},
    ]


def result(key: str, output: str, outcome: str = "success") -> Json:
    """Return a result as the model gets it."""
    return {"role": "tool", "name": "bash", "tool_call_id": key, "outcome": outcome, "content": text(output)}


def tool_call(key: str, command: str) -> Json:
    """Return a call in an answer."""
    return {"type": "tool_call", "id": key, "name": "bash", "arguments_json": json.dumps({"command": command})}


_TITLE = {"request": {"type": "llm_call", "purpose": "title", "model_input": {"messages": {"messages": []}}}}
JOURNAL = tuple(
    encoded({**record, "sequence": number, "recovery_journal_record_version": 1})
    for number, record in enumerate(
        [
            *said("Look at both, Ünïcode: 答え", "t1"),
            *asked("a1", [], *text("Two at once."), tool_call("c1", "cat a"), tool_call("c2", "cat b")),
            {"type": "action_intent", "payload": {"request": {"type": "runtime_builtin_tool_call"}}},
            *asked("a2", [result("c1", "the heron"), result("c2", "no such file", "failure")], tool_call("c3", "ls")),
            *asked("a3", [result("c3", "a b")], *text("Done.")),
            {"type": "action_intent", "payload": {"action_id": "a9", **_TITLE}},
            {
                "type": "action_result",
                "payload": {
                    "action_id": "a9",
                    "result": {"type": "completion_succeeded", "result": {"parts": text("A title")}},
                },
            },
            {"type": "receipt_succeeded", "payload": {"response": {}}},
            *said("And storks?", "t2"),
        ],
        1,
    )
)
SPOKEN = (
    ("user", "Look at both, Ünïcode: 答え"),
    ("assistant", "Two at once."),
    ("tool", "the heron"),
    ("tool", "no such file"),
    ("assistant", ""),
    ("tool", "a b"),
    ("assistant", "Done."),
    ("user", "And storks?"),
)


def save_unified(
    home: Path,
    journal: Sequence[bytes],
    *,
    context: Sequence[Json] = (),
    entries: Sequence[Json] = (),
    compactions: int = 0,
    imported_from: str = "",
) -> Path:
    """Write a session of Vibe 3; return the path of its `CURRENT`."""
    folder = home / ".vibe/logs/session/unified" / UNIFIED
    source = {"source": {"backend": "legacy", "session_id": imported_from}} if imported_from else None
    files = {
        "CURRENT": {"generation": "0000000000000001", "session_id": UNIFIED},
        "generations/0000000000000001/manifest.json": {
            "checkpoint": {"chunks": ["aa"]},
            "projection_state": {"chunks": ["bb"]},
            "runtime_state": {"chunks": []},
            "recovery_journal_segment": {"first_sequence": 1, "path": "journal/0000000000000001.jsonl"},
        },
        "generations/0000000000000001/checkpoint.json": {"compaction_count": compactions},
        "generations/0000000000000001/projection-state.json": {},
        "generations/0000000000000001/runtime-state.json": {"identity": {"depth": 0}, "import_provenance": source},
        "chunks/aa.json": list(context),
        "chunks/bb.json": list(entries),
    }
    contents = {name: encoded(value) for name, value in files.items()}
    contents["meta.json"] = meta(UNIFIED, None if imported_from else "Herons")
    contents["journal/0000000000000001.jsonl"] = b"".join(line + b"\n" for line in journal)
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / "CURRENT"


def save_vibe_2(home: Path, data: bytes) -> Path:
    """Write a folder of Vibe 2; return the path of its messages."""
    path = home / ".vibe/logs/session" / FOLDER / "messages.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    (path.parent / "meta.json").write_bytes(meta(KEY))
    return path
