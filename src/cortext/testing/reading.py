"""Finding and reading conversations: every word, only what is new, whatever is broken, and nothing is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cortext.io.batch import Later
from cortext.model.message import ROLES, Message
from cortext.testing.samples import LineSamples, Samples
from cortext.tools.base import Counts, Transcript, TranscriptSource

# Lines that are no record of any tool.
GARBAGE = (b"not JSON at all", b"\xff\xfe\xfd", b'{"half": "a rec', b"[" * 5_000, b"null", b"7", b'"text"', b"[1, 2]")
NONSENSE: tuple[dict[str, Any], ...] = (
    {},
    {"x": 1},
    {"offset": -1},
    {"offset": "many"},
    {"offset": 10**9},
)

Bare = tuple[str, str, str, Any, bool]


class Conformance:
    """What all parts of the suite share."""

    samples: ClassVar[Samples]

    @pytest.fixture
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A home folder in which nobody has used anything yet."""
        folder = tmp_path / "home"
        folder.mkdir()
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "CORTEXT_WORKSPACE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(folder))
        return folder

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """The folder of a project."""
        folder = tmp_path / "My Project"
        folder.mkdir()
        return folder

    @pytest.fixture
    def tool(self, home: Path) -> TranscriptSource:
        """The adapter."""
        return self.samples.tool(home)

    def only(self, tool: TranscriptSource) -> Transcript:
        """The one conversation that there is."""
        (transcript,) = tool.transcripts()
        return transcript

    def read(
        self, tool: TranscriptSource, cursor: dict[str, Any] | None = None
    ) -> tuple[list[Bare], dict[str, Any] | None, Counts]:
        """The messages of the one conversation, the next cursor (which survives JSON), and what else was met."""
        reading = tool.read(self.only(tool), cursor)
        messages = [bare(message) for message in reading]
        return messages, json.loads(json.dumps(reading.cursor)), reading.counts


def bare(message: Message) -> Bare:
    """What makes a message the same one in two readings."""
    return message.id, message.role, message.text, message.parts, message.aside


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class ReadingConformance(Conformance):
    """`TranscriptSource`."""

    def lines(self) -> LineSamples:
        """The samples of a tool that writes lines."""
        if not isinstance(self.samples, LineSamples):
            pytest.skip("not a file of lines")
        return self.samples

    def test_it_has_a_name_to_type_and_a_title_to_read(self, tool: TranscriptSource) -> None:
        assert isinstance(tool, TranscriptSource)
        assert re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", tool.name)
        assert tool.title.strip() == tool.title != ""
        assert isinstance(tool.tested_version, str)

    def test_a_home_without_the_tool_is_no_error(self, tool: TranscriptSource, tmp_path: Path) -> None:
        tool.detect()
        assert list(tool.transcripts()) == []
        assert list(tool.transcripts(str(tmp_path))) == []

    def test_the_conversation_is_found_and_only_in_its_project(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)

        found = self.only(tool)

        assert found.tool == tool.name
        assert found.key and found.path and found.size > 0 and found.changed > 0
        assert self.only(tool) == found, "nothing changed, so the signs of change are the same"
        assert list(tool.transcripts("/somewhere/else")) == []
        if self.samples.project:
            assert [item.key for item in tool.transcripts(self.samples.project)] == [found.key]

    def test_every_word_is_read_and_every_message_has_an_id_that_stays(
        self, home: Path, tool: TranscriptSource
    ) -> None:
        self.samples.save(home)

        messages, _, counts = self.read(tool)

        assert [(role, text) for _, role, text, _, _ in messages] == list(self.samples.said)
        assert {role for _, role, _, _, _ in messages} <= set(ROLES)
        ids = [message[0] for message in messages]
        assert all(ids) and len(set(ids)) == len(ids)
        assert (counts.damaged, counts.unknown, counts.places) == ({}, {}, [])
        assert self.read(tool)[0] == messages

    def test_reading_writes_nothing(self, home: Path, tool: TranscriptSource, tmp_path: Path) -> None:
        self.samples.save(home)
        before = tree(home)
        (tmp_path / "kept").mkdir()

        tool.detect()
        self.read(tool)
        tool.copy(self.only(tool), str(tmp_path / "kept" / "native"))

        after = tree(home)
        assert {name: after.get(name) for name in before} == before

    def test_what_is_not_a_transcript_is_none(self, home: Path, tool: TranscriptSource, tmp_path: Path) -> None:
        self.samples.save(home)
        found = tool.transcript_at(self.only(tool).path)
        assert found is None or found.tool == tool.name
        others = {
            "empty": b"",
            "text": b"hello\n",
            "binary": bytes(range(256)),
            "object": b"{}\n",
            "list": b"[1, 2]\n",
            "document": b'{\n  "messages": []\n}\n',
        }
        for name, data in others.items():
            (tmp_path / name).write_bytes(data)
        for path in (*(tmp_path / name for name in others), tmp_path, tmp_path / "missing"):
            assert tool.transcript_at(str(path)) is None, path

    # ── cursors ──────────────────────────────────────────────────────────────────────────────────────

    def test_a_conversation_that_grew_gives_only_what_is_new(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        whole, _, _ = self.read(tool)
        for records in range(1, self.samples.records):
            self.samples.save(home, records)
            if not list(tool.transcripts()):
                continue  # it is one only when something was said
            before, cursor, _ = self.read(tool)
            self.samples.save(home)
            after, _, _ = self.read(tool, cursor)
            assert (before + after if cursor is not None else after) == whole, f"after {records} records"

    def test_signs_of_change_change_with_it(self, home: Path, tool: TranscriptSource) -> None:
        signs = []
        for records in range(1, self.samples.records + 1):
            self.samples.save(home, records)
            signs += [(found.size, found.changed) for found in tool.transcripts()]

        assert len(set(signs)) == len(signs) > 0

    def test_nothing_new_gives_nothing(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        whole, cursor, _ = self.read(tool)

        again, same, _ = self.read(tool, cursor)

        assert again == ([] if cursor is not None else whole)
        assert same == cursor

    def test_a_cursor_that_makes_no_sense_reads_everything(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        whole, _, _ = self.read(tool)
        for cursor in (*NONSENSE, *map(dict, self.samples.wrong_cursors)):
            assert self.read(tool, cursor)[0] == whole, cursor

    def test_a_file_that_was_replaced_by_a_shorter_one_is_read_whole(self, home: Path, tool: TranscriptSource) -> None:
        samples = self.lines()
        samples.save(home)
        _, cursor, _ = self.read(tool)
        samples.save(home, samples.records // 2)
        whole, _, _ = self.read(tool)

        assert self.read(tool, cursor)[0] == whole

    def test_a_file_that_is_being_written_loses_nothing_wherever_it_is_cut(
        self, home: Path, tool: TranscriptSource
    ) -> None:
        samples = self.lines()
        data = b"".join(line + b"\n" for line in samples.lines)
        samples.save(home)
        whole, _, _ = self.read(tool)
        ends = [place for place, byte in enumerate(data) if byte == 10]
        cuts = {cut for end in ends for cut in range(end - 1, end + 3)} | set(range(1, len(data), 251))
        for cut in sorted(cut for cut in cuts if 0 < cut < len(data)):
            samples.save_bytes(home, data[:cut])
            if not list(tool.transcripts()):
                continue
            before, cursor, _ = self.read(tool)
            samples.save(home)
            after, _, _ = self.read(tool, cursor)
            assert (before + after if cursor is not None else after) == whole, f"cut at byte {cut}"

    # ── damage ───────────────────────────────────────────────────────────────────────────────────────

    def test_a_record_that_cannot_be_read_costs_only_itself(self, home: Path, tool: TranscriptSource) -> None:
        samples = self.lines()
        samples.save(home)
        whole, _, _ = self.read(tool)
        for line in (*GARBAGE, *samples.broken):
            for place in (samples.records // 2, samples.records):
                self._save_with(samples, home, place, line)
                messages, _, counts = self.read(tool)
                assert messages == whole, line[:40]
                told = sum(counts.damaged.values()) + sum(counts.unknown.values())
                # A last line that is not whole may still be being written.
                assert told == 1 or (place == samples.records and not _is_json(line)), line[:40]
                assert len(counts.places) == sum(counts.damaged.values()), line[:40]

    def test_a_record_of_an_unknown_kind_is_counted_by_its_kind(self, home: Path, tool: TranscriptSource) -> None:
        samples = self.lines()
        samples.save(home)
        whole, _, _ = self.read(tool)
        for line in samples.unknown:
            self._save_with(samples, home, samples.records, line)
            messages, _, counts = self.read(tool)
            assert messages == whole, line[:80]
            assert sum(counts.unknown.values()) == 1 and counts.damaged == {}, line[:80]

    def test_empty_lines_and_zeros_are_passed_over(self, home: Path, tool: TranscriptSource) -> None:
        samples = self.lines()
        samples.save(home)
        whole, _, _ = self.read(tool)

        samples.save_bytes(home, b"".join(line + b"\n\n" for line in samples.lines))
        assert self.read(tool)[0] == whole

    def test_two_records_on_one_line_are_both_read(self, home: Path, tool: TranscriptSource) -> None:
        samples = self.lines()
        samples.save(home)
        whole, _, _ = self.read(tool)
        for place in range(1, samples.records - 1):
            lines = [*samples.lines]
            lines[place : place + 2] = [lines[place] + lines[place + 1]]
            samples.save_bytes(home, b"".join(line + b"\n" for line in lines))
            messages, _, counts = self.read(tool)
            assert messages == whole, f"records {place} and {place + 1}"
            assert counts.damaged == {}

    def _save_with(self, samples: LineSamples, home: Path, place: int, line: bytes) -> None:
        lines = [*samples.lines]
        lines.insert(place, line)
        samples.save_bytes(home, b"".join(line + b"\n" for line in lines))

    # ── copies ───────────────────────────────────────────────────────────────────────────────────────

    def test_a_copy_reads_the_same_and_follows_the_conversation(
        self, home: Path, tool: TranscriptSource, tmp_path: Path
    ) -> None:
        (tmp_path / "kept").mkdir()
        copy = str(tmp_path / "kept" / "native")
        self.samples.save(home, self.samples.records - 1)
        if transcripts := list(tool.transcripts()):
            tool.copy(transcripts[0], copy)
        self.samples.save(home)
        tool.copy(self.only(tool), copy)

        kept = tool.transcript_at(copy)

        assert kept is not None
        assert (kept.key, kept.path) == (self.only(tool).key, copy)
        assert [bare(message) for message in tool.read(kept)] == self.read(tool)[0]

    def test_a_copy_may_be_flushed_later(self, home: Path, tool: TranscriptSource, tmp_path: Path) -> None:
        self.samples.save(home)
        tool.copy(self.only(tool), str(tmp_path / "now"))
        later = Later()
        tool.copy(self.only(tool), str(tmp_path / "aside"), later)
        later.flush()

        assert (tmp_path / "aside").read_bytes() == (tmp_path / "now").read_bytes()


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
