"""The suite that every adapter of an AI tool passes, for adapters of other packages too. It needs pytest.

    class TestMyTool(ToolConformance):
        samples = MySamples()

`samples` holds conversations and settings as the tool writes them; see `Samples` and docs/adding-a-tool.md. What a tool
cannot do (`isinstance` of `NativeWriter`, `Installer`, `Hooks`, `Headless`) is not asked of it. Nothing but tests
imports this package.
"""

import pytest

pytest.register_assert_rewrite(
    "cortext.testing.reading", "cortext.testing.writing", "cortext.testing.installing", "cortext.testing.running"
)

from cortext.testing.installing import InstallerConformance  # noqa: E402 (after the line above)
from cortext.testing.reading import ReadingConformance  # noqa: E402
from cortext.testing.running import HeadlessConformance, HooksConformance  # noqa: E402
from cortext.testing.samples import LineSamples, Samples  # noqa: E402
from cortext.testing.writing import WriterConformance  # noqa: E402

__all__ = ["LineSamples", "Samples", "ToolConformance"]


class ToolConformance(
    ReadingConformance, WriterConformance, InstallerConformance, HooksConformance, HeadlessConformance
):
    """Everything that is asked of an adapter. Subclass it under a name that begins with `Test`."""
