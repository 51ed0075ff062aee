"""What the tests of the server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cortext.store.postgres.store import PostgresStore
from tests.store.conftest import no_flush
from tests.support import postgres

__all__ = ["no_flush", "store"]


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    """A part of the shared server that nobody else uses."""
    made = postgres.new_store()
    yield made
    made.close()
