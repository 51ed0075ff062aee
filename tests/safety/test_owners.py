"""A workspace in a parent folder that belongs to another user is not used, and a note says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortext.agents.alfred import main as alfred
from cortext.agents.aur import main as aur
from cortext.config import folders
from cortext.faces.cortext import main as cortext
from cortext.services.projects import workspaces
from cortext.wiring.stores import Stores

STRANGER = 65533
HERS = "the conversation of somebody else"


class Desk:
    """A folder of the user's below another user's workspace, in which the commands run."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self._capsys = root, capsys

    def run(self, *words: str, program: str = "cortext") -> tuple[int, str, str]:
        """Run a command here; return its exit code, output and errors."""
        self._capsys.readouterr()
        code = {"cortext": cortext, "aur": aur, "alfred": alfred}[program].run(list(words))
        printed = self._capsys.readouterr()
        return code, printed.out, " ".join(printed.err.split())

    def tree(self) -> dict[str, bytes]:
        """Return every file of the workspace."""
        return {str(path): path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    root = tmp_path / "shared"
    assert cortext.run(["init", str(root), "--ai", "claude"]) == 0
    (root / ".workspace/config.toml").write_text("[store]\nlock_timeout = 77.0\n", encoding="utf-8")
    monkeypatch.chdir(root)
    assert cortext.run(["new", "plan", HERS]) == 0
    # Another user made all of it: this one's list of workspaces does not know it.
    os.remove(os.path.join(folders.data(), "workspaces"))
    (root / "below").mkdir()
    monkeypatch.chdir(root / "below")
    if os.geteuid() == 0:
        os.chown(root, STRANGER, -1)
        os.chown(root / ".workspace", STRANGER, -1)
    else:
        monkeypatch.setattr(workspaces, "_owners", lambda _: [STRANGER, STRANGER])
    return Desk(root, capsys)


@pytest.mark.req("SAFE-10")
def test_another_user_s_workspace_is_not_used_and_reported_once(desk: Desk) -> None:
    before = desk.tree()
    code, out, err = desk.run("list")
    assert code == 0 and HERS not in out
    assert err.count("belongs to another user") == 1
    assert str(desk.root) in err and "workspace.safe_folders" in err and folders.user_file() in err
    for words in (("new", "plan", "Mine"), ("upgrade",), ("uninstall",), ("type", "add", "own"), ("trust", "--yes")):
        code, _, err = desk.run(*words)
        assert code == 1 and "belongs to another user" in err, (words, err)
    code, _, err = desk.run("init", str(desk.root))
    assert code == 6 and "belongs to another user" in err
    for program, words in (("aur", ("agents",)), ("alfred", ("memory", "list"))):
        code, _, err = desk.run(*words, program=program)
        assert code == 0 and err.count("belongs to another user") == 1, (program, err)
    assert desk.tree() == before
    assert Stores().settings.store.lock_timeout == 5.0
    assert workspaces.known_workspaces() == []


@pytest.mark.req("SAFE-10")
@pytest.mark.parametrize("way", ["path", "all", "environment", "named"])
def test_the_user_can_allow_another_user_s_workspace(desk: Desk, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    value = "*" if way == "all" else f"/elsewhere, {desk.root}"
    if way == "environment":
        monkeypatch.setenv("CORTEXT_WORKSPACE_SAFE_FOLDERS", value)
    elif way == "named":
        monkeypatch.setenv("CORTEXT_WORKSPACE", str(desk.root))
    else:
        path = Path(folders.user_file())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'[workspace]\nsafe_folders = "{value}"\n', encoding="utf-8")
    code, out, err = desk.run("list")
    assert code == 0 and HERS in out and "another user" not in err


@pytest.mark.req("SAFE-10", "SAFE-04")
def test_a_workspace_cannot_allow_itself(desk: Desk) -> None:
    (desk.root / ".workspace/config.toml").write_text('[workspace]\nsafe_folders = "*"\n', encoding="utf-8")
    _, out, err = desk.run("list")
    assert HERS not in out and "belongs to another user" in err


@pytest.mark.req("SAFE-10")
def test_with_sudo_the_calling_user_keeps_the_workspace(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    monkeypatch.setattr(workspaces, "_owners", lambda _: [STRANGER, 0])
    _, out, err = desk.run("list")
    assert HERS in out and "another user" not in err
