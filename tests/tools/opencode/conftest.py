"""The adapter over a database that a test fills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.opencode.corpus import Corpus

from cortext.tools.opencode.adapter import OpenCode


@pytest.fixture
def tool(tmp_path: Path) -> OpenCode:
    """The adapter with a home that is empty, and no program."""
    return OpenCode(str(tmp_path), {"PATH": ""})


@pytest.fixture
def corpus(tool: OpenCode) -> Iterator[Corpus]:
    """Its database, with one session."""
    made = Corpus(Path(tool.folders.database))
    made.session()
    yield made
    made.close()
