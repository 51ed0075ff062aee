"""What a tool deletes by itself: every conversation has a date, and the raised setting is restored byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from cortext.testing.reading import Conformance, files_in
from cortext.tools.base import Purges, TranscriptSource


class PurgesConformance(Conformance):
    """`Purges`."""

    needs: ClassVar[type] = Purges

    @pytest.fixture
    def purging(self, tool: TranscriptSource, home: Path) -> Purges:
        """Return the adapter of a tool with one conversation."""
        assert isinstance(tool, Purges)
        self.samples.save(home)
        return tool

    def test_every_conversation_has_a_date(self, purging: Purges) -> None:
        transcript = self.only_transcript(purging)
        purge = purging.purge()

        assert purge is not None
        assert [item.key for item, _ in purge.due] == [transcript.key]
        assert purge.setting and purge.value and purge.keeping and purge.file

    def test_the_raised_setting_stops_the_deletion_and_is_restored(self, purging: Purges, home: Path) -> None:
        before = files_in(home)

        named = purging.raise_retention(dry_run=True)
        assert files_in(home) == before
        assert purging.raise_retention() == named
        raised = purging.purge()
        assert raised is None or not raised.due
        assert purging.raise_retention() == []
        assert purging.restore_retention() == named
        assert files_in(home) == before
        assert purging.restore_retention() == []
