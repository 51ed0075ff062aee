"""Homes for the tests with real programs: fresh, or one in which the program was used before.

A test that resumes natively runs in both: `@in_any_home`. The used one is made once by each worker, and copied.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.model_server import ModelServer
from tests.support.runners import make_tool


@pytest.fixture(scope="session")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The home of somebody who has configured a program and held conversations with it, in another project."""
    made: dict[str, Path] = {}

    def use(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp(f"used-{name}")
            elsewhere = folder / "elsewhere"
            elsewhere.mkdir()
            with ModelServer() as server:
                tool = make_tool(name, folder / "home", server.url)
                tool.trust(elsewhere)
                for words, resume in (("Please put the kettle on.", False), ("And is it on?", True)):
                    done = tool.run(words, cwd=elsewhere, resume=tool.sessions()[-1] if resume else None)
                    assert done.returncode == 0, done.stderr
            made[name] = folder / "home"
        return made[name]

    return use


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, used_home: Callable[[str], Path]) -> Path:
    """Where a program lives in this test; with the program's name as its parameter, one where it was used before."""
    folder = tmp_path / "home"
    name = getattr(request, "param", "")
    if name:
        shutil.copytree(used_home(name), folder, symlinks=True)
    return folder
