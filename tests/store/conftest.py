"""What the tests of the stores share."""

from __future__ import annotations

import pytest

from cortext.io import files as fsio


class NoFlush(fsio.Calls):
    """The kernel's calls without the flushes."""

    @staticmethod
    def fsync(fd: object) -> None:
        """As if it were done."""


@pytest.fixture
def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests about what is in the files, not about when it got there (the crash tests are): ten times faster."""
    monkeypatch.setattr(fsio, "calls", NoFlush())
