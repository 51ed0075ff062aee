"""Reading a file with one record per line: it may be incomplete, have empty lines, or two records on a line."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from cortext.testing.reading import Conformance
from cortext.testing.samples import LineSamples
from cortext.tools.base import TranscriptSource


class LineConformance(Conformance):
    """`TranscriptSource`, for a tool whose samples are `LineSamples`."""

    samples: ClassVar[LineSamples]

    def test_a_file_that_is_cut_anywhere_while_it_is_written_loses_nothing(
        self, home: Path, tool: TranscriptSource
    ) -> None:
        data = b"".join(line + b"\n" for line in self.samples.lines)
        self.samples.save(home)
        complete, _, _ = self.read(tool)
        newlines = [offset for offset, byte in enumerate(data) if byte == 10]
        cuts = {cut for newline in newlines for cut in range(newline - 1, newline + 3)} | set(range(1, len(data), 251))
        for cut in sorted(cut for cut in cuts if 0 < cut < len(data)):
            self.samples.save_bytes(home, data[:cut])
            if not list(tool.transcripts()):
                continue
            before, cursor, _ = self.read(tool)
            self.samples.save(home)
            after, _, _ = self.read(tool, cursor)
            assert (before + after if cursor is not None else after) == complete, f"cut at byte {cut}"

    def test_empty_lines_are_skipped(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        complete, _, _ = self.read(tool)

        self.samples.save_bytes(home, b"".join(line + b"\n\n" for line in self.samples.lines))
        assert self.read(tool)[0] == complete

    def test_two_records_on_one_line_are_both_read(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        complete, _, _ = self.read(tool)
        for index in range(1, self.samples.records - 1):
            lines = [*self.samples.lines]
            lines[index : index + 2] = [lines[index] + lines[index + 1]]
            self.samples.save_bytes(home, b"".join(line + b"\n" for line in lines))
            messages, _, counts = self.read(tool)
            assert messages == complete, f"records {index} and {index + 1}"
            assert counts.damaged == {}
