"""Fixtures of the store tests."""

from __future__ import annotations

import pytest

from cortext.io import durable


class NoFlush(durable.Calls):
    """The system calls of the stores, without flushing."""

    @staticmethod
    def fsync(fd: object) -> None:
        """Do nothing."""


@pytest.fixture
def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable fsync, for tests of file contents: they run ten times faster. The crash tests test the flushes."""
    monkeypatch.setattr(durable, "calls", NoFlush())
