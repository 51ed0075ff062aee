"""Fixtures: the adapter, with a database that a test fills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.opencode.corpus import Corpus

from cortext.tools.opencode.adapter import OpenCode


@pytest.fixture
def tool(tmp_path: Path) -> OpenCode:
    """Return the adapter with an empty home folder and no program."""
    return OpenCode(str(tmp_path), {"PATH": ""})


@pytest.fixture
def corpus(tool: OpenCode) -> Iterator[Corpus]:
    """Yield its database, with one session."""
    database = Corpus(Path(tool.folders.database))
    database.session()
    yield database
    database.close()
