"""Isolation of every test: an empty HOME, no settings, no colour, nothing beyond loopback."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.lanes import pytest_collection_modifyitems, pytest_terminal_summary

__all__ = ["pytest_collection_modifyitems", "pytest_terminal_summary"]

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")

# A shell that starts pytest in the background makes it and its children ignore Ctrl-C; undo that.
signal.signal(signal.SIGINT, signal.default_int_handler)

_numbers = itertools.count()
_KEPT = (
    "PATH", "LANG", "TMPDIR", "CI", "PYTEST_", "COV_", "CORTEXT_AI_PROGRAMS_DIR", "CORTEXT_EVERY_",
    "CORTEXT_TEST_URL",
)  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def isolated_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Remove the user's environment before any fixture is created: those of a module do not see a test's HOME.

    Return the folder of the tests' homes.
    """
    homes = tmp_path_factory.mktemp("homes")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if not name.startswith(_KEPT):
                patch.delenv(name)
        patch.setenv("HOME", str(_new_home(homes)))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        # A proxy on a closed port: nothing can leave this machine.
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            patch.setenv(name, "http://127.0.0.1:9")
        patch.setenv("NO_PROXY", "127.0.0.1,localhost")
        yield homes


@pytest.fixture(autouse=True)
def isolated_environment(isolated_session: Path) -> Iterator[None]:
    """Point HOME at an empty folder; whatever a test does to the environment ends with it."""
    before = dict(os.environ)
    os.environ["HOME"] = str(_new_home(isolated_session))
    yield
    os.environ.clear()
    os.environ.update(before)


def _new_home(homes: Path) -> Path:
    """Create an empty folder. pytest's `mktemp` reads the names of all earlier ones, for each of thousands of tests."""
    home = homes / str(next(_numbers))
    home.mkdir()
    return home


@pytest.fixture
def home() -> Path:
    """Return the empty HOME of this test."""
    return Path(os.environ["HOME"])
