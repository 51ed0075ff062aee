"""A garbage record in a transcript, of any kind, does not affect the records around it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.services.capture.first_reading import storable
from cortext.store.files.bulk import NewLog
from cortext.testing.table import every_row
from cortext.tools.base import TranscriptSource
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode.adapter import OpenCode
from tests.support.cli import cortext
from tests.tools.claude_code.corpus import Script, call, full_conversation
from tests.tools.codex import corpus as codex
from tests.tools.gemini_cli import corpus as gemini
from tests.tools.opencode.corpus import Corpus, dump

Json = dict[str, Any]
Garble = Callable[[bytes], bytes]

DEEP = b'{"a":' * 400 + b"1" + b"}" * 400


def changed(**fields: Any) -> Garble:
    """Return a function that replaces every field with these names, at any depth, by another value."""

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: fields[name] if name in fields else replaced(item) for name, item in value.items()}
        return [replaced(item) for item in value] if isinstance(value, list) else value

    return lambda line: json.dumps(replaced(json.loads(line))).encode()


def without(*names: str) -> Garble:
    """Return a function that removes these fields of a record."""
    return lambda line: json.dumps({key: item for key, item in json.loads(line).items() if key not in names}).encode()


GARBAGE: dict[str, Garble] = {
    "half": lambda line: line[: len(line) // 2],
    "bytes": lambda _: b"\xff\xfe\x00\x01",
    "null": lambda _: b"null",
    "number": lambda _: b"17",
    "list": lambda _: b"[1, [2]]",
    "empty object": lambda _: b"{}",
    "too deep to read": lambda _: b"[" * 100_000,
    "deep": lambda line: line[:-1] + b',"more":' + DEEP + b"}",
    "deep input": changed(input=json.loads(DEEP), args=json.loads(DEEP), arguments=json.loads(DEEP)),
    "no content": changed(content="", text="", parts=[]),
    "null content": changed(content=None, text=None, message=None, payload=None),
    "empty block": changed(content=[{"type": "text", "text": ""}]),
    "empty output": changed(content="<local-command-stdout></local-command-stdout>"),
    "no message": without("message", "payload", "content"),
    "numbers for texts": changed(content=17, text=17, id=17, role=17, name=17, output=17),
    "objects for texts": changed(content={"a": 1}, text={"a": 1}, id={"a": 1}, type={"a": 1}),
    "no time": changed(timestamp="2026-99-99T99:99:99.999Z", time="soon"),
    "half a pair": changed(content="cut \ud83d", text="cut \ud83d", output="cut \ud83d"),
    "huge count": changed(output_tokens=2**64, output=2**64, usage={"output_tokens": -1}, tokens={"output": 2**64}),
    "another role": changed(role="wizard"),
    "endless number": changed(output_tokens=1e400, output=1e400, created=1e400),
}


def texts(message: Message) -> list[str]:
    """Return all texts of a message."""
    inner = [text for part in message.parts or () for text in (part.text, part.output) if text]
    return [text for text in [message.content, *inner] if text]


def read(tool: TranscriptSource, home: Path) -> list[Message]:
    """Return the storable messages of the transcripts; the store's own encoder accepts each of them."""
    found = [message for transcript in tool.transcripts() for message in storable(tool.read(transcript))]
    NewLog().lines(found)
    return found


def lost(before: list[Message], after: list[Message], record: str) -> list[str]:
    """Return the texts outside of a record that are missing afterwards."""
    remaining = {text for message in after for text in texts(message)}
    expected = [text for message in before for text in texts(message)]
    encoded = json.dumps(json.loads(record), ensure_ascii=False)

    def in_record(text: str) -> bool:
        return all(json.dumps(word, ensure_ascii=False)[1:-1] in encoded for word in text.split())

    return [text for text in expected if text not in remaining and not in_record(text)]


def claude(home: Path) -> tuple[TranscriptSource, Path, list[bytes]]:
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    script = full_conversation()
    return ClaudeCode(str(home), {}), Path(script.save(folder).path), script.lines


def codex_(home: Path) -> tuple[TranscriptSource, Path, list[bytes]]:
    rollout = codex.everyday()
    return Codex(home=str(home)), rollout.save(home), rollout.lines


def gemini_(home: Path) -> tuple[TranscriptSource, Path, list[bytes]]:
    chat = gemini.everyday()
    path = home / ".gemini" / "tmp" / "p" / "chats" / f"session-2026-11-15T02-00-{gemini.KEY[:8]}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n".join(chat.lines) + b"\n")
    return GeminiCli(str(home), {}), path, chat.lines


@pytest.mark.req("TOOL-04")
@every_row("kind", GARBAGE)
@pytest.mark.parametrize("program", [claude, codex_, gemini_], ids=["claude", "codex", "gemini"])
def test_a_garbage_record_does_not_affect_the_others(tmp_path: Path, program: Any, kind: str) -> None:
    tool, path, lines = program(tmp_path)
    before = read(tool, tmp_path)
    assert before
    for index, line in enumerate(lines):
        bad = GARBAGE[kind](line)
        path.write_bytes(b"\n".join([*lines[:index], bad, *lines[index + 1 :]]) + b"\n")
        os.utime(path, ns=(index, index))  # the length may be the same
        after = read(tool, tmp_path)
        assert lost(before, after, line.decode()) == [], f"record {index}: {line[:200]!r} became {bad[:200]!r}"


@pytest.mark.req("TOOL-04")
@every_row("kind", GARBAGE)
def test_a_garbage_row_does_not_affect_the_others(tmp_path: Path, kind: str) -> None:
    corpus = Corpus(tmp_path / ".local" / "share" / "opencode" / "opencode.db")
    corpus.session()
    corpus.user("Which boat?")
    state = {"status": "completed", "input": {"path": "b"}, "output": "a green boat", "time": {"start": 1, "end": 2}}
    corpus.assistant("Let me look.", {"type": "tool", "tool": "read", "callID": "c1", "state": state})
    corpus.assistant({"type": "reasoning", "text": "So it is green."}, "The green one.")
    corpus.user("Thank you.")
    corpus.assistant("Not at all.")
    tool = OpenCode(str(tmp_path), {"PATH": ""})
    before = read(tool, tmp_path)
    assert len(before) == 6
    for table in ("message", "part"):
        for identity, data in corpus.database.execute(f"SELECT id, data FROM {table}").fetchall():
            corpus.change(table, identity, data=GARBAGE[kind](data.encode()))
            after = read(tool, tmp_path)
            owner = identity if table == "message" else None
            parts = corpus.database.execute("SELECT data FROM part WHERE message_id = ?", (owner,)).fetchall()
            record = data if table == "part" else dump([json.loads(row[0]) for row in parts])
            assert lost(before, after, record) == [], f"{table} {identity}"
            corpus.change(table, identity, data=data)
    corpus.close()


# ── as a person meets it ─────────────────────────────────────────────────────────────────────────────


def cleared(folder: Path) -> Script:
    """What Claude Code writes around `/clear`, and more that is empty or odd; then the talk goes on."""
    script = Script()
    script.user("<command-name>/clear</command-name>\n<command-message>clear</command-message>")
    script.user("<local-command-stdout></local-command-stdout>")
    for content in ("", None, [{"type": "text", "text": ""}], []):
        script.user(content)
    script.record("user", {})
    script.user("The first question")
    script.assistant(call("toolu_1", **json.loads(DEEP)), tokens=2**64)
    script.result("toolu_1", "a deep answer")
    script.assistant("The first answer", tokens=-7)
    script.save(folder)
    return script


@pytest.mark.req("TOOL-03", "TOOL-04", "TOOL-05")
def test_damaged_records_are_reported_and_the_rest_is_imported(tmp_path: Path) -> None:
    """Import, capture by hooks, list, show and export, with damaged transcripts next to a sound one."""
    env = {"HOME": str(tmp_path)}
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    script = cleared(folder)
    chats = tmp_path / ".gemini" / "tmp" / "p" / "chats"
    chats.mkdir(parents=True)
    cut = gemini.Chat("aaaaaaaa-5f75-4f50-b786-51318336b280").begin()
    cut.user("Which bird? HALF")
    cut.model("The heron.")
    cut.lines = [line.replace(b"HALF", b"\\ud83d") for line in cut.lines]
    sound = gemini.Chat("bbbbbbbb-5f75-4f50-b786-51318336b280").begin()
    sound.user("Which boat?")
    sound.model("The green one.")
    headless = gemini.Chat("cccccccc-5f75-4f50-b786-51318336b280").begin()
    headless.user("Who is first?")
    headless.model("Nobody.")
    headless.lines[0] = headless.lines[0][:40]
    for chat in (cut, sound, headless):
        (chats / f"session-2026-11-15T02-00-{chat.key[:8]}.jsonl").write_bytes(b"\n".join(chat.lines) + b"\n")
    rollout = codex.Rollout()
    rollout.start()
    rollout.user("One id, two records?")
    rollout.says("Yes, the first.")
    rollout.says("And the second.")
    first = json.loads(rollout.lines[-3])["payload"]["id"]
    second = json.loads(rollout.lines[-1])["payload"]["id"]
    rollout.lines[-1] = rollout.lines[-1].replace(second.encode(), first.encode())
    rollout.save(tmp_path)

    done = cortext("import", cwd=tmp_path, env=env)
    assert done.code == 0, done.out + done.err
    assert "claude: 6 records without content skipped" in done.out
    assert "nested too deeply × 1" in done.out and "token count out of range × 2" in done.out
    assert "id used twice × 1" in done.out
    assert "Traceback" not in done.err

    listed = {row["id"]: row for row in cortext("list", "--json", cwd=tmp_path, env=env).json}
    session = f"claude-{script.key}"
    assert listed[session]["title"] == "The first question"
    assert {f"gemini-{chat.key}" for chat in (cut, sound)} < set(listed)
    assert any("cccccccc" in name for name in listed), "a transcript without its first line is imported too"
    contents = [message["content"] for message in shown(f"codex-{codex.THREAD}", tmp_path, env)]
    assert contents == ["One id, two records?", "Yes, the first.", "And the second."]
    assert "Which bird?" in shown(f"gemini-{cut.key}", tmp_path, env)[0]["content"]
    for form in ("markdown", "json"):
        exported = cortext("export", f"gemini-{cut.key}", "--format", form, cwd=tmp_path, env=env)
        assert exported.code == 0 and "The heron." in exported.out, exported.err
    copy = next((tmp_path / ".local" / "share" / "cortext" / "home").rglob(f"{session}/.session/native"))
    assert copy.read_bytes() == script.data(), "every record, as the tool wrote it"

    # Hooks capture what follows an empty record.
    script.user("<local-command-stdout></local-command-stdout>")
    script.user("The second question")
    script.save(folder)
    event = {"hook_event_name": "Stop", "session_id": script.key, "cwd": str(tmp_path)}
    event["transcript_path"] = str(folder / f"{script.key}.jsonl")
    hooked = cortext("hook", "claude", cwd=tmp_path, env=env, stdin=json.dumps(event))
    assert hooked.code == 0
    assert shown(session, tmp_path, env)[-1]["content"] == "The second question"
    assert not (tmp_path / ".local" / "state" / "cortext" / "hook.log").exists()
    assert copy.read_bytes() == script.data()


def shown(session: str, folder: Path, env: dict[str, str]) -> list[Json]:
    done = cortext("show", session, "--json", cwd=folder, env=env)
    assert done.code == 0, done.err
    found = done.json
    return list(found["messages"] if isinstance(found, dict) else found)


@pytest.mark.req("TOOL-04")
def test_a_transcript_without_a_readable_record_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    path = folder / "0b5c8a52-6f3d-4a63-9d7e-2f6c1a7d0e11.jsonl"
    path.write_bytes(b'{"type":"user","message":{"content":"torn\n')
    done = cortext("import", cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert done.code == 3 and "not JSON × 1" in done.out
    kept = tmp_path / ".local" / "share" / "cortext" / "home" / "unread" / f"claude-{path.stem}" / "native"
    assert kept.read_bytes() == path.read_bytes()


@pytest.mark.req("TOOL-04")
def test_a_log_with_half_a_pair_and_invalid_counts_can_be_read(tmp_path: Path) -> None:
    """Another program or an older version wrote it; list, show, export and stats work all the same."""
    env = {"HOME": str(tmp_path)}
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    script = Script()
    script.user("cut HALF here")
    script.assistant("a whole answer")
    script.lines = [line.replace(b"HALF", b"\\ud83d") for line in script.lines]
    script.save(folder)
    assert cortext("import", cwd=tmp_path, env=env).code == 0
    session = f"claude-{script.key}"
    log = next(tmp_path.rglob(f"{session}/.session/messages.jsonl"))
    assert "\\ud83d" not in log.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[0] |= {"content": "cut \ud83d here", "tokens": 2**64}
    lines[1] |= {"tokens": -5}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    listed = cortext("list", "--json", cwd=tmp_path, env=env)
    assert listed.code == 0 and listed.json[0]["token_count"] == 0, listed.err
    assert shown(session, tmp_path, env)[1]["content"] == "a whole answer"
    for arguments in (("show", session), ("export", session), ("export", session, "--format", "json"), ("stats",)):
        done = cortext(*arguments, cwd=tmp_path, env=env)
        assert done.code == 0 and "Traceback" not in done.err, done.err
