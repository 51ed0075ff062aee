"""Fixtures for the tests of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cortext.server.store import PostgresStore
from tests.store.conftest import no_flush
from tests.support import postgres

__all__ = ["no_flush", "store"]


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    """A store in a space of the shared server that no other test uses."""
    store = postgres.new_store()
    yield store
    store.close()
