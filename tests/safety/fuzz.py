"""A fuzzer that knows the records: any value in any of them is replaced by an invalid one.

    python -m tests.safety.fuzz                       # 100,000 cases
    python -m tests.safety.fuzz --cases 20000 --seed 3
    python -m tests.safety.fuzz --only codex          # one subject

Subjects are the transcripts of the four AI tools, our own layouts (logs and metadata), the settings and the payloads of
hooks. A case removes or replaces one value of one record; then everything is read and shown as the commands do. What
must hold: only our own errors are raised, every other record is kept completely, and a record that is not kept is named
in the report. Exits with status 1 at the first case that fails, and prints what is needed to reproduce it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cortext.config import folders
from cortext.config.load import load
from cortext.errors import CortextError
from cortext.index.database import in_memory
from cortext.index.refresh import _row, derived_fields
from cortext.index.search.words import searchable
from cortext.model.message import Message, Part, plain
from cortext.model.session import Change, Session
from cortext.model.threads import thread
from cortext.services.capture.capture import session_id_for
from cortext.services.capture.first_reading import new_session, storable
from cortext.services.library.export import as_json, as_markdown, masked
from cortext.services.library.stores import NamedStore, StoredConversation
from cortext.services.resume.history import History
from cortext.services.resume.packet import build
from cortext.services.workspace import registry
from cortext.services.workspace.setup import load_manifest
from cortext.store.files.bulk import NewLog
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.base import Counts, Hooks, NativeWriter, TranscriptSource
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode.adapter import OpenCode
from cortext.tools.shared.entries import names_in
from tests.services.test_garbage import lost
from tests.tools.claude_code.corpus import full_conversation
from tests.tools.codex import corpus as codex
from tests.tools.gemini_cli import corpus as gemini
from tests.tools.opencode.corpus import Corpus

_RAW = "@@@raw@@@"
MEGABYTE = 1_000_000
# Replacement values as JSON, including invalid JSON that JavaScript or a broken disk writes anyway.
VALUES: dict[str, bytes] = {
    "null": b"null",
    "true": b"true",
    "zero": b"0",
    "negative": b"-7",
    "2^64": b"18446744073709551616",
    "-2^64": b"-18446744073709551616",
    "2^53": b"9007199254740993",
    "fraction": b"1.5",
    "1e400": b"1e400",
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "empty text": b'""',
    "text": b'"something else"',
    "half a pair": b'"cut \\ud83d"',
    "NUL": b'"a\\u0000b"',
    "control": b'"\\u001b[2J\\u202e"',
    "long text": b'"' + b"x" * MEGABYTE + b'"',
    "empty list": b"[]",
    "list": b'[1, "two", null, {"a": [3]}]',
    "empty object": b"{}",
    "object": b'{"type": 5, "text": {"a": 1}, "": null}',
    "object with half a key": b'{"\\udc00": "\\ud800"}',
    "deep": b'{"a":' * 400 + b"1" + b"}" * 400,
    "deeper": b"[" * 20_000 + b"]" * 20_000,
    "not JSON": b"undefined",
    "not UTF-8": b'"\xff\xfe"',
}
GONE, TWICE = "gone", "twice"
NAMES = (*VALUES, GONE, TWICE)
# Expensive values are drawn less often.
WEIGHTS = [1 if name in ("long text", "deeper") else 6 for name in NAMES]
Steps = tuple[str | int, ...]


class Failed(AssertionError):
    """An invariant was violated."""


def places(value: Any, steps: Steps = ()) -> Iterator[Steps]:
    """Yield the path of every value in a JSON value, beginning with the whole."""
    yield steps
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*steps, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*steps, number))


def changed(value: Any, steps: Steps, name: str) -> bytes:
    """Return the record as JSON with the value at this path changed."""
    copy = json.loads(json.dumps(value))
    if not steps:
        return VALUES.get(name, b"{}")
    holder: Any = copy
    for step in steps[:-1]:
        holder = holder[step]
    last = steps[-1]
    if name == GONE:
        del holder[last]
    elif name == TWICE and isinstance(holder, list):
        holder.insert(0, holder[int(last)])
    elif name == TWICE:
        return _dump({**copy}) if len(steps) > 1 else _dump(copy)[:-1] + b', "%s": 7}' % str(last).encode()
    else:
        holder[last] = _RAW
    return _dump(copy).replace(json.dumps(_RAW).encode(), VALUES.get(name, b"null"))


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


class Case(NamedTuple):
    """One change: which record, which value in it, and what it becomes."""

    record: int
    place: int
    value: str


class Subject:
    """Something with records. `try_case` changes one, checks everything, and restores it."""

    name = ""
    records: list[Any]

    def __init__(self) -> None:
        self._places: dict[int, list[Steps]] = {}

    def try_case(self, case: Case) -> str:
        """Check a case; return a description of the change."""
        number = case.record % len(self.records)
        record = self.records[number]
        known = self._places.get(number)
        if known is None:
            known = self._places[number] = list(places(record))
        steps = known[case.place % len(known)]
        label = f"{self.name}: record {number} at {'.'.join(map(str, steps)) or '(all)'} is {case.value}"
        try:
            self.look(number, record, changed(record, steps, case.value))
        except Failed as error:
            raise Failed(f"{label}: {error}") from error
        except Exception as error:
            raise Failed(f"{label}: {type(error).__name__}: {error}"[:2000]) from error
        return label

    def look(self, number: int, record: Any, raw: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open; nothing by default."""


# ── the AI tools ─────────────────────────────────────────────────────────────────────────────────────

_downstream: list[NativeWriter] = []


def show(store: FileStore, root: Path, session: Session, messages: list[Message]) -> None:
    """Do what the commands do with a session: list, search, show, export, resume as a packet and in every tool."""
    if not _downstream:
        home = str(root)
        _downstream.extend((ClaudeCode(home, {}), Codex(home=home), GeminiCli(home, {}), OpenCode(home, {"PATH": ""})))
    database = in_memory()
    row = (*_row(str(root), store.name, session), 0, 1, *derived_fields(str(root), store.name, session))
    database.execute(f"INSERT INTO session VALUES ({','.join('?' * len(row))})", row)
    database.close()
    for message in messages:
        searchable(message).encode("utf-8", "replace")
    said = thread(messages)
    clean, _ = masked(said)
    found = StoredConversation(NamedStore("here", store.name, str(root), store), session)
    exported = as_json(found, clean)
    exported.encode("utf-8")
    json.loads(exported, parse_constant=_not_json)
    as_markdown(session, clean).encode("utf-8", "replace")
    if len(exported) < MEGABYTE // 2:  # rendering a megabyte of text for every tool would take too long
        for tool in _downstream:
            tool.preview([plain(message) for message in clean])


def _not_json(name: str) -> None:
    raise Failed(f"{name} is not JSON")


class ToolSubject(Subject):
    """A transcript in JSON Lines."""

    def __init__(self, name: str, home: Path, tool: TranscriptSource, path: Path, lines: list[bytes]) -> None:
        super().__init__()
        self.name, self.tool, self.path, self.lines = name, tool, path, lines
        self.home = home
        self.records = [json.loads(line) for line in lines]
        self.store = WorkspaceStore(str(home / "ours"))
        self.before, counts = self.read()
        self.counted = _counted(counts)

    def read(self) -> tuple[list[Message], Counts]:
        """Return everything that can be stored, as the store encodes it, and the counts."""
        found: list[Message] = []
        counts = Counts()
        for transcript in self.tool.transcripts():
            reading = self.tool.read(transcript)
            new = list(storable(reading))
            json.dumps(reading.cursor).encode("ascii")
            session_id_for(transcript.tool, transcript.key)
            for mine, theirs in (
                (counts.skipped, reading.counts.skipped),
                (counts.unknown, reading.counts.unknown),
                (counts.damaged, reading.counts.damaged),
            ):
                for kind, count in theirs.items():
                    mine[kind] = mine.get(kind, 0) + count
            if new:
                entry_session = msgspec.structs.replace(
                    new_session(_entry(transcript), transcript, reading.about, new), path=str(self.home)
                )
                show(self.store, self.home, entry_session, new)
            found += new
        NewLog().lines(found)
        return found, counts

    def look(self, number: int, record: Any, raw: bytes) -> None:
        lines = [*self.lines[:number], raw, *self.lines[number + 1 :]]
        self.path.write_bytes(b"\n".join(lines) + b"\n")
        after, counts = self.read()
        missing = lost(self.before, after, self.lines[number].decode("utf-8"))
        if missing:
            raise Failed(f"other records lost {missing[:3]!r}"[:500])
        if len(after) < len(self.before) and _counted(counts) == self.counted and not _still_said(self.before, after):
            raise Failed(f"{len(self.before) - len(after)} messages are missing, and the report does not say so")


def _entry(transcript: Any) -> Any:
    from cortext.index.catalogue import Entry

    return Entry(transcript.tool, transcript.key, "", session_id_for(transcript.tool, transcript.key))


def _counted(counts: Counts) -> tuple[dict[str, int], ...]:
    return dict(counts.skipped), dict(counts.unknown), dict(counts.damaged)


def _still_said(before: list[Message], after: list[Message]) -> bool:
    """Whether every word is still there, only in fewer messages."""
    there = " ".join(message.text for message in after)
    return all(piece in there for message in before for piece in message.text.split())


class OpenCodeSubject(Subject):
    """The rows of OpenCode's database: their JSON, and their columns."""

    name = "opencode"

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home
        self.corpus = corpus = Corpus(home / ".local" / "share" / "opencode" / "opencode.db")
        corpus.database.execute("PRAGMA synchronous = OFF")
        corpus.session()
        corpus.user("Which boat?")
        state = {
            "status": "completed",
            "input": {"path": "b"},
            "output": "a green boat",
            "time": {"start": 1, "end": 2},
        }
        corpus.assistant("Let me look.", {"type": "tool", "tool": "read", "callID": "c1", "state": state})
        corpus.assistant({"type": "reasoning", "text": "So it is green."}, "The green one.")
        corpus.user("Thank you.")
        corpus.assistant("Not at all.")
        corpus.session("ses_two")
        corpus.user("Another talk", session="ses_two")
        # Rows are identified by rowid, which no case changes.
        self.rows: list[tuple[str, int, str, str]] = []  # table, rowid, column, all text that belongs to the row
        self.records = []
        for table in ("message", "part", "session"):
            columns = [row[1] for row in corpus.database.execute(f"PRAGMA table_info({table})")]
            rows = corpus.database.execute(f"SELECT rowid, * FROM {table}").fetchall()
            for rowid, *values in rows:
                fields = dict(zip(columns, values, strict=True))
                said = self._said(table, fields)
                for column, value in fields.items():
                    self.rows.append((table, rowid, column, said))
                    self.records.append(json.loads(value) if column == "data" else value)
        self.reader = ToolSubject.__new__(ToolSubject)
        self.reader.tool, self.reader.home = OpenCode(str(home), {"PATH": ""}), home
        self.reader.store = WorkspaceStore(str(home / "ours"))
        self.before, _ = self.reader.read()

    def _said(self, table: str, fields: dict[str, Any]) -> str:
        """Return the parts that belong to a row, as one record."""
        if table == "part":
            return json.dumps([json.loads(fields["data"])])
        column = "message_id" if table == "message" else "session_id"
        found = self.corpus.database.execute(f"SELECT data FROM part WHERE {column} = ?", (fields["id"],)).fetchall()
        return json.dumps([json.loads(row[0]) for row in found])

    def look(self, number: int, record: Any, raw: bytes) -> None:
        table, rowid, column, said = self.rows[number]
        change = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?"  # ignores what SQLite rejects
        database = self.corpus.database
        database.execute(change, (raw if column == "data" else _column_value(raw), rowid))
        try:
            after, _ = self.reader.read()
            missing = lost(self.before, after, said)
            if missing:
                raise Failed(f"other records lost {missing[:3]!r}"[:500])
        finally:
            database.execute(change, (json.dumps(record) if column == "data" else record, rowid))

    def close(self) -> None:
        self.corpus.close()


def _column_value(raw: bytes) -> Any:
    """Return a JSON value as SQLite stores it; types that it does not have become bytes."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else float(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return raw


# ── our own layouts ──────────────────────────────────────────────────────────────────────────────────


class StoreSubject(Subject):
    """A session of one of our layouts: the lines of its log, or a metadata file."""

    ID = "s-1"

    def __init__(self, layout: type[FileStore], root: Path, file: str) -> None:
        super().__init__()
        self.name = f"{layout.name} {file or 'log'}"
        self.layout, self.root = layout, root
        store = layout(str(root))
        store.create(Session(id=self.ID, title="A talk", type="plan", created_at="2026-11-15T02:00:00Z"))
        store.create(Session(id="s-2", title="Another"))
        call = Part(type="tool_call", id="c1", name="read", input={"path": "note.txt"})
        result = Part(type="tool_result", call_id="c1", output="the heron")
        store.append(
            self.ID,
            Message(role="user", content="alpha words", timestamp="2026-11-15T02:00:01Z"),
            Message(role="assistant", content="beta words", parts=[call], model="m", usage={"output_tokens": 3}),
            Message(role="tool", content="gamma words", parts=[result]),
            Message(role="user", content="delta words", extra={"a": 1}),
            Message(role="assistant", content="epsilon words", partial=True),
        )
        store.append("s-2", Message(role="user", content="of another"))
        store.update(self.ID, Change(summary="what was said", summary_covers=2, summary_by="agent"))
        self.path = next(path for path in sorted(root.rglob("*")) if path.is_file() and self._is_it(path, file))
        self.raw = self.path.read_bytes()
        self.lines = [] if file.endswith(".json") else self.raw.splitlines()
        self.records = [json.loads(line) for line in self.lines] or [json.loads(self.raw)]
        self.before = [message.content for message in store.read(self.ID)]

    def _is_it(self, path: Path, file: str) -> bool:
        if self.ID not in str(path.relative_to(self.root)) or "lock" in path.name:
            return False
        return path.name == file if file else path.suffix == ".jsonl"

    def look(self, number: int, record: Any, raw: bytes) -> None:
        if self.lines:
            raw = b"\n".join([*self.lines[:number], raw.replace(b"\n", b" "), *self.lines[number + 1 :]]) + b"\n"
        self.path.write_bytes(raw)
        try:
            store = self.layout(str(self.root))
            reading = store.read(self.ID)
            messages = list(reading)
            session, damage = store.get(self.ID), store.check(self.ID)
            others = [found.id for found in store.sessions()]
            if sorted(others) != [self.ID, "s-2"]:
                raise Failed(f"the list contains {others}")
            own = record.get("content") if isinstance(record, dict) and self.lines else None
            kept = {message.content for message in messages}
            missing = [text for text in self.before if text not in kept and text != own]
            if missing:
                raise Failed(f"other messages lost: {missing}")
            if len(messages) < len(self.before) and not damage:
                raise Failed("a message is missing, and nothing reports it")
            store.tail(self.ID, 3)
            list(store.outline(self.ID))
            build(session, History(store, session), budget=2_000)
            show(store, self.root, session, messages)
        finally:
            self.path.write_bytes(self.raw)


class FileSubject(Subject):
    """A settings file, or one of ours: reading it returns a value or raises one of our errors."""

    def __init__(self, name: str, path: Path, record: Any, read: Callable[[], object], *, toml: bool = False) -> None:
        super().__init__()
        self.name, self.path, self.records, self._read, self._toml = name, path, [record], read, toml
        path.parent.mkdir(parents=True, exist_ok=True)

    def look(self, number: int, record: Any, raw: bytes) -> None:
        self.path.write_bytes(_as_toml(raw) if self._toml else raw)
        try:
            self._read()
        except CortextError as error:
            if not error.message:
                raise Failed("an error without a message") from error
        finally:
            self.path.unlink()


def _as_toml(raw: bytes) -> bytes:
    """Convert a JSON object to TOML: values have the same syntax, except for objects and a few that TOML lacks."""
    if not raw.startswith(b"{"):
        return b"value = " + raw
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return b"value = " + raw[:200_000]
    spelled = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", "null": '""'}
    text = ""
    for name, value in fields.items():
        if not isinstance(value, dict):
            text = f"{json.dumps(name)} = {spelled.get(json.dumps(value), json.dumps(value))}\n{text}"
            continue
        text += f"[{json.dumps(name)}]\n"
        for key, inner in value.items():
            text += f"{json.dumps(key)} = {spelled.get(json.dumps(inner), json.dumps(inner))}\n"
    return text.encode("utf-8", "surrogatepass")


class PayloadSubject(Subject):
    """What a tool passes to our hook."""

    def __init__(self, name: str, tool: Hooks, payloads: list[dict[str, Any]]) -> None:
        super().__init__()
        self.name, self.tool, self.records = f"hook of {name}", tool, payloads

    def look(self, number: int, record: Any, raw: bytes) -> None:
        try:
            fields = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if isinstance(fields, dict):
            event = self.tool.hook_event(fields)
            if event is not None:
                for name in ("kind", "key", "path", "project", "text", "command", "arguments"):
                    if not isinstance(getattr(event, name), str):
                        raise Failed(f"{name} is not text")
                self.tool.hook_answer(fields, "context")


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────


def subjects(folder: Path) -> list[Subject]:
    """Return every subject, each in its own folder."""
    made: list[Subject] = []
    homes = {name: folder / name for name in ("claude", "codex", "gemini", "opencode")}
    projects = homes["claude"] / ".claude" / "projects" / "p"
    projects.mkdir(parents=True)
    script = full_conversation()
    path = Path(script.save(projects).path)
    claude = ClaudeCode(str(homes["claude"]), {})
    made.append(ToolSubject("claude", homes["claude"], claude, path, script.lines))
    rollout = codex.everyday()
    path = rollout.save(homes["codex"])
    made.append(ToolSubject("codex", homes["codex"], Codex(home=str(homes["codex"])), path, rollout.lines))
    chat = gemini.everyday()
    path = homes["gemini"] / ".gemini" / "tmp" / "p" / "chats" / f"session-2026-11-15T02-00-{gemini.KEY[:8]}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\n".join(chat.lines) + b"\n")
    gemini_cli = GeminiCli(str(homes["gemini"]), {})
    made.append(ToolSubject("gemini", homes["gemini"], gemini_cli, path, chat.lines))
    made.append(OpenCodeSubject(homes["opencode"]))
    layouts: tuple[tuple[type[FileStore], str], ...] = (
        (WorkspaceStore, ""), (WorkspaceStore, "session.json"), (SpawnStore, ""), (ChatStore, ""),
        (ChatStore, "meta.json"), (ChatStore, "summary.json"),
    )  # fmt: skip
    for layout, file in layouts:
        made.append(StoreSubject(layout, folder / f"{layout.name}-{file}", file))
    settings = {
        "store": {"lock_timeout": 5},
        "resume": {"tokens": 1000, "tool": "claude"},
        "workspace": {"commit": True},
    }
    root = folder / "ws"
    ws_config = Path(folders.workspace_file(str(root)))
    made.append(FileSubject("config", ws_config, settings, lambda: load(str(root), trusted=True), toml=True))
    kind = {
        "command": "/workspace.plan",
        "command_file": ".workspace/commands/plan.md",
        "template": "t",
        "sessions": True,
    }
    known = {"version": "1.0", "types": {"plan": kind}}
    made.append(FileSubject("registry", Path(registry.path_of(str(root))), known, lambda: registry.load(str(root))))
    manifest = {"version": "1", "tools": ["claude"], "files": {"a": "b"}}
    installed = root / ".workspace" / "installed.json"
    made.append(FileSubject("manifest", installed, manifest, lambda: load_manifest(str(root))))
    servers = root / ".mcp.json"
    entries = {"mcpServers": {"cortext": {"command": "cortext", "args": ["mcp"]}}}
    made.append(FileSubject("settings", servers, entries, lambda: names_in(str(servers), "mcpServers")))
    event = {"session_id": "s", "cwd": "/p", "transcript_path": "/p/t.jsonl", "prompt": "/workspace.plan the boat"}
    for name, tool in (("claude", claude), ("gemini", gemini_cli), ("codex", Codex(home=str(homes["codex"])))):
        kinds = ("SessionStart", "UserPromptSubmit", "BeforeAgent", "AfterAgent", "Stop", "SessionEnd", "PreCompact")
        made.append(PayloadSubject(name, tool, [{"hook_event_name": kind, **event} for kind in kinds]))
    return made


def drawn(rng: random.Random) -> Case:
    """Return a random case."""
    return Case(rng.randrange(10_000), rng.randrange(10_000), rng.choices(NAMES, WEIGHTS)[0])


def main(arguments: list[str]) -> int:
    """Run many cases."""
    parser = argparse.ArgumentParser(prog="python -m tests.safety.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only subjects with this in their name")
    parser.add_argument("--go-on", action="store_true", help="show every failure, not only the first")
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        wanted = [subject for subject in subjects(Path(folder)) if options.only in subject.name]
        begun = time.monotonic()
        for number in range(options.cases):
            subject = wanted[number % len(wanted)]
            try:
                subject.try_case(drawn(rng))
            except Failed as error:
                failures.setdefault(str(error)[-160:], str(error))
                if not options.go_on:
                    print(f"case {number} of seed {options.seed}: {error}")
                    return 1
            if number % 5_000 == 4_999:
                print(f"{number + 1:,} cases, {time.monotonic() - begun:.0f} s, {len(failures)} failures", flush=True)
        for subject in wanted:
            subject.close()
    for failure in failures.values():
        print(failure[:400])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
