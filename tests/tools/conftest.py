"""What tests with real programs share, created once by each test worker: used home folders and a conversation."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.pairs import Conversation, hold
from tests.support.runners import make_tool


@pytest.fixture(scope="session")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the home of a user who has configured a program and used it in another project."""
    homes: dict[str, Path] = {}

    def use(name: str) -> Path:
        if name not in homes:
            folder = tmp_path_factory.mktemp(f"used-{name}")
            elsewhere = folder / "elsewhere"
            elsewhere.mkdir()
            with ModelServer() as server:
                tool = make_tool(name, folder / "home", server.url)
                tool.trust(elsewhere)
                for prompt, resume in (("Please put the kettle on.", False), ("And is it on?", True)):
                    done = tool.run(prompt, cwd=elsewhere, resume=tool.sessions()[-1] if resume else None)
                    assert done.returncode == 0, done.stderr
            homes[name] = folder / "home"
        return homes[name]

    return use


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, used_home: Callable[[str], Path]) -> Path:
    """Return the home folder of a program; with the program's name as parameter, one in which it was used before."""
    folder = tmp_path / "home"
    name = getattr(request, "param", "")
    if name:
        shutil.copytree(used_home(name), folder, symlinks=True)
    return folder


@pytest.fixture(scope="session")
def of_claude(tmp_path_factory: pytest.TempPathFactory) -> Conversation:
    """Return a conversation of Claude Code that was imported."""
    with ModelServer() as server:
        desk = Desk(tmp_path_factory.mktemp("of-claude"), server, ["claude"])
        project = desk.project("claude-project")
        said = hold(desk, "claude", project)
        done = desk.cortext("import", "--from", "claude", cwd=project)
        assert done.code == 0, done.err
        return Conversation(desk.home, project, said)
