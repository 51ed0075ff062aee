"""Noticing changes: a transcript is where the tool's folders are watched, and its file leads to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortext.testing.reading import Conformance
from cortext.tools.base import TranscriptSource, Watched


class WatchedConformance(Conformance):
    """`Watched`."""

    @pytest.fixture
    def watching(self, tool: TranscriptSource) -> Watched:
        """Return the adapter, if its transcripts can be watched."""
        if not isinstance(tool, Watched):
            pytest.skip("the transcripts of this tool cannot be watched")
        return tool

    def test_a_changed_file_leads_to_its_transcript(self, watching: Watched, home: Path) -> None:
        watch = watching.watched()
        assert watch.folders or watch.files
        self.samples.save(home)
        transcript = self.only_transcript(watching)

        inside = [folder for folder in watch.folders if transcript.path.startswith(os.path.join(folder, ""))]
        assert inside or transcript.path in watch.files
        (found,) = watching.changed(transcript.path)
        assert (found.key, found.path, found.size) == (transcript.key, transcript.path, transcript.size)

    def test_another_file_leads_to_none(self, watching: Watched, home: Path, tmp_path: Path) -> None:
        self.samples.save(home)
        folders = [*watching.watched().folders, str(tmp_path)]

        for path in (os.path.join(folder, name) for folder in folders for name in ("other.txt", "missing", "a/b/c/d")):
            assert list(watching.changed(path)) == []
