"""One suite for every backend: a new backend is one more line in BACKENDS."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.store.conformance")

# The classes of the suite and its fixtures are the tests of this module.
from cortext.store.files.chat import ChatStore  # noqa: E402
from cortext.store.files.spawn import SpawnStore  # noqa: E402
from cortext.store.files.workspace import WorkspaceStore  # noqa: E402
from tests.store.conformance.extras import *  # noqa: E402, F403
from tests.store.conformance.kit import ANNOTATES, COMPACTS, Backend, reopen, store  # noqa: E402, F401
from tests.store.conformance.messages import *  # noqa: E402, F403
from tests.store.conformance.sessions import *  # noqa: E402, F403
from tests.support import postgres  # noqa: E402
from tests.support.memory_store import MemoryStore  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_flush")
BACKENDS = [
    Backend("workspace", lambda p: WorkspaceStore(str(p)), lambda _, p: WorkspaceStore(str(p)), frozenset({ANNOTATES})),
    Backend("spawn", lambda p: SpawnStore(str(p)), lambda _, p: SpawnStore(str(p)), frozenset({COMPACTS, ANNOTATES})),
    Backend("chat", lambda p: ChatStore(str(p)), lambda _, p: ChatStore(str(p))),
    Backend("memory", lambda _: MemoryStore(), lambda same, _: same),
    Backend("postgres", lambda _: postgres.new_store(), lambda same, _: postgres.same_store(same)),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on every backend that has the capability its class needs."""
    needs = getattr(metafunc.cls, "needs", None)
    backends = [backend for backend in BACKENDS if needs not in backend.lacks]
    server = [[pytest.mark.server] if backend.name == "postgres" else [] for backend in backends]
    metafunc.parametrize(
        "backend",
        [pytest.param(backend, id=backend.name, marks=marks) for backend, marks in zip(backends, server, strict=True)],
    )
