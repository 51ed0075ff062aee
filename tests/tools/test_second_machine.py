"""Two machines with the real Claude Code continue the same conversation, and git merges it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS, git, run
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.screen import Screen


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path / "first", server)


@pytest.mark.real_tool
@pytest.mark.req("FLOW-05", "STORE-12")
def test_a_pull_merges_what_two_machines_added(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use_desk(desk, monkeypatch)
    folder, remote = desk.project("w"), tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    git(folder, "init", "-q", "-b", "main")
    assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")
    git(folder, "remote", "add", "origin", str(remote))
    claude = desk.tools["claude"]
    desk.server.push("What is the core problem?", "Saved.")
    assert claude.run("/workspace.brainstorm API design", cwd=folder).returncode == 0
    assert _uncommitted(folder) == "", "the hook saved when the program ended"
    key = claude.sessions()[-1]
    assert claude.run("/workspace.stop-conversation", cwd=folder, resume=key).returncode == 0
    assert _uncommitted(folder) == "", "the answer to the stop is in the commit too"
    git(folder, "push", "-q", "-u", "origin", "main")

    # On the second machine: a clone, and a resume in the program's own screen.
    second = Desk(tmp_path / "second", desk.server)
    _use_desk(second, monkeypatch)
    clone = second.project("w")
    git(tmp_path, "clone", "-q", str(remote), str(clone))
    assert "API design" in second.cortext("list", cwd=clone).out
    consent = second.tools["claude"].home / ".claude" / "settings.json"  # approve our server, as the user would
    consent.write_text(json.dumps({"enabledMcpjsonServers": ["cortext"]}), encoding="utf-8")
    desk.server.push("Picked up on the second machine.")
    command = [str(SCRIPTS / "cortext"), "resume", "001", "--ai", "claude"]
    with Screen(tmp_path, command, second.env, clone, "150x70") as screen:
        screen.wait_for("on the second machine", timeout=120)
    stopped = second.cortext("stop", "001", cwd=clone)
    assert stopped.code == 0, stopped.err
    assert _uncommitted(clone) == ""
    assert "Picked up on the second machine." in _texts(clone)
    git(clone, "push", "-q")

    # Meanwhile the first machine continues too; the pull merges.
    _use_desk(desk, monkeypatch)
    desk.server.push("Versions go into the path.")
    assert claude.run("And versions?", cwd=folder, resume=key).returncode == 0
    assert _uncommitted(folder) == ""
    pulled = run(["git", "-C", str(folder), "pull", "-q", "--no-rebase", "--no-edit"])
    assert pulled.code == 0, pulled.out + pulled.err
    texts = _texts(folder)
    assert {"What is the core problem?", "Versions go into the path.", "Picked up on the second machine."} <= set(texts)
    fields = json.loads(next(folder.glob("conversations/*/001-*/.session/session.json")).read_text(encoding="utf-8"))
    assert (fields["title"], fields["conversation_type"]) == ("API design", "brainstorm")
    assert fields["message_count"] + fields["aside_count"] == len(texts) and fields["status"] == "paused"
    assert fields["aside_count"] == 3, "the stop, and the answers to it and to the resume"
    assert git(folder, "status", "--porcelain") == ""
    assert desk.cortext("doctor", cwd=folder).code == 0


@pytest.mark.real_tool
@pytest.mark.req("STORE-03", "FLOW-01")
def test_a_conversation_of_a_deleted_branch_is_resumed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use_desk(desk, monkeypatch)
    folder = desk.project("w")
    git(folder, "init", "-q", "-b", "main")
    assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")
    git(folder, "checkout", "-qb", "feature")
    desk.server.push("Which reeds?")
    assert desk.tools["claude"].run("/workspace.brainstorm bitterns", cwd=folder).returncode == 0
    assert _uncommitted(folder) == ""
    git(folder, "checkout", "-q", "main")
    git(folder, "branch", "-qD", "feature")
    git(folder, "reflog", "expire", "--expire=now", "--all")
    git(folder, "gc", "-q", "--prune=now")
    assert not list(folder.glob("conversations/*/*/.session"))
    consent = desk.tools["claude"].home / ".claude" / "settings.json"
    consent.write_text(json.dumps({"enabledMcpjsonServers": ["cortext"]}), encoding="utf-8")
    desk.server.push("Those in the north.")
    command = [str(SCRIPTS / "cortext"), "resume", "001", "--ai", "claude"]
    with Screen(tmp_path, command, desk.env, folder, "150x70") as screen:
        screen.wait_for("Those in the north.", timeout=120)
        screen.close()  # its last hook also saves
    assert "Which reeds?" in str(desk.server.turns[-1].body)
    assert desk.cortext("stop", "001", cwd=folder).code == 0
    assert {"Which reeds?", "Those in the north."} <= set(_texts(folder))
    assert _uncommitted(folder) == ""
    assert desk.cortext("doctor", cwd=folder).code == 0


def _use_desk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in desk.env.items():
        monkeypatch.setenv(name, value)


def _uncommitted(folder: Path) -> str:
    return git(folder, "status", "--porcelain", "--", "conversations")


def _texts(folder: Path) -> list[str]:
    log = next(folder.glob("conversations/*/001-*/.session/messages.jsonl"))
    return [json.loads(line)["content"] for line in log.read_text(encoding="utf-8").splitlines()]
