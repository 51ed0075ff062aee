"""`cortext watch`, as a user runs it: what tools write is captured, once, and it stops cleanly; its service files."""

from __future__ import annotations

import errno
import json
import os
import plistlib
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from watchfiles._rust_notify import WatchfilesRustInternalError

import cortext.tools as adapters
from cortext.errors import ConfigError
from cortext.services.capture import user_services
from cortext.services.capture import watching as module
from cortext.services.capture.capture import Capture
from cortext.services.capture.importing import ImportReport
from cortext.wiring.stores import Stores
from cortext.wiring.tools import folder_variables, tools
from tests.support.cli import SCRIPTS, cortext
from tests.tools.opencode.corpus import Corpus

KEY = "0f3c9d2e-1111-4222-8333-44445555666"


class Claude:
    """A transcript of Claude Code that grows."""

    def __init__(self, home: Path, number: int = 0) -> None:
        self.key = f"{KEY}{number}"
        self.path = home / ".claude" / "projects" / "-work-pond" / f"{self.key}.jsonl"
        self.count = 0

    def say(self, *texts: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            for text in texts:
                record = {
                    "type": "user",
                    "uuid": f"{self.key}-{self.count}",
                    "parentUuid": f"{self.key}-{self.count - 1}" if self.count else None,
                    "sessionId": self.key,
                    "cwd": "/work/pond",
                    "timestamp": f"2026-11-01T10:{self.count // 60:02}:{self.count % 60:02}.000Z",
                    "message": {"role": "user", "content": text},
                }
                file.write(json.dumps(record) + "\n")
                self.count += 1


class Watcher:
    """A running `cortext watch --json`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def next(self) -> dict[str, Any]:
        """Return what it reports next."""
        assert self.process.stdout is not None
        value: dict[str, Any] = json.loads(self.process.stdout.readline())
        return value

    def messages(self, count: int) -> None:
        """Wait until it has captured this many messages."""
        while count > 0:
            count -= self.next()["messages"]
        assert count == 0

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


@contextmanager
def watching(folder: Path, *more: str) -> Iterator[Watcher]:
    command = [str(SCRIPTS / "cortext"), "watch", "--json", *more]
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            yield Watcher(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _texts(folder: Path) -> list[str]:
    rows = cortext("list", "--json", cwd=folder).json
    shown = [cortext("show", row["id"], "--json", cwd=folder).json for row in rows]
    return sorted(message["content"] for session in shown for message in session["messages"])


@pytest.mark.req("TOOL-12")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_changes_is_captured_and_a_signal_ends_it(home: Path, tmp_path: Path, number: int) -> None:
    claude = Claude(home)
    claude.say("Already there.")
    with watching(tmp_path) as watcher:
        watcher.messages(1)
        claude.say("How many herons are there?")
        watcher.messages(1)
        Claude(home, 1).say("A new conversation.")
        watcher.messages(1)
        status = cortext("watch", "--status", "--json", cwd=tmp_path).json
        assert (status["running"], status["process"]) == (True, watcher.process.pid)
        second = cortext("watch", cwd=tmp_path)
        assert (second.code, "already running" in second.err) == (4, True)
        assert watcher.end(number) == 0
    assert (tmp_path / "errors").read_text() == ""
    assert _texts(tmp_path) == ["A new conversation.", "Already there.", "How many herons are there?"]
    assert cortext("watch", "--status", "--json", cwd=tmp_path).json["running"] is False


@pytest.mark.req("TOOL-12")
def test_a_tool_that_is_first_used_while_it_watches_is_noticed(home: Path, tmp_path: Path) -> None:
    with watching(tmp_path) as watcher:
        while not cortext("watch", "--status", "--json", cwd=tmp_path).json["running"]:
            assert watcher.process.poll() is None
        claude = Claude(home)
        claude.say("The first words ever.")
        watcher.messages(1)
        claude.say("And the next.")
        watcher.messages(1)
        assert watcher.end(signal.SIGTERM) == 0


@pytest.mark.req("TOOL-12")
def test_a_database_that_is_changed_in_place_is_noticed(home: Path, tmp_path: Path) -> None:
    Claude(home).say("Something to begin with.")
    with watching(tmp_path) as watcher:
        watcher.messages(1)
        corpus = Corpus(home / ".local/share/opencode/opencode.db")
        corpus.session()
        corpus.user("How many storks are there?")
        watcher.messages(1)
        corpus.user("And cranes?")
        watcher.messages(1)
        corpus.close()
        assert watcher.end(signal.SIGTERM) == 0
    assert "How many storks are there?" in _texts(tmp_path)


@pytest.mark.req("TOOL-12")
def test_hooks_and_imports_beside_it_store_nothing_twice(home: Path, tmp_path: Path) -> None:
    talks = [Claude(home, number) for number in range(3)]
    talks[0].say("Begin.")
    with watching(tmp_path) as watcher:
        watcher.messages(1)
        payloads = [
            json.dumps(
                {
                    "hook_event_name": "Stop",
                    "session_id": talk.key,
                    "transcript_path": str(talk.path),
                    "cwd": str(tmp_path),
                }
            )
            for talk in talks
        ]
        for turn in range(5):
            for talk, payload in zip(talks, payloads, strict=True):
                talk.say(f"Turn {turn} of {talk.key}.")
                hook = subprocess.Popen([str(SCRIPTS / "cortext"), "hook", "claude"], stdin=subprocess.PIPE, text=True)
                hook.communicate(payload, timeout=60)
            assert cortext("sync", cwd=tmp_path).code == 0
        assert watcher.end(signal.SIGTERM) == 0
    expected = ["Begin.", *(f"Turn {turn} of {talk.key}." for turn in range(5) for talk in talks)]
    assert _texts(tmp_path) == sorted(expected)


@pytest.mark.req("TOOL-12")
def test_once_imports_and_stops(home: Path, tmp_path: Path) -> None:
    Claude(home).say("One.", "Two.")

    done = cortext("watch", "--once", "--json", cwd=tmp_path)
    assert (done.code, json.loads(done.out)["messages"]) == (0, 2)
    assert cortext("watch", "--once", "--json", cwd=tmp_path).out == ""


@pytest.mark.req("TOOL-12")
def test_a_transcript_that_cannot_be_read_does_not_stop_it(home: Path, tmp_path: Path) -> None:
    good, bad = Claude(home), Claude(home, 1)
    good.say("Begin.")
    with watching(tmp_path) as watcher:
        watcher.messages(1)
        bad.path.symlink_to(tmp_path / "nowhere")
        bad.path.with_name(f"{KEY}2.jsonl").write_bytes(b"\xff\xfe not a record\n")
        good.say("Still here.")
        watcher.messages(1)
        assert watcher.end(signal.SIGTERM) == 0


@pytest.mark.req("TOOL-12")
@pytest.mark.parametrize("error", [OSError, WatchfilesRustInternalError])
def test_without_notifications_everything_is_checked_more_often(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def no_watches(*roots: str, **options: Any) -> Iterator[Any]:
        if roots:
            raise error("OS file watch limit reached")
        yield

    monkeypatch.setattr("watchfiles.watch", no_watches)
    monkeypatch.setattr(module, "UNWATCHED_S", 0.0)
    monkeypatch.setattr(module, "LOOK_MS", 10)
    claude = Claude(home)
    claude.say("Before.")
    captured: list[int] = []
    said: list[str] = []
    stop = threading.Event()

    def report(capture: Capture, reports: ImportReport, was_all: bool) -> None:
        captured.extend(item.messages for item in reports.tools.values() if item.messages)
        if captured == [1] and claude.count == 1:
            claude.say("After.")
        if len(captured) == 2:
            stop.set()

    module.Watching(tools(), lambda: Stores(str(tmp_path)).capture(), report, said.append, stop).run()
    assert captured == [1, 1]
    assert "watch limit reached" in said[0]


@pytest.mark.req("TOOL-12")
def test_a_failure_that_concerns_everything_is_reported_and_tried_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    Claude(home).say("Before.")
    captured: list[int] = []
    said: list[str] = []
    stop = threading.Event()

    def report(capture: Capture, reports: ImportReport, was_all: bool) -> None:
        captured.extend(item.messages for item in reports.tools.values() if item.messages)
        if not said:
            raise OSError(errno.ENOSPC, "No space left on device")
        stop.set()

    module.Watching(tools(), lambda: Stores(str(tmp_path)).capture(), report, said.append, stop).run()
    assert captured == [1]
    assert len(said) == 1 and "No space left on device" in said[0] and "trying again" in said[0]


# ── the service ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-12")
def test_the_systemd_unit_is_written_started_and_removed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    fake = tmp_path / "bin" / "systemctl"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >>"{calls}"\n', encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{SCRIPTS}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CODEX_HOME", "/odd $place %x")
    monkeypatch.setenv("KIMI_CODE_HOME", '/odd "\\ place')
    path = home / ".config/systemd/user/cortext-watch.service"

    installed = cortext("watch", "--install", cwd=tmp_path)
    assert (installed.code, installed.err) == (0, "")
    unit = path.read_text(encoding="utf-8")
    assert f'ExecStart="{SCRIPTS / "cortext"}" "watch"\n' in unit
    # By systemd.exec(5), "$" has no special meaning in Environment=; by systemd.service(5), it has in ExecStart=.
    assert 'Environment="CODEX_HOME=/odd $place %%x"\n' in unit
    assert 'Environment="KIMI_CODE_HOME=/odd \\"\\\\ place"\n' in unit
    if shutil.which("systemd-analyze"):
        words = ["systemd-analyze", "--user", "verify", str(path)]
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
        checked = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert (checked.returncode, str(path) in checked.stderr) == (0, False), checked.stderr
    assert cortext("watch", "--status", "--json", cwd=tmp_path).json["installed"] is True
    assert cortext("watch", "--uninstall", cwd=tmp_path).code == 0
    assert not path.exists()
    name = path.name
    assert calls.read_text(encoding="utf-8").splitlines() == [
        "--user daemon-reload",
        f"--user enable {name}",
        f"--user restart {name}",
        f"--user disable --now {name}",
        "--user daemon-reload",
    ]


@pytest.mark.req("TOOL-12")
def test_the_service_knows_where_every_tool_keeps_its_files() -> None:
    # Those that say where a program's trust or a hook's project is: no conversations are there.
    others = {"HOME", "PATH", "TMPDIR", "COPILOT_PROJECT_DIR"}
    others |= {"GEMINI_CLI_TRUSTED_FOLDERS_PATH", "QWEN_CODE_TRUSTED_FOLDERS_PATH"}
    sources = Path(str(adapters.__file__)).parent.rglob("*.py")
    read = {name for path in sources for name in re.findall(r'environ\.get\(\s*"([A-Z_]+)"', path.read_text("utf-8"))}
    folders = {name for name in read if re.search(r"_(HOME|DIR|DB|PATH|ROOT)$", name) and not name.startswith("XDG_")}

    assert {"CODEX_HOME", "QWEN_RUNTIME_DIR", "GOOSE_PATH_ROOT"} <= folders
    assert folders - others == set(folder_variables())


@pytest.mark.req("TOOL-12")
def test_a_missing_service_manager_is_reported(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)

    done = user_services.install(["cortext"])
    assert done.problem == "systemctl was not found" and os.path.exists(done.path)
    assert user_services.uninstall().installed is False
    assert not os.path.exists(done.path)


@pytest.mark.req("TOOL-12")
def test_on_macos_it_is_a_launchd_agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("shutil.which", lambda name: None)

    done = user_services.install(["/opt/cortext"])
    assert done.path == str(home / "Library/LaunchAgents/cortext.watch.plist")
    agent = plistlib.loads(Path(done.path).read_bytes())
    assert agent["ProgramArguments"] == ["/opt/cortext", "watch"]
    assert agent["RunAtLoad"] is True
    assert not os.path.exists(user_services.uninstall().path)


@pytest.mark.req("TOOL-12")
def test_without_the_library_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="watchfiles"):
        module.require()
