"""Secrets planted into every existing field never leave a store: one test for each way out."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cortext.agents.choosing import MaskingModel
from cortext.agents.llm.base import Event, Request
from cortext.agents.llm.connection import Fault
from cortext.agents.talk.context import View
from cortext.model.answer import Done, Usage
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.handover import carry_out
from cortext.services.resume.planning import make_plan
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.agents.alfred.kit import Bot, Parrot, alfred, environment
from tests.faces.pond import Pond, served
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext, git
from tests.support.planting import messages, plant, sound_messages
from tests.support.telegram_server import TelegramServer

pytestmark = pytest.mark.req("SAFE-09", "SAFE-02")

NAME = "001-plan-planted"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _secret(path: str) -> str:
    """Return a different key for each field, so that a leak shows where it came from."""
    drawn = random.Random(hashlib.sha256(path.encode()).digest())
    return "ghp_" + "".join(drawn.choice(_LETTERS) for _ in range(36))


class Planted:
    """The planted secrets, by field."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}

    def word(self, path: str) -> str:
        self.secrets[path] = _secret(path)
        return f"herons {self.secrets[path]} fly"

    def leaks(self, text: str) -> list[str]:
        """Return the fields whose secret occurs in a text, completely or by half."""
        return [path for path, secret in self.secrets.items() if secret[:20] in text or secret[-20:] in text]


@pytest.fixture
def planted() -> Planted:
    return Planted()


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: Planted) -> Path:
    folder = committed_workspace(tmp_path / "w", monkeypatch)
    plant(WorkspaceStore(str(folder)), NAME, planted.word)
    assert len(planted.secrets) > 100
    return folder


def _found(workspace: Path) -> StoredConversation:
    named_store = Stores(str(workspace)).workspace_store()
    return StoredConversation(named_store, named_store.store.get(NAME))


def _everything_under(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file())
    return "\n".join(f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in files)


def test_an_export_a_packet_and_an_answer_contain_no_secret(workspace: Path, planted: Planted, home: Path) -> None:
    for words in (
        ["export", NAME],
        ["export", NAME, "--format", "json"],
        ["resume", NAME, "--print"],
        ["resume", NAME, "--print", "--json"],
        ["resume", NAME, "--print", "--tokens", "300"],
    ):
        done = cortext(*words, cwd=workspace)
        assert done.code == 0 and "herons" in done.out and "masked" in done.out, words
        assert planted.leaks(done.out + done.err) == [], words
    chat = ClaudeTalk(workspace, real_time=True)
    for reply in (chat.resume(), chat.resume("herons of another pond"), chat.resume(NAME)):
        assert "herons" in reply and planted.leaks(reply) == []
    # What is explicitly requested, or shown on the user's own screen, is verbatim.
    assert planted.leaks(cortext("export", NAME, "--unmasked", cwd=workspace).out)
    assert planted.leaks(cortext("show", NAME, "--json", cwd=workspace).out)


def test_the_mcp_server_returns_no_secret(workspace: Path, planted: Planted, home: Path) -> None:
    with served(Pond(home, workspace), budget=30_000) as client:
        for tool, given in (
            ("list_sessions", {}),
            ("get_session", {"id": NAME}),
            ("search_workspace", {"query": "herons"}),
            ("get_context", {"topic": "herons"}),
            ("get_decision_history", {"topic": "herons"}),
            ("resume_session", {}),
            ("resume_session", {"id": NAME}),
            ("save_session", {"id": NAME}),
            ("get_session", {"id": _secret("asked for")}),
        ):
            reply = client(tool, **given)
            assert planted.leaks(reply.text + json.dumps(reply.data)) == [], tool


@pytest.mark.parametrize("name", ["claude", "gemini", "codex"])
def test_a_native_session_contains_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: Planted, home: Path, name: str
) -> None:
    workspace = committed_workspace(tmp_path / "w", monkeypatch)
    plant(WorkspaceStore(str(workspace)), NAME, planted.word, sound_messages)
    done = cortext("export", NAME, "--format", "native", "--ai", name, cwd=workspace)
    assert done.code == 0, done.err
    written = Path(done.out.strip()).read_text(encoding="utf-8")
    assert "herons" in written and planted.leaks(written) == []
    stores = Stores(str(workspace))
    tool = tools.native_writer(name)
    plan = make_plan(_found(workspace), tool, command="Go on.")
    assert "herons" in plan.prompt and planted.leaks(plan.prompt) == []
    if tool.detect() is not None or name == "claude":
        launch = carry_out(plan, _found(workspace), tool, stores.capture())
        assert planted.leaks(" ".join(launch.argv) + str(launch.env)) == []
    assert planted.leaks(_everything_under(home / f".{name}")) == []


def test_a_commit_contains_no_secret(workspace: Path, planted: Planted) -> None:
    done = cortext("stop", NAME, cwd=workspace)
    assert done.code == 0, done.err
    history = git(workspace, "log", "-p", "--all", "--stat", "--format=%H %an %s%n%b")
    assert NAME in history and "herons" in history
    assert planted.leaks(history) == []
    # The session can still be resumed.
    assert "herons" in cortext("resume", NAME, "--print", cwd=workspace).out


def test_nothing_is_named_after_a_secret_in_a_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = committed_workspace(tmp_path / "w", monkeypatch)
    secret = _secret("topic")
    chat = ClaudeTalk(folder, real_time=True)
    chat.say(f"/workspace.plan Rotate {secret}", "Let us plan.", f"The new one is {_secret('said')}", "Noted.")
    chat.end()
    assert cortext("new", "plan", f"Another {secret}", cwd=folder).code == 0
    fork = cortext("fork", "001", cwd=folder)
    assert fork.code == 0, fork.err
    assert cortext("stop", "002", cwd=folder).code == 0
    whole = git(folder, "log", "-p", "--all", "--stat") + git(folder, "status", "--short", "-uall")
    assert "rotate" in whole.lower()
    names = "\n".join(str(path) for path in folder.rglob("*"))
    for text in (whole, names, _everything_under(folder / "conversations")):
        assert secret not in text and secret.lower() not in text.lower()
        assert _secret("said") not in text


class _Recorder:
    """A model that records its requests."""

    name, context, takes_tools = "recorder", 100_000, True

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def stream(self, request: Request) -> Iterator[Event]:
        self.requests.append(request)
        yield Done("end", Usage(1, 1), "recorder")

    def cancel(self) -> None: ...

    def warm(self) -> None: ...


def test_a_model_is_sent_no_secret(planted: Planted) -> None:
    view = View()
    view.load(messages(planted.word))
    recorder = _Recorder()
    list(MaskingModel(recorder).stream(Request(messages=view.messages, system=planted.word("system"))))
    assert "herons" in repr(recorder.requests[0])
    assert planted.leaks(repr(recorder.requests[0])) == []


def _answered(telegram: TelegramServer, before: int) -> bool:
    said = telegram.said(4711)
    return len(said) > before and said[-1] not in ("", "…")


def test_telegram_gets_no_secret_even_while_the_reply_grows(home: Path, planted: Planted) -> None:
    with Parrot() as model, TelegramServer() as telegram:
        env = environment(home, model, telegram)
        # Stored before by another face, verbatim.
        assert alfred(env, "--new", f"The key is {planted.word('desk')}").code == 0
        model.slow = 3.0  # long enough for an edit in the middle
        with Bot(env, telegram) as bot:
            for words in (planted.word("asked"), "/sessions", "/search herons", "/export", "/context", "/title x"):
                before = len(telegram.said(4711))
                telegram.say(4711, words, user=4711)
                telegram.wait_for(partial(_answered, telegram, before))
            assert any("herons [masked" in text for text in telegram.said(4711))
        everything = json.dumps([str(call) for call in telegram.calls]) + json.dumps(telegram.said(4711)) + bot.logged()
    assert planted.leaks(everything) == []


def test_errors_and_logs_contain_no_secret(tmp_path: Path, home: Path, planted: Planted) -> None:
    secret = _secret("key")
    planted.secrets["key"] = secret
    fault = Fault("gemini/x", place=f"https://models.test/v1?key={secret}")
    for failed in (fault.no_connection(f"GET https://models.test/v1?key={secret} failed"), fault.silent(3)):
        assert "models.test" in failed.error.message and planted.leaks(failed.error.message) == []
    for words in (["show", secret], ["show", secret, "--json"], ["export", "--nonsense", secret]):
        done = cortext(*words, cwd=tmp_path)
        assert done.code != 0 and planted.leaks(done.out + done.err) == [], words
    cortext("hook", secret, cwd=tmp_path, stdin="{}")
    log = (home / ".local" / "state" / "cortext" / "hook.log").read_text(encoding="utf-8")
    assert "hook" in log and planted.leaks(log) == []
