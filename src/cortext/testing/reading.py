"""Finding and reading conversations: complete, incremental, despite damaged records, and without writing anything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest

from cortext.errors import CortextError
from cortext.io.new_files import Later
from cortext.model.message import ASSISTANT, ROLES, Message
from cortext.services.capture.copies import copies_of
from cortext.testing.samples import LineSamples, Samples
from cortext.testing.table import Test
from cortext.tools.base import Counts, Transcript, TranscriptSource
from cortext.wiring.stores import Stores

# Records that no tool writes.
GARBAGE = (b"not JSON at all", b"\xff\xfe\xfd", b'{"half": "a rec', b"[" * 5_000, b"null", b"7", b'"text"', b"[1, 2]")
INVALID_CURSORS: tuple[dict[str, Any], ...] = (
    {},
    {"x": 1},
    {"offset": -1},
    {"offset": "many"},
    {"offset": 10**9},
)

DAMAGES = ("empty", "zeros", "half")  # what a power cut or a fault of the tool leaves of its file

Comparable = tuple[str, str, str, Any, bool]


def only_if(condition: Callable[[Samples, Path], bool]) -> Callable[[Test], Test]:
    """Let a test be collected only if the samples, with an empty home folder, meet this condition."""

    def decorate(test: Test) -> Test:
        test.only_if = condition  # type: ignore[attr-defined]
        return test

    return decorate


class Conformance:
    """The fixtures and helpers of all parts of the suite.

    A part whose protocol (`needs`) the adapter does not implement, and a test that is not for it (`only_if`), is left
    out: pytest collects only what can be called.
    """

    samples: ClassVar[Samples]
    needs: ClassVar[type] = TranscriptSource
    leaves_out: ClassVar[tuple[type, ...]] = ()  # parts that are not for these samples, for a reason of their own

    def __init_subclass__(cls) -> None:
        """Leave out what the adapter cannot do."""
        super().__init_subclass__()
        if not hasattr(cls, "samples"):
            return  # a part of the suite
        with TemporaryDirectory() as home:
            tool = cls.samples.tool(Path(home))
        for part in cls.__mro__:
            is_for_it = part not in cls.leaves_out and isinstance(tool, vars(part).get("needs", object))
            for name, test in list(vars(part).items()):
                if name.startswith("test_") and not (is_for_it and cls._meets(getattr(test, "only_if", None))):
                    setattr(cls, name, None)

    @classmethod
    def _meets(cls, condition: Callable[[Samples, Path], bool] | None) -> bool:
        """Return whether the samples meet the condition of a test."""
        if condition is None:
            return True
        with TemporaryDirectory() as home:
            return condition(cls.samples, Path(home))

    @pytest.fixture
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Create an empty home folder and make it the user's."""
        folder = tmp_path / "home"
        folder.mkdir()
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "CORTEXT_WORKSPACE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(folder))
        return folder

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """Create the folder of a project."""
        folder = tmp_path / "My Project"
        folder.mkdir()
        return folder

    @pytest.fixture
    def tool(self, home: Path) -> TranscriptSource:
        """Return the adapter."""
        return self.samples.tool(home)

    def only_transcript(self, tool: TranscriptSource) -> Transcript:
        """Return the only conversation of the tool."""
        (transcript,) = tool.transcripts()
        return transcript

    def read(
        self, tool: TranscriptSource, cursor: dict[str, Any] | None = None
    ) -> tuple[list[Comparable], dict[str, Any] | None, Counts]:
        """Return the messages of the only conversation, the next cursor (encoded as JSON and back), and the counts."""
        reading = tool.read(self.only_transcript(tool), cursor)
        messages = [comparable(message) for message in reading]
        return messages, json.loads(json.dumps(reading.cursor)), reading.counts

    def damage(self, home: Path, tool: TranscriptSource, kind: str) -> None:
        """Damage the tool's own file. A database is not damaged; it loses the second half of the conversation."""
        path = Path(self.only_transcript(tool).path)
        data = path.read_bytes()
        if data.startswith(b"SQLite"):
            self.samples.save(home, self.samples.records // 2)
        else:
            path.write_bytes({"empty": b"", "zeros": bytes(len(data)), "half": data[: len(data) // 2]}[kind])


def comparable(message: Message) -> Comparable:
    """Return the fields that must be equal when the same message is read twice."""
    return message.id, message.role, message.text, message.parts, message.aside


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the contents of every file below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class ReadingConformance(Conformance):
    """`TranscriptSource`."""

    def test_it_has_a_name_to_type_and_a_title_to_read(self, tool: TranscriptSource) -> None:
        assert isinstance(tool, TranscriptSource)
        assert re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", tool.name)
        assert tool.title.strip() == tool.title != ""
        assert isinstance(tool.tested_version, str)

    def test_a_home_without_the_tool_has_no_transcripts(self, tool: TranscriptSource, tmp_path: Path) -> None:
        tool.detect()
        assert list(tool.transcripts()) == []
        assert list(tool.transcripts(str(tmp_path))) == []

    def test_the_conversation_is_found_and_only_in_its_project(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)

        found = self.only_transcript(tool)

        assert found.tool == tool.name
        assert found.key and found.path and found.size > 0 and found.changed > 0
        assert self.only_transcript(tool) == found, "nothing changed, so the fingerprint is the same"
        assert list(tool.transcripts("/somewhere/else")) == []
        if self.samples.project:
            assert [item.key for item in tool.transcripts(self.samples.project)] == [found.key]

    def test_every_message_is_read_with_a_stable_id(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)

        messages, _, counts = self.read(tool)

        assert [(role, text) for _, role, text, _, _ in messages] == list(self.samples.messages)
        assert {role for _, role, _, _, _ in messages} <= set(ROLES)
        ids = [message[0] for message in messages]
        assert all(ids) and len(set(ids)) == len(ids)
        assert (counts.damaged, counts.unknown, counts.places) == ({}, {}, [])
        assert self.read(tool)[0] == messages

    def test_reading_writes_nothing(self, home: Path, tool: TranscriptSource, tmp_path: Path) -> None:
        self.samples.save(home)
        before = files_in(home)
        (tmp_path / "copies").mkdir()

        tool.detect()
        self.read(tool)
        tool.copy(self.only_transcript(tool), str(tmp_path / "copies" / "native"))

        after = files_in(home)
        assert {name: after.get(name) for name in before} == before

    def test_other_files_are_not_taken_for_transcripts(
        self, home: Path, tool: TranscriptSource, tmp_path: Path
    ) -> None:
        self.samples.save(home)
        found = tool.transcript_at(self.only_transcript(tool).path)
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

    def test_a_cursor_returns_only_the_new_messages(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        complete, _, _ = self.read(tool)
        for records in range(1, self.samples.records):
            self.samples.save(home, records)
            if not list(tool.transcripts()):
                continue  # a tool may ignore a conversation that has no message yet
            before, cursor, _ = self.read(tool)
            self.samples.save(home)
            after, _, _ = self.read(tool, cursor)
            assert (before + after if cursor is not None else after) == complete, f"after {records} records"

    def test_every_new_record_changes_the_fingerprint(self, home: Path, tool: TranscriptSource) -> None:
        fingerprints = []
        for records in range(1, self.samples.records + 1):
            self.samples.save(home, records)
            fingerprints += [(found.size, found.changed) for found in tool.transcripts()]

        assert len(set(fingerprints)) == len(fingerprints) > 0

    def test_a_cursor_at_the_end_returns_nothing(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        complete, cursor, _ = self.read(tool)

        again, next_cursor, _ = self.read(tool, cursor)

        assert again == ([] if cursor is not None else complete)
        assert next_cursor == cursor

    def test_an_invalid_cursor_reads_everything(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        complete, _, _ = self.read(tool)
        for cursor in (*INVALID_CURSORS, *map(dict, self.samples.invalid_cursors)):
            assert self.read(tool, cursor)[0] == complete, cursor

    def test_a_transcript_that_became_shorter_is_read_from_the_start(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        _, cursor, _ = self.read(tool)
        self.samples.save(home, self.samples.records // 2)
        complete, _, _ = self.read(tool)

        assert complete
        assert self.read(tool, cursor)[0] == complete

    @only_if(lambda samples, home: samples.save_growing(home))
    def test_a_reply_that_grows_in_place_is_kept_whole_and_once(
        self, home: Path, tool: TranscriptSource, project: Path
    ) -> None:
        assert self.samples.save_growing(home)
        capture = Stores(str(project)).capture()
        session_id = capture.capture(tool, self.only_transcript(tool)).session_id
        replies = list(self.samples.finish_growing(home))

        capture.capture(tool, self.only_transcript(tool))

        kept = [message for message in capture.home.store.read(session_id) if message.role == ASSISTANT]
        assert [message.text for message in kept if not message.partial] == replies

    # ── damage ───────────────────────────────────────────────────────────────────────────────────────

    def test_a_damaged_record_is_counted_and_the_others_are_read(self, home: Path, tool: TranscriptSource) -> None:
        samples = self.samples
        samples.save(home)
        complete, _, _ = self.read(tool)
        for record in (*GARBAGE, *samples.broken):
            for index in (samples.records // 2, samples.records):
                samples.save_with(home, index, record)
                messages, _, counts = self.read(tool)
                assert messages == complete, record[:40]
                counted = sum(counts.damaged.values()) + sum(counts.unknown.values())
                # The last line of a file may be incomplete because the tool is still writing it.
                may_be_incomplete = isinstance(samples, LineSamples) and index == samples.records
                assert counted == 1 or (may_be_incomplete and not _is_json(record)), record[:40]
                assert len(counts.places) == sum(counts.damaged.values()), record[:40]

    def test_a_record_of_an_unknown_kind_is_counted(self, home: Path, tool: TranscriptSource) -> None:
        self.samples.save(home)
        complete, _, _ = self.read(tool)
        for record in self.samples.unknown:
            self.samples.save_with(home, self.samples.records, record)
            messages, _, counts = self.read(tool)
            assert messages == complete, record[:80]
            assert sum(counts.unknown.values()) == 1 and counts.damaged == {}, record[:80]

    # ── copies ───────────────────────────────────────────────────────────────────────────────────────

    def test_an_updated_copy_reads_like_the_original(self, home: Path, tool: TranscriptSource, tmp_path: Path) -> None:
        (tmp_path / "copies").mkdir()
        path = str(tmp_path / "copies" / "native")
        self.samples.save(home, self.samples.records - 1)
        if transcripts := list(tool.transcripts()):
            tool.copy(transcripts[0], path)
        self.samples.save(home)
        tool.copy(self.only_transcript(tool), path)

        copy = tool.transcript_at(path)

        assert copy is not None
        assert (copy.key, copy.path) == (self.only_transcript(tool).key, path)
        assert [comparable(message) for message in tool.read(copy)] == self.read(tool)[0]

    def test_a_copy_that_is_flushed_later_is_the_same(self, home: Path, tool: TranscriptSource, tmp_path: Path) -> None:
        self.samples.save(home)
        tool.copy(self.only_transcript(tool), str(tmp_path / "flushed now"))
        later = Later()
        tool.copy(self.only_transcript(tool), str(tmp_path / "flushed later"), later)
        later.flush()

        assert (tmp_path / "flushed later").read_bytes() == (tmp_path / "flushed now").read_bytes()

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_transcript_does_not_take_the_place_of_its_copy(
        self, home: Path, tool: TranscriptSource, project: Path, damage: str
    ) -> None:
        self.samples.save(home)
        complete, _, _ = self.read(tool)
        capture = Stores(str(project)).capture()
        session_id = capture.capture(tool, self.only_transcript(tool)).session_id

        self.damage(home, tool, damage)
        try:
            for transcript in tool.transcripts():
                capture.capture(tool, transcript)
        except (CortextError, OSError):
            pass  # a tool's file that cannot be read at all may be an error

        paths = copies_of(capture.home.store.get(session_id).path)
        copies = [copy for copy in map(tool.transcript_at, paths) if copy is not None]
        assert complete in [[comparable(message) for message in tool.read(copy)] for copy in copies]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


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
