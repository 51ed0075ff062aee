"""A bad transcript or file affects nothing else, and what was not captured is reported until it is.

Played through as a user sees it: a tool's hook fails, the next command reports that once, `list` and `doctor` report it
as long as it lasts, and the next capture ends it.
"""

from __future__ import annotations

import ast
import json
import os
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cli import Ran, cortext
from tests.tools.claude_code.corpus import Script
from tests.tools.codex import corpus as codex
from tests.tools.droid import test_conformance as droid
from tests.tools.gemini_cli import corpus as gemini
from tests.tools.opencode.corpus import Corpus
from tests.tools.vibe import samples as vibe

pytestmark = pytest.mark.req("SAFE-07", "TRUE-05")
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # has the form of a token, but is not one


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def circle(path: Path) -> None:
    path.symlink_to(path.name)


def folder(path: Path) -> None:
    path.mkdir()


def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def locked(path: Path) -> None:
    if os.geteuid() == 0:
        circle(path)  # root can open any mode: use another file that cannot be opened
        return
    path.write_bytes(b"{}\n")
    path.chmod(0)


STRANGE: dict[str, Callable[[Path], None]] = {
    "fifo": fifo, "/dev/zero": endless, "circle": circle, "folder": folder, "socket": a_socket, "mode 000": locked,
}  # fmt: skip


def deep(path: Path) -> None:
    path.write_bytes(DEEP[path.suffix])


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


def claude_files(home: Path) -> tuple[Script, Path]:
    projects = home / ".claude" / "projects" / "-p"
    projects.mkdir(parents=True)
    script = Script()
    script.user("The first question")
    script.assistant("The first answer")
    script.save(projects)
    return script, projects


def checked(done: Ran, *codes: int) -> Ran:
    assert done.code in codes, (done.code, done.out, done.err)
    assert "Traceback" not in done.err and "bug in cortext" not in done.err, done.err
    return done


@pytest.mark.parametrize("kind", STRANGE)
def test_a_failed_hook_is_reported_until_it_is_resolved(home: Path, kind: str) -> None:
    script, projects = claude_files(home)
    bad = projects / "1c5c8a52-6f3d-4a63-9d7e-2f6c1a7d0e11.jsonl"
    STRANGE[kind](bad)
    event = {"hook_event_name": "Stop", "session_id": bad.stem, "cwd": str(home), "transcript_path": str(bad)}
    hooked = cortext("hook", "claude", cwd=home, stdin=json.dumps(event))
    assert (hooked.code, hooked.out) == (0, ""), "the tool is not disturbed"
    report = checked(cortext("stats", cwd=home), 0)
    assert bad.name in report.err and "not captured since 20" in report.err
    assert bad.name not in checked(cortext("stats", cwd=home), 0).err, "reported only once"

    imported = checked(cortext("import", cwd=home), 3)
    assert str(bad) in imported.out, "the report names what was not imported"
    listed = checked(cortext("list", cwd=home), 0)
    assert f"claude-{script.key}" in listed.out, "the others are imported"
    assert bad.name in listed.err and "not captured since 20" in listed.err
    examined = checked(cortext("doctor", cwd=home), 3)
    assert bad.name in examined.out.replace("\n", "") and "cortext sync" in examined.out

    remove(bad)
    again = Script()
    again.lines, again.key = [line.replace(script.key.encode(), bad.stem.encode()) for line in script.lines], bad.stem
    bad.write_bytes(b"\n".join(again.lines) + b"\n")
    assert cortext("hook", "claude", cwd=home, stdin=json.dumps(event)).code == 0
    assert "not captured" not in checked(cortext("list", cwd=home), 0).err
    checked(cortext("doctor", cwd=home), 0)


def test_a_mark_contains_no_secret_and_ends_with_the_tool_s_file(home: Path) -> None:
    _, projects = claude_files(home)
    config = home / ".config" / "cortext" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'["{SECRET}"]\nname = 1\n')
    event = {"hook_event_name": "Stop", "session_id": "x", "cwd": str(home)}
    assert cortext("hook", "claude", cwd=home, stdin=json.dumps(event)).code == 0
    state = home / ".local" / "state" / "cortext"
    kept = "".join(path.read_text() for path in state.rglob("*") if path.is_file())
    assert "unknown setting" in kept and SECRET not in kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in state.rglob("*"))
    config.unlink()
    checked(cortext("sync", cwd=home), 0)
    checked(cortext("doctor", cwd=home), 0)

    bad = projects / "1c5c8a52-6f3d-4a63-9d7e-2f6c1a7d0e11.jsonl"
    bad.write_bytes(b'{"type":"user","message":{"content":"torn\n')
    assert f"claude: could not be captured: {bad}: nothing in it" in checked(cortext("sync", cwd=home), 3).out
    checked(cortext("import", cwd=home), 3)
    assert "nothing in it could be read" in checked(cortext("doctor", cwd=home), 3).out.replace("\n           ", "")
    bad.unlink()
    checked(cortext("sync", cwd=home), 0)
    checked(cortext("doctor", cwd=home), 0)


def every_tool(home: Path) -> None:
    """Write a valid transcript of each tool, and next to it one that cannot be imported."""
    _, projects = claude_files(home)
    fifo(projects / "1c5c8a52-6f3d-4a63-9d7e-2f6c1a7d0e11.jsonl")
    rollout = codex.everyday().save(home)
    fifo(rollout.with_name(rollout.name.replace(codex.THREAD[:8], "0b5c8a52")))
    chats = home / ".gemini" / "tmp" / "p" / "chats"
    chats.mkdir(parents=True)
    chat = gemini.everyday()
    (chats / f"session-2026-11-15T02-00-{gemini.KEY[:8]}.jsonl").write_bytes(b"\n".join(chat.lines) + b"\n")
    fifo(chats / "session-2026-11-15T02-00-0b5c8a52.jsonl")
    (chats / "session-2026-11-15T02-01-1b5c8a52.jsonl").write_bytes(b"what is this\n")
    cut = gemini.Chat("aaaaaaaa-5f75-4f50-b786-51318336b280").begin()
    cut.user("Which bird? HALF")
    cut.model("The heron. HALF")
    lines = [line.replace(b"HALF", b"\\ud83d") for line in cut.lines]
    (chats / "session-2026-11-15T02-02-aaaaaaaa.jsonl").write_bytes(
        b"\n".join([*lines[1:2], lines[0], *lines[2:]]) + b"\n"
    )
    corpus = Corpus(home / ".local" / "share" / "opencode" / "opencode.db")
    corpus.session()
    corpus.user("Which boat?")
    corpus.assistant("The green one.")
    corpus.close()


def test_bad_transcripts_do_not_affect_the_others(home: Path) -> None:
    every_tool(home)
    database = home / ".local" / "share" / "opencode" / "opencode.db"
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("UPDATE session SET id = CAST(id AS BLOB)")
    opened.close()
    done = checked(cortext("import", cwd=home), 3)
    for name in ("1c5c8a52-6f3d", "rollout-", "session-2026-11-15T02-00-0b5c8a52"):
        assert any(name in line and "could not be captured" in line for line in done.out.splitlines()), (name, done.out)
    rows = {row["id"]: row for row in checked(cortext("list", "--json", cwd=home), 0).json}
    assert sorted(row["tool"] for row in rows.values()) == ["claude", "codex", "gemini", "gemini", "opencode"]
    boat = next(name for name, row in rows.items() if row["tool"] == "opencode")
    assert "The green one." in checked(cortext("show", boat, cwd=home), 0).out, "an id as bytes loses no text"
    bird = next(name for name, row in rows.items() if row["tool"] == "gemini" and row["message_count"] == 2)
    assert "1b5c8a52" in checked(cortext("doctor", cwd=home), 3).out.replace("\n            ", "")
    for words in (
        ("show", bird, "--json"),
        ("export", bird),
        ("export", bird, "--format", "json"),
        *(("export", bird, "--format", "native", "--ai", name) for name in ("claude", "gemini", "codex")),
        ("resume", bird, "--print"),
        ("search", "heron"),
    ):
        said = checked(cortext(*words, cwd=home), 0)
        native = words[-1] in ("claude", "gemini", "codex")
        assert "heron" in (Path(said.out.strip()).read_text() if native else said.out), (words, said.out)


def test_a_damaged_database_of_one_tool_does_not_affect_the_others(home: Path) -> None:
    every_tool(home)
    (home / ".local" / "share" / "opencode" / "opencode.db").write_bytes(b"SQLite format 3\0" + bytes(5_000))
    done = checked(cortext("sync", cwd=home), 3)
    assert {row["tool"] for row in cortext("list", "--json", cwd=home).json} == {"claude", "codex", "gemini"}, done.out


# ── our own files and settings ───────────────────────────────────────────────────────────────────────

DEEP = {".toml": b"a = " + b"[" * 100_000, ".json": b'{"a":' * 100_000}
SETTINGS = (
    "home/.config/cortext/config.toml", "ws/.workspace/config.toml", "ws/.workspace/registry.json",
    "ws/.workspace/installed.json", "home/.local/share/cortext/workspaces", "home/.local/share/cortext/notices",
    "home/.cache/cortext/catalogue.db", "home/.cache/cortext/search/current", "ws/.mcp.json",
    "ws/.claude/settings.json",
)  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_special_file_instead_of_a_regular_one_never_hangs(tmp_path: Path, name: str) -> None:
    home, ws = tmp_path / "home", tmp_path / "ws"
    home.mkdir()
    ws.mkdir()
    env = {"HOME": str(home)}
    checked(cortext("init", "--ai", "claude", cwd=ws, env=env), 0)
    checked(cortext("new", "plan", "The boat", cwd=ws, env=env), 0)
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, Callable[[Path], None]] = {kind: STRANGE[kind] for kind in ("fifo", "/dev/zero", "folder")}
    if path.suffix in DEEP:
        kinds["deep"] = deep
    for kind, make in kinds.items():
        if os.path.lexists(path):
            remove(path)
        make(path)
        for words in (("list",), ("doctor",), ("init", "--ai", "claude")):
            done = cortext(*words, cwd=ws, env=env)  # a hang is a timeout, unbounded memory a kill
            assert "Traceback" not in done.err and "bug in cortext" not in done.err, (kind, words, done.err)
            if name == "ws/.workspace/config.toml" and words != ("init", "--ai", "claude"):
                # What only reads works with the defaults, also beside a link that leads out of the workspace.
                assert done.code == (0 if words == ("list",) else 1), (kind, words, done.out, done.err)
                assert "config.toml" in done.out + done.err, (kind, words, done.out, done.err)
            elif name.endswith("config.toml"):
                assert done.code in (6, 7) and "config.toml" in done.err, (kind, words, done.err)
            else:
                assert done.code in (0, 3, 5, 6, 7), (kind, words, done.err)
        if os.path.lexists(path):
            remove(path)


def test_what_a_store_holds_beside_its_transcripts_is_told_until_it_is_read(home: Path) -> None:
    claude_files(home)
    strange = (home / ".factory" / "sessions" / "-p" / "notes.jsonl").resolve()
    strange.parent.mkdir(parents=True)
    strange.write_bytes(b'{"type":"session_begin","uid":"1"}\n{"type":"said","words":"Seven herons"}\n')

    imported = checked(cortext("import", cwd=home), 3)
    assert str(strange) in imported.out and "type, uid" in imported.out, "the file is named, and what it holds"
    assert str(strange) in checked(cortext("import", cwd=home), 3).out, "at the next import, too"
    for command in ("doctor", "tools", "list"):
        said = cortext(command, cwd=home)
        assert strange.name in (said.out + said.err).replace("\n", ""), command
    assert "No problems found" not in checked(cortext("doctor", cwd=home), 3).out

    strange.write_bytes(b"\n".join(droid.DroidSamples.lines) + b"\n")
    checked(cortext("import", cwd=home), 0)
    assert "No problems found" in checked(cortext("doctor", cwd=home), 0).out


def test_records_of_an_unknown_kind_are_told_until_they_are_read(home: Path) -> None:
    script, projects = claude_files(home)
    path = projects / f"{script.key}.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"hologram","sessionId":"x"}\n')

    for _ in range(2):  # at the second import nothing is new, and the first one's result still holds
        assert "hologram" in checked(cortext("import", cwd=home), 0).out
    for command in ("doctor", "tools"):
        assert "hologram" in cortext(command, cwd=home).out.replace("\n", ""), command
    assert "No problems found" not in checked(cortext("doctor", cwd=home), 0).out

    script.save(projects)  # whole again, and shorter: read from its start
    cortext("import", cwd=home)
    path.unlink()
    cortext("import", cwd=home)
    assert "hologram" not in checked(cortext("doctor", cwd=home), 0).out


def test_an_odd_metadata_file_costs_no_conversation(home: Path) -> None:
    vibe.save_vibe_2(home, b"\n".join(vibe.LINES) + b"\n")
    meta = next((home / ".vibe").rglob("meta.json"))
    fields = json.loads(meta.read_text())
    meta.write_text(json.dumps({**fields, "title": 7, "config": "x"}))

    checked(cortext("import", cwd=home), 0)
    assert f"vibe-{vibe.KEY}" in cortext("list", cwd=home).out

    meta.write_text(json.dumps({**fields, "session_id": 7}))
    assert str(meta.parent) in checked(cortext("import", cwd=home), 3).out


@pytest.mark.parametrize("has_sessions", [True, False])
def test_a_database_caught_while_it_was_starting_is_forgotten(home: Path, has_sessions: bool) -> None:
    claude_files(home)
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:  # the file exists, and its tables do not yet
        database.execute("CREATE TABLE migration (id TEXT)")
        database.commit()
    cortext("import", cwd=home)
    assert path.name in cortext("list", cwd=home).err

    path.unlink()
    corpus = Corpus(path)
    if has_sessions:
        corpus.session()
        corpus.user("How many herons?")
    corpus.close()
    checked(cortext("sync", cwd=home), 0)

    assert "not captured" not in checked(cortext("list", cwd=home), 0).err
    assert "No problems found" in checked(cortext("doctor", cwd=home), 0).out


@pytest.mark.req("TRUE-06")
@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("notes.txt", b"Seven herons\n", "text"),
        ("empty.jsonl", b"", "empty"),
        ("other.json", b'{"birds": [1, 2]}', "birds"),
        ("cut.json", b'[{"title": "Herons", "mapping": {"a": {"mess', "cut"),
        ("export.zip", b"PK\x03\x04 cut", "zip"),
        ("zeros", bytes(64), "zeros"),
        ("session.jsonl", b'{"type":"user","message":{"role":"user","content":"Sev', "cut"),
    ],
)
def test_a_named_file_is_imported_or_refused_with_the_reason(home: Path, name: str, data: bytes, found: str) -> None:
    path = home / "Downloads" / name
    path.parent.mkdir()
    path.write_bytes(data)

    for command in ("import", "sync"):
        refused = checked(cortext(command, str(path), cwd=home), 1)
        said = (refused.out + refused.err).replace("\n", " ")
        assert str(path) in said and found in said, said
        assert "expected a transcript of" in said or f"no message in {path} can be read" in said, said
    assert "transcript of Codex" in checked(cortext("import", "--from", "codex", str(path), cwd=home), 1).err

    assert str(path.parent) in checked(cortext("import", "--path", str(path.parent), cwd=home), 1).err


@pytest.mark.req("TRUE-06")
def test_a_named_file_that_ends_within_a_record_is_imported_and_named_as_cut(home: Path) -> None:
    path = codex.everyday().save(home / "elsewhere")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rstrip().rfind(b"\n") + 20])

    done = checked(cortext("import", str(path), "--json", cwd=home), 0)
    assert done.json[0]["counts"]["damaged"] == {"ends within a record": 1} and done.json[0]["messages"]
    assert f"{path}: ends within a record" in done.err
    checked(cortext("import", str(path), cwd=home), 0)
    assert "read in part" in checked(cortext("doctor", cwd=home), 0).out.replace("\n            ", "")
    listed = checked(cortext("list", cwd=home), 0)
    assert f"{path}: read in part since " in listed.err.replace("\n  ", ""), listed.err

    path.write_bytes(whole)
    assert checked(cortext("import", str(path), cwd=home), 0).err == ""
    assert "ends within" not in checked(cortext("doctor", cwd=home), 0).out
    assert "read in part" not in checked(cortext("list", cwd=home), 0).err


@pytest.mark.req("TRUE-06")
@pytest.mark.parametrize("words", [("import", ""), ("sync", ""), ("import", "--path", "")], ids=" ".join)
def test_an_empty_path_is_refused(home: Path, words: tuple[str, ...]) -> None:
    claude_files(home)
    assert "the path is empty" in checked(cortext(*words, cwd=home), 2).err
    assert checked(cortext("list", "--json", cwd=home), 0).json == []


@pytest.mark.req("TRUE-06")
def test_a_named_transcript_without_a_readable_message_is_an_error(home: Path) -> None:
    path = home / "rollout-2026-11-15T02-34-30-01a1dd0e-6349-7f93-8a94-5b12fdee4e31.jsonl"
    path.write_bytes(codex.everyday().lines[0][:200] + b"\n")

    refused = checked(cortext("import", str(path), cwd=home), 1)
    assert "no message in" in refused.err and "not JSON × 1" in refused.err

    path.write_bytes(b"".join(line + b"\n" for line in codex.everyday().lines))
    checked(cortext("import", str(path), cwd=home), 0)
    checked(cortext("import", str(path), cwd=home), 0)


def test_every_file_is_opened_in_a_way_that_cannot_hang() -> None:
    """Reading goes through `io.durable` (plain files, opened without waiting), except for our own and kernel files."""
    source = Path(__file__).parents[2] / "src" / "cortext"
    allowed = {
        "io/durable.py",
        "io/locks.py",
        "distribution.py",
        "faces/cortext/supervise.py",
        "embedding/build.py",
        "index/search/embed.py",
        "agents/assistant/context.py",
        "services/doctor.py",
        "services/workspace/running_chats.py",  # /proc
        "server/lease.py",
        "server/schema.py",
        "server/search.py",
        "faces/terminal/run.py",
    }
    found = []
    testing = source / "testing"  # it reads what a test has just written
    for path in sorted(path for path in source.rglob("*.py") if testing not in path.parents):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            plain = isinstance(node.func, ast.Name) and node.func.id == "open"
            whole = ours = False
            if isinstance(node.func, ast.Attribute):
                whole = node.func.attr in ("read_text", "read_bytes")
                ours = isinstance(node.func.value, ast.Name) and node.func.value.id == "durable"
            if (plain and not any(word.arg == "opener" for word in node.keywords)) or (whole and not ours):
                found.append(f"{path.relative_to(source)}:{node.lineno}")
    packaged = {
        "web/html/document.py",
        "web/app.py",
        "index/search/rank.py",
        "services/workspace/demo.py",
        "services/workspace/installed_tools.py",
        "services/workspace/registry.py",
    }  # part of the program itself
    assert [call for call in found if call.partition(":")[0] not in allowed | packaged] == []
