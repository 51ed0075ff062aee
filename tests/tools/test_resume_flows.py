"""`cortext resume` from the shell with the real programs: empty, moved and compacted conversations, and failures."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import SCRIPTS
from tests.support.desk import NAMES, Desk
from tests.support.model_server import ModelServer, Reply
from tests.support.runners import MODEL, Tool
from tests.support.screen import Screen
from tests.support.waiting import wait_until
from tests.tools.codex.test_real import ask

from cortext.services.resume.receipt import NOTES

# In a used home, Gemini CLI first asks the model for a title of its earlier session. Unused answers do no harm.
ENOUGH = 6
# These start in less than a second: they also open the moved conversation; `tests.tools.matrix --moves` does for all.
FAST = ("claude", "codex")
OPENCODE_MODEL = {"providerID": "test", "modelID": MODEL}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server)


def _resume(desk: Desk, folder: Path, *arguments: str) -> Screen:
    """Run `cortext resume` in a terminal of this desk, which opens the tool's own screen."""
    return Screen(desk.home.parent, [str(SCRIPTS / "cortext"), "resume", *arguments], desk.env, folder, "150x70")


def _row(desk: Desk, folder: Path, number: int = 0) -> dict[str, Any]:
    row: dict[str, Any] = desk.cortext("list", "--here", "--json", cwd=folder).json[number]
    return row


def _arguments_in(folder: Path) -> str:
    """Return the arguments of every process whose working directory is this folder, as every user can read them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue  # it has ended, or belongs to another user
    return "\n".join(found)


def _log(folder: Path) -> str:
    return next(folder.glob("conversations/*/*/.session/messages.jsonl")).read_text(encoding="utf-8")


def _simplify(folder: Path) -> None:
    """Shorten the command, and remove the servers and hooks that a program would ask the user to approve."""
    (folder / ".workspace" / "commands" / "plan.md").write_text("# Plan\n\nTopic: {arguments}\n", encoding="utf-8")
    for name in (".mcp.json", ".claude/settings.json"):
        (folder / name).unlink(missing_ok=True)


@pytest.mark.real_tool
@pytest.mark.req("FLOW-02", "FLOW-09", "SESS-004d", "SAFE-09")
@pytest.mark.parametrize(
    "name", ["claude", "codex", *(pytest.param(name, marks=pytest.mark.repeats) for name in ("gemini", "opencode"))]
)
def test_an_empty_conversation_is_opened_captured_and_moved(desk: Desk, name: str) -> None:
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
    assert desk.cortext("new", "plan", "Herons at the pond", cwd=folder).code == 0
    _simplify(folder)
    desk.use(name, folder)
    planned = desk.cortext("resume", "001", "--ai", name, "--dry-run", cwd=folder)
    assert planned.code == 0, planned.err
    assert "begins with the command and the context block" in planned.out
    desk.server.push(*["The heron is listening."] * ENOUGH)
    with _resume(desk, folder, "001", "--ai", name) as screen:
        request = desk.server.wait_for(lambda turn: "nothing has been said in it yet" in str(turn.body), 170)
        assert "Topic: " in str(request.body) and "Herons at the pond" in str(request.body), "the command and the topic"
        screen.wait_for("heron is listening", timeout=120)
        assert _arguments_in(folder), "the program and its child processes"
        assert "Herons at the pond" not in _arguments_in(folder), "every user can read the arguments"
        desk.say(screen, "Count the herons, please.")
        wait_until(lambda: desk.cortext("sync", "--from", name, cwd=folder).code == 0 and _log(folder).count("\n") >= 3)
    row = _row(desk, folder)
    assert (row["status"], row["tool"]) == ("active", name)
    assert "nothing has been said" not in _log(folder), "the context block is not a message of the user"
    assert "The heron is listening." in _log(folder)
    assert "Count the herons" in _log(folder)

    # After its folder is renamed, the tool does not find its own session any more.
    assert "its own session" in desk.cortext("resume", "001", "--dry-run", cwd=folder).out
    moved = desk.project("moved")
    moved.rmdir()
    folder.rename(moved)
    assert "a new native session" in desk.cortext("resume", "001", "--dry-run", cwd=moved).out
    if name not in FAST:
        return
    desk.server.forget()
    desk.server.push(*["Still here, after the move."] * ENOUGH)
    with _resume(desk, moved, "001") as screen:
        desk.server.wait_for(lambda turn: "Count the herons" in str(turn.body) and "[RESUMED" in str(turn.body), 170)
        screen.wait_for("after the move", timeout=120)
        assert "Herons at the pond" not in _arguments_in(moved)


@pytest.mark.req("FLOW-03", "SESS-005c")
def test_a_tool_that_does_not_start_changes_nothing(desk: Desk) -> None:
    """Covers a program that exits at once and one that cannot be run, for a paused and a completed conversation."""
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
    for title in ("Herons at the pond", "Storks on the roof"):
        assert desk.cortext("new", "plan", title, cwd=folder).code == 0
    for log in folder.glob("conversations/*/*/.session/messages.jsonl"):
        log.write_text('{"role": "user", "content": "Hm?", "timestamp": "2026-01-14T10:00:00Z"}\n', encoding="utf-8")
    assert desk.cortext("stop", "001", cwd=folder).code == 0
    assert desk.cortext("complete", "002", cwd=folder).code == 0
    rows = desk.cortext("list", "--here", "--json", cwd=folder).json
    files = {path: path.read_bytes() for path in folder.rglob("session.json")}
    claude = desk.bin / "claude"
    claude.unlink()
    claude.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 2.1.325 && exit 0\necho broken >&2; exit 3\n')
    claude.chmod(0o755)
    for number in ("001", "002"):
        failed = desk.cortext("resume", number, "--ai", "claude", "--force", cwd=folder)
        assert failed.code == 3 and "ended at once with exit status 3" in failed.err
    assert desk.cortext("list", "--here", "--json", cwd=folder).json == rows
    assert {path: path.read_bytes() for path in folder.rglob("session.json")} == files
    projects = desk.home / ".claude/projects"
    sessions = sorted(projects.rglob("*.jsonl"))
    claude.write_text("#!/nonexistent/interpreter\n")
    done = desk.cortext("resume", "001", "--ai", "claude", cwd=folder)
    assert done.code != 0 and "could not be started" in done.err, done.err
    assert "Traceback" not in done.err
    assert sorted(projects.rglob("*.jsonl")) == sessions, "the session that was written for it is removed again"
    assert desk.cortext("list", "--here", "--json", cwd=folder).json == rows
    assert {path: path.read_bytes() for path in folder.rglob("session.json")} == files


@pytest.mark.real_tool
@pytest.mark.req("FLOW-03", "SESS-005b")
def test_resuming_an_old_conversation_counts_as_activity(desk: Desk) -> None:
    """The start of the tool makes it active, and the next `cortext list` does not pause it again."""
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
    assert desk.cortext("new", "plan", "Herons at the pond", cwd=folder).code == 0
    log = next(folder.glob("conversations/*/*/.session/messages.jsonl"))
    log.write_text('{"role": "user", "content": "Hm?", "timestamp": "2026-01-14T10:00:00Z"}\n', encoding="utf-8")
    meta = log.with_name("session.json")
    _backdate(meta)
    assert desk.cortext("stop", "001", cwd=folder).code == 0
    assert _row(desk, folder)["status"] == "paused"
    (folder / ".mcp.json").unlink()  # the program would first ask the user to approve it
    desk.server.push(*["Picked up."] * ENOUGH)
    with _resume(desk, folder, "001", "--ai", "claude") as screen:
        screen.wait_for("Picked up.", timeout=120)
        row = _row(desk, folder)
        assert row["status"] == "active", "the start of the tool activated it"
        assert row["tool"] == "claude"
        assert _row(desk, folder)["status"] == "active", "a second `cortext list` does not pause it"


def _backdate(meta: Path) -> None:
    """Set the conversation's times to January."""
    fields = json.loads(meta.read_text(encoding="utf-8"))
    for name in ("created_at", "last_active"):
        fields[name] = "2026-01-14T10:00:00.000Z"
    meta.write_text(json.dumps(fields), encoding="utf-8")
    os.utime(meta)


def _receipt(desk: Desk, folder: Path, *more: str) -> dict[str, Any]:
    done = desk.cortext("resume", "1", "--dry-run", "--json", *more, cwd=folder)
    assert done.code == 0, done.err
    answer: dict[str, Any] = done.json
    return answer


@pytest.mark.real_tool
@pytest.mark.req("FLOW-06", "SESS-004d")
def test_the_receipt_of_a_compacted_session_says_what_the_model_gets(desk: Desk) -> None:
    folder = desk.project("p")
    claude = desk.tools["claude"]
    texts = ["Where do herons nest?", "In tall trees.", "And storks?", "On roofs."]
    desk.server.push(texts[1])
    assert claude.run(texts[0], cwd=folder).returncode == 0
    key = claude.sessions()[-1]
    desk.server.push("<summary>Birds were talked about.</summary>")
    assert claude.run("/compact", cwd=folder, resume=key).returncode == 0
    desk.server.push(texts[3])
    assert claude.run(texts[2], cwd=folder, resume=key).returncode == 0
    assert desk.cortext("import", "--from", "claude", cwd=folder).code == 0

    planned = _receipt(desk, folder)
    desk.server.push("Fine.")
    assert claude.run("Go on.", cwd=folder, resume=key).returncode == 0
    sent = str(desk.server.turns[-1].body)
    assert planned["how"] == "its own session, as it is"
    assert planned["receipt"]["messages"] == sum(text in sent for text in texts) == 2
    assert planned["receipt"]["of_messages"] == 4
    assert any("compaction" in kind and count == 2 for kind, count in planned["receipt"]["left_out"].items())
    assert any("--rewrite" in note for note in planned["warnings"])

    assert desk.cortext("sync", "--from", "claude", cwd=folder).code == 0
    rewritten = _receipt(desk, folder, "--rewrite")
    assert rewritten["receipt"]["messages"] == rewritten["receipt"]["of_messages"] == 6
    assert rewritten["receipt"]["left_out"].keys() <= {NOTES}
    desk.server.push(*["Picked up whole."] * ENOUGH)
    with _resume(desk, folder, "1", "--rewrite") as screen:
        screen.wait_for("Picked up whole.", timeout=120)
    request = desk.server.wait_for(lambda turn: "[RESUMED CONVERSATION]" in str(turn.body), 60)
    assert all(text in str(request.body) for text in texts), "every message is sent"


@pytest.mark.real_tool
@pytest.mark.req("FLOW-06", "SESS-004d")
@pytest.mark.parametrize("name", ["codex", pytest.param("opencode", marks=pytest.mark.repeats)])
def test_a_session_that_codex_or_opencode_compacted_is_carried_over_in_full(desk: Desk, name: str) -> None:
    folder = desk.project("p")
    tool = desk.tools[name]
    texts = ["Where do herons nest?", "In tall trees.", "And storks?", "On roofs."]
    desk.server.push(texts[1])
    assert tool.run(texts[0], cwd=folder).returncode == 0
    key = tool.sessions()[-1]
    desk.server.push("Birds were talked about.")
    (_compact_codex if name == "codex" else compact_opencode)(tool, folder, key)
    desk.server.push(texts[3])
    assert tool.run(texts[2], cwd=folder, resume=key).returncode == 0
    assert texts[1] not in str(desk.server.turns[-1].body), "the program itself no longer sends it"
    assert desk.cortext("import", "--from", name, cwd=folder).code == 0

    planned = _receipt(desk, folder)
    receipt = planned["receipt"]
    assert (planned["how"], receipt["messages"], receipt["of_messages"]) == ("a new native session", 4, 4)
    assert any("compacted its own session" in note for note in planned["warnings"])
    desk.server.push(*["Picked up whole."] * ENOUGH)
    with _resume(desk, folder, "1") as screen:
        screen.wait_for("Picked up whole.", timeout=120)
    request = desk.server.wait_for(lambda turn: "[RESUMED CONVERSATION]" in str(turn.body), 60)
    assert all(text in str(request.body) for text in texts), "every message is sent"


@pytest.mark.real_tool
@pytest.mark.req("TRUE-01", "FLOW-06")
def test_a_session_of_codex_with_another_provider_is_written_anew(desk: Desk) -> None:
    folder = desk.project("p")
    own = desk.use("codex", folder)
    assert desk.cortext("import", "--from", "codex", cwd=folder).code == 0
    assert _receipt(desk, folder)["how"] == "its own session, as it is"
    codex = desk.tools["codex"]
    codex.choose_another_model()
    codex.trust(folder)
    file = codex.files_of(own)
    before = file.read_bytes()

    planned = _receipt(desk, folder)
    assert (planned["how"], planned["receipt"]["messages"]) == ("a new native session", 2)
    assert any("'test'" in note and "'another'" in note for note in planned["warnings"])
    desk.server.push(*["Picked up anew."] * ENOUGH)
    with _resume(desk, folder, "1") as screen:
        screen.wait_for("Picked up anew.", timeout=120)
    request = desk.server.wait_for(lambda turn: "[RESUMED CONVERSATION]" in str(turn.body), 60)
    assert request.body["model"] == "another-model"
    assert all(text in request.texts() for text in ("Please put the kettle on.", "The kettle is on."))
    assert file.read_bytes() == before


def _compact_codex(tool: Tool, folder: Path, key: str) -> None:
    """Do what `/compact` does on its screen."""
    resumed = {"method": "thread/resume", "params": {"threadId": key}}
    compact = {"method": "thread/compact/start", "params": {"threadId": key}}
    ask(tool, folder, resumed, compact, until="turn/completed")


def compact_opencode(tool: Tool, folder: Path, key: str) -> None:
    """Do what `/compact` does on its screen, through its own server."""
    with opencode_server(tool, folder) as post:
        assert post(f"/session/{key}/summarize", OPENCODE_MODEL) is True


@contextmanager
def opencode_server(tool: Tool, folder: Path) -> Iterator[Callable[[str, object], object]]:
    """Run the server of OpenCode; yield a function that sends it a request."""
    command = [tool.program, "serve", "--port", "0", "--hostname", "127.0.0.1"]
    process = subprocess.Popen(
        command, cwd=folder, env=tool.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        assert process.stdout is not None
        address = next(line.split()[-1] for line in process.stdout if "http://127.0.0.1" in line)

        def post(path: str, body: object) -> object:
            data, heads = json.dumps(body).encode(), {"content-type": "application/json"}
            with direct.open(urllib.request.Request(address + path, data, heads), timeout=90) as answer:
                return json.loads(answer.read())

        yield post
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.real_tool
@pytest.mark.req("FLOW-06", "SESS-004d")
def test_the_receipt_of_gemini_cli_counts_what_it_omits_and_repeats(desk: Desk) -> None:
    folder = desk.project("p")
    gemini = desk.tools["gemini"]
    (folder / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
    calls = [gemini.shell(f"cat note.txt; echo {number}").tool_calls[0] for number in range(3)]
    desk.server.push(Reply(text="Let me look.", tool_calls=tuple(calls)), "It stands still.")
    assert gemini.run("What does the note say?", cwd=folder).returncode == 0
    key = gemini.sessions()[-1]
    desk.server.push("A question mark.")
    assert gemini.run("? what is this", cwd=folder, resume=key).returncode == 0
    assert desk.cortext("import", "--from", "gemini", cwd=folder).code == 0

    planned = _receipt(desk, folder)
    desk.server.push("Fine.")
    assert gemini.run("Go on.", cwd=folder, resume=key).returncode == 0
    turns = desk.server.turns[-1].conversation
    texts = "\n".join(turn.text for turn in turns if turn.kind == "text")
    results = sum(turn.kind == "tool_result" for turn in turns)
    receipt = planned["receipt"]
    assert "? what is this" not in texts and "A question mark." in texts
    assert receipt["of_messages"] - receipt["messages"] == 1
    assert any("begins with /" in kind and count == 1 for kind, count in receipt["left_out"].items())
    doubled = sum(count for kind, count in receipt["changed"].items() if "more than once" in kind)
    assert receipt["tool_calls"] == 3
    assert results == 3 + doubled

    assert desk.cortext("sync", "--from", "gemini", cwd=folder).code == 0
    rewritten = _receipt(desk, folder, "--rewrite")["receipt"]
    assert rewritten["messages"] == rewritten["of_messages"]
    assert rewritten["left_out"].keys() <= {NOTES}


@pytest.mark.real_tool
@pytest.mark.req("FLOW-06", "STORE-13")
def test_a_native_export_is_not_imported_as_a_second_conversation(desk: Desk) -> None:
    folder = desk.project("p")
    desk.use("codex", folder)
    assert desk.cortext("import", cwd=folder).code == 0
    before = desk.cortext("list", "--json", cwd=folder).json
    assert len(before) == 1
    for name in NAMES:
        done = desk.cortext("export", before[0]["id"], "--format", "native", "--ai", name, cwd=folder)
        assert done.code == 0, done.err
    again = desk.cortext("import", "--json", cwd=folder)
    assert again.code == 0, again.err
    assert sum(report["created"] + report["messages"] for report in again.json) == 0
    assert desk.cortext("list", "--json", cwd=folder).json == before


@pytest.mark.req("FLOW-09")
def test_an_untested_version_is_noted_and_a_typing_error_asks_again(desk: Desk) -> None:
    folder = desk.project("w")
    for name in NAMES:
        (desk.bin / name).unlink()
        (desk.bin / name).write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 9.9.9 && exit\necho "this is {name}"\n')
        (desk.bin / name).chmod(0o755)
    assert "Claude Code 9.9.9 was not tested" in desk.cortext("init", "--ai", "claude", cwd=folder).out
    assert desk.cortext("new", "plan", "Herons", cwd=folder).code == 0
    assert "Codex 9.9.9 was not tested" in desk.cortext("doctor", cwd=folder).out
    with _resume(desk, folder, "001") as screen:
        screen.wait_for("Continue in which tool?")
        screen.type("cluade")
        screen.press("Enter")
        screen.wait_for("unknown tool 'cluade'")
        screen.type("claude")
        screen.press("Enter")
        screen.wait_for("Claude Code 9.9.9 was not tested", "this is claude")
