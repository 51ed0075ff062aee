"""A workspace of a stranger's, cloned: its registry and its manifest must not reach the user's other files."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli import cortext


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace for all four tools."""
    folder = tmp_path / "workspace"
    done = cortext("init", str(folder), "--ai", "claude,gemini,opencode,codex")
    assert done.code == 0, done.err
    return folder


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


SECRET = "-----BEGIN KEY-----"


def _register(folder: Path, kind: str, **fields: str) -> None:
    """What a stranger's repository could have in its registry."""
    path = folder / ".workspace/registry.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    known["types"].setdefault(kind, {"command": f"/workspace.{kind}"}).update(fields)
    path.write_text(json.dumps(known), encoding="utf-8")


@pytest.mark.req("SESS-007", "SAFE-04")
@pytest.mark.parametrize("way", ["../secret", "link.md", "folder/secret"])
@pytest.mark.parametrize("field", ["command_file", "template"])
def test_a_registry_cannot_have_other_files_of_the_user_kept(workspace: Path, field: str, way: str) -> None:
    (workspace.parent / "secret").write_text(SECRET, encoding="utf-8")
    (workspace / "link.md").symlink_to("../secret")
    (workspace / "folder").symlink_to("..")
    _register(workspace, "spy", **{field: way})
    upgraded = cortext("upgrade", cwd=workspace)
    assert upgraded.code == (7 if field == "command_file" else 0)
    cortext("new", "spy", "Hello", cwd=workspace)
    for path in workspace.rglob("*"):
        if path.is_file() and not path.is_symlink() and "folder" not in path.parts:
            assert SECRET.encode() not in path.read_bytes(), path
    if field == "command_file":
        assert "outside the workspace" in upgraded.err


@pytest.mark.req("SESS-007", "SAFE-04")
@pytest.mark.parametrize("command", ["upgrade", "uninstall"])
@pytest.mark.parametrize("way", ["command", "manifest", "link"])
def test_a_strangers_workspace_cannot_have_files_outside_written_or_removed(
    workspace: Path, command: str, way: str
) -> None:
    other = workspace.parent / "outside"
    other.mkdir()
    (other / "mine.md").write_text("mine\n", encoding="utf-8")
    if way == "command":
        _register(workspace, "x", command="/../../../outside/made", command_file=".workspace/commands/plan.md")
    elif way == "manifest":
        path = workspace / ".workspace/installed.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["files"]["../outside/mine.md"] = hashlib.sha256(b"mine\n").hexdigest()
        path.write_text(json.dumps(manifest), encoding="utf-8")
    else:
        shutil.rmtree(workspace / ".claude/commands")
        (workspace / ".claude/commands").symlink_to(other)
    before = _tree(workspace)
    done = cortext(command, cwd=workspace)
    assert _tree(other) == {str(other / "mine.md"): b"mine\n"}
    if command == "upgrade" or way != "command":
        assert done.code in (2, 6), done
        assert _tree(workspace) == before
