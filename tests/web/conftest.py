"""A server for the conversations of a test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faces.pond import Pond
from tests.web.served import Served, serving


@pytest.fixture(scope="module")
def served(pond: Pond) -> Iterator[Served]:
    """Yield a running server, with its cookie, for the module's own `pond`."""
    with serving(pond.env, pond.folder) as running:
        assert running.open().status == 200
        yield running
