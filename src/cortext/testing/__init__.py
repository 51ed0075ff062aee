"""The conformance suite that every adapter of an AI tool passes, for adapters of other packages too. It needs pytest.

    class TestMyTool(LineToolConformance):
        samples = MySamples()

`samples` provides conversations and settings in the tool's own format; see `Samples` and docs/adding-a-tool.md. Use
`LineToolConformance` with `LineSamples` if the tool keeps a conversation in a file with one record per line, and
`ToolConformance` with `Samples` otherwise. Tests of an optional protocol (`NativeWriter`, `Installer`, `Hooks`,
`Headless`, `Purges`, `Watched`, `NamesLeftovers`) are not collected if the adapter does not implement it;
`ReaderConformance` and `LineReaderConformance` have only those of the last two. Only tests import this package.
"""

import pytest

pytest.register_assert_rewrite(
    "cortext.testing.reading",
    "cortext.testing.scanning",
    "cortext.testing.writing",
    "cortext.testing.installing",
    "cortext.testing.running",
)

from cortext.testing.installing import InstallerConformance, PurgesConformance  # noqa: E402 (after the line above)
from cortext.testing.reading import LineConformance, ReadingConformance  # noqa: E402
from cortext.testing.running import HeadlessConformance, HooksConformance  # noqa: E402
from cortext.testing.samples import LineSamples, Samples  # noqa: E402
from cortext.testing.scanning import ScanningConformance, WatchedConformance  # noqa: E402
from cortext.testing.writing import WriterConformance  # noqa: E402

__all__ = [
    "LineReaderConformance",
    "LineSamples",
    "LineToolConformance",
    "ReaderConformance",
    "Samples",
    "ToolConformance",
]


class ReaderConformance(ReadingConformance, ScanningConformance, WatchedConformance):
    """The tests for reading, scanning and watching alone, whatever else the adapter can do."""


class LineReaderConformance(LineConformance, ReaderConformance):
    """The same, and the tests for a file with one record per line."""


class ToolConformance(
    ReadingConformance,
    ScanningConformance,
    WriterConformance,
    InstallerConformance,
    HooksConformance,
    HeadlessConformance,
    PurgesConformance,
    WatchedConformance,
):
    """The tests for every adapter. Subclass it under a name that starts with `Test`."""


class LineToolConformance(LineConformance, ToolConformance):
    """The same, and the tests for a tool that keeps a conversation in a file with one record per line."""
