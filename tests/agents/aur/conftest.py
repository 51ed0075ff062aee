"""Fixtures: the real `aur` command, and a model server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.aur.kit import Aur
from tests.support.model_server import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def aur(server: ModelServer, home: Path, tmp_path: Path) -> Aur:
    return Aur(server, home, tmp_path)
