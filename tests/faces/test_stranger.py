"""A cloned untrusted workspace: its registry and manifest must not reach the user's other files."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli import cortext


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Create a workspace for all four tools."""
    folder = tmp_path / "workspace"
    done = cortext("init", str(folder), "--ai", "claude,gemini,opencode,codex")
    assert done.code == 0, done.err
    return folder


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


SECRET = "-----BEGIN KEY-----"


def _register(folder: Path, kind: str, **fields: str) -> None:
    """Add a hostile entry to the registry."""
    path = folder / ".workspace/registry.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    known["types"].setdefault(kind, {"command": f"/workspace.{kind}"}).update(fields)
    path.write_text(json.dumps(known), encoding="utf-8")


@pytest.mark.req("SESS-007", "SAFE-04")
@pytest.mark.parametrize("way", ["../secret", "link.md", "folder/secret"])
@pytest.mark.parametrize("field", ["command_file", "template"])
def test_a_registry_cannot_expose_other_files_of_the_user(workspace: Path, field: str, way: str) -> None:
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
def test_an_untrusted_workspace_cannot_write_or_delete_outside(workspace: Path, command: str, way: str) -> None:
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


# The files and folders that init, upgrade and uninstall manage in a project, for all four tools.
MANAGED = [
    ".gitattributes",
    "opencode.json",
    ".mcp.json",
    ".codex",
    ".codex/hooks.json",
    ".codex/config.toml",
    ".claude",
    ".claude/settings.json",
    ".claude/commands",
    ".claude/commands/workspace.plan.md",
    ".gemini",
    ".gemini/settings.json",
    ".gemini/commands/workspace.plan.toml",
    ".opencode",
    ".opencode/plugin/cortext.js",
    ".agents",
    ".agents/skills/workspace-plan/SKILL.md",
    ".workspace",
    ".workspace/registry.json",
    ".workspace/installed.json",
    ".workspace/commands/plan.md",
    ".workspace/templates",
    ".workspace/state",
]


def _private(folder: Path) -> Path:
    """Create the user's private files, the targets of links."""
    folder.mkdir()
    for name in ("hooks.json", "settings.json", "registry.json", "installed.json"):
        (folder / name).write_text(json.dumps({"private": SECRET}), encoding="utf-8")
    (folder / "config.toml").write_text(f'private = "{SECRET}"\n', encoding="utf-8")
    (folder / "id_rsa").write_text(SECRET, encoding="utf-8")
    return folder


def _link_out(path: Path, private: Path) -> None:
    """Replace a file or folder of the repository with a link to the user's private files."""
    is_folder = path.is_dir() or (not path.exists() and "." not in path.name[1:])
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    there = private / path.name
    path.symlink_to(private if is_folder else there if there.exists() else private / "id_rsa")


def _contents(folder: Path) -> bytes:
    """Return the bytes of all files of a repository, without link targets."""
    files = (path for path in sorted(folder.rglob("*")) if ".git" not in path.relative_to(folder).parts)
    return b"".join(path.read_bytes() for path in files if path.is_file() and not path.is_symlink())


@pytest.mark.req("SAFE-10", "SESS-007")
@pytest.mark.parametrize("name", MANAGED)
def test_init_upgrade_and_uninstall_follow_no_link_out_of_the_repository(tmp_path: Path, name: str) -> None:
    private = _private(tmp_path / "private")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    _link_out(fresh / name, private)
    used = tmp_path / "used"
    assert cortext("init", str(used), "--ai", "claude,gemini,opencode,codex").code == 0
    _link_out(used / name, private)
    before = _tree(private)
    for folder, words in (
        (fresh, ("init", "--ai", "claude,gemini,opencode,codex")),
        (used, ("upgrade",)),
        (used, ("type", "add", "own")),
        (used, ("uninstall",)),
    ):
        listed = sorted(path.relative_to(folder) for path in folder.rglob("*") if ".git" not in path.parts)
        contents = _contents(folder)
        done = cortext(*words, cwd=folder)
        assert _tree(private) == before, words
        assert SECRET.encode() not in _contents(folder), words
        assert SECRET not in done.out + done.err
        if words[0] == "type":
            continue  # may be refused or not, depending on what it touches; an added type is the user's own
        assert done.code in (6, 7), (words, done)
        assert "nothing was changed" in " ".join(done.err.split()), done.err
        assert "link" in done.err and "replace the link" in " ".join(done.err.split()), done.err
        assert _contents(folder) == contents, words
        assert sorted(path.relative_to(folder) for path in folder.rglob("*") if ".git" not in path.parts) == listed


@pytest.mark.req("SAFE-10", "SESS-007")
def test_a_link_inside_the_repository_is_followed_and_preserved(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "shared/claude").mkdir(parents=True)
    (folder / "shared/attributes").write_text("*.png binary\n", encoding="utf-8")
    (folder / ".claude").symlink_to("shared/claude")
    (folder / ".gitattributes").symlink_to("shared/attributes")
    done = cortext("init", "--ai", "claude", cwd=folder)
    assert done.code == 0, done.err
    assert (folder / ".claude").is_symlink() and (folder / ".gitattributes").is_symlink()
    assert (folder / "shared/claude/settings.json").is_file()
    attributes = (folder / "shared/attributes").read_text(encoding="utf-8")
    assert attributes.startswith("*.png binary\n") and "merge=cortext" in attributes
    assert cortext("uninstall", cwd=folder).code == 0
    assert (folder / "shared/attributes").read_text(encoding="utf-8") == "*.png binary\n"


@pytest.mark.req("SAFE-10", "SESS-007")
@pytest.mark.parametrize("way", ["registry", "manifest", "link"])
def test_the_files_of_git_itself_are_never_managed(workspace: Path, way: str) -> None:
    token = "https://user:hunter2hunter2@example.org/repository"
    config = workspace / ".git/config"
    config.write_text(f'{config.read_text(encoding="utf-8")}[remote "origin"]\n\turl = {token}\n', encoding="utf-8")
    hook = workspace / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n", encoding="utf-8")
    if way == "registry":
        _register(workspace, "spy", command_file=".git/config")
    elif way == "manifest":
        path = workspace / ".workspace/installed.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["files"][".git/hooks/pre-commit"] = hashlib.sha256(b"#!/bin/sh\n").hexdigest()
        path.write_text(json.dumps(manifest), encoding="utf-8")
    else:
        (workspace / ".gitattributes").unlink()
        (workspace / ".gitattributes").symlink_to(".git/config")
    before = config.read_bytes()
    for command in ("upgrade", "uninstall"):
        done = cortext(command, cwd=workspace)
        assert done.code in (6, 7) or (way, command) == ("registry", "uninstall"), done
        assert b"hunter2" not in _contents(workspace)
        assert hook.exists()
        if way == "link":
            assert config.read_bytes() == before
