"""Noticing changes: a transcript is where the tool's folders are watched, and its file leads to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest

from cortext.testing.reading import Conformance, files_in
from cortext.tools.base import TranscriptSource, Watched


class WatchedConformance(Conformance):
    """`Watched`."""

    needs: ClassVar[type] = Watched

    @pytest.fixture
    def watching(self, tool: TranscriptSource) -> Watched:
        """Return the adapter."""
        assert isinstance(tool, Watched)
        return tool

    def test_a_changed_file_leads_to_its_transcript(self, watching: Watched, home: Path) -> None:
        watching.watched()  # before there is anything
        self.samples.save(home)
        transcript, watch = self.only_transcript(watching), watching.watched()

        inside = [folder for folder in watch.folders if transcript.path.startswith(os.path.join(folder, ""))]
        assert inside or transcript.path in watch.files
        (found,) = watching.changed(transcript.path)
        assert (found.key, found.path, found.size) == (transcript.key, transcript.path, transcript.size)

    def test_a_file_that_grows_with_the_conversation_leads_to_it(self, watching: Watched, home: Path) -> None:
        self.samples.save(home, self.samples.records - 1)
        before = files_in(home)
        self.samples.save(home)
        transcript, watch = self.only_transcript(watching), watching.watched()

        grown = [str(home / name) for name, data in files_in(home).items() if before.get(name) != data]
        folders = tuple(os.path.join(folder, "") for folder in watch.folders)
        noticed = [path for path in grown if path.startswith(folders) or path in watch.files]
        assert transcript in [found for path in noticed for found in watching.changed(path)]

    def test_another_file_leads_to_none(self, watching: Watched, home: Path, tmp_path: Path) -> None:
        self.samples.save(home)
        folders = [*watching.watched().folders, str(tmp_path)]

        for path in (os.path.join(folder, name) for folder in folders for name in ("other.txt", "missing", "a/b/c/d")):
            assert list(watching.changed(path)) == []
