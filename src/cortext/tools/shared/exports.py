"""Conversations that users download from a website: a zip archive with `conversations.json`, or that file alone.

There is no program to detect and no folder to search: the user names the file. It is opened once and stays open while
its conversations are read, which may be thousands.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from cortext.errors import DamagedData
from cortext.io import durable, new_files
from cortext.tools.base import Detected, Transcript, TranscriptReading
from cortext.tools.shared.lines import derived_id
from cortext.tools.shared.values import Object, spans

_PEEK = 1 << 16
_MEMBER = re.compile(r"(?:.*/)?conversations(?:[-_]\d+)?\.json")
_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_LARGEST = 1 << 33  # bytes of an unpacked document

Raw = msgspec.Raw | bytes


class ExportTool:
    """An adapter for exported conversations. A subclass knows what a conversation looks like."""

    name: str
    title: str
    tested_version = ""
    proof = "samples"
    decoder: msgspec.json.Decoder[Any]  # of what the list needs: the rest of a conversation may be many megabytes
    marker: bytes  # a field that every conversation has, near its beginning
    key_pattern: bytes  # what finds the id of a damaged conversation

    def __init__(self) -> None:
        self._opened: dict[tuple[str, int, int], dict[str, tuple[Raw, int]]] = {}

    def describe(self, raw: Raw) -> tuple[str, int] | None:
        """Return the id of a conversation and when it was changed; None if this is not one, or damaged."""
        try:
            head = self.decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return self.identity(head)

    def identity(self, head: Any) -> tuple[str, int] | None:
        """Return the same, of what the decoder returned."""
        raise NotImplementedError

    def reading(self, transcript: Transcript, data: bytes) -> TranscriptReading:
        """Return the messages of one conversation, which may be damaged."""
        raise NotImplementedError

    def is_conversation(self, value: Object) -> bool:
        """Whether an object is a conversation."""
        return self.marker.decode().strip('"') in value

    def detect(self) -> Detected | None:
        """Return None: there is no program."""
        return None

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield nothing: only the user knows where an export is."""
        return iter(())

    def transcripts_in(self, path: str) -> Iterator[Transcript]:
        """Yield every conversation of an export."""
        for key, (raw, changed) in self._conversations(path).items():
            yield Transcript(tool=self.name, key=key, path=path, size=memoryview(raw).nbytes, changed=changed)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the conversation in a copy, or the only one of an export."""
        found = list(self.transcripts_in(path))
        return found[0] if len(found) == 1 else None

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return a reading of the whole conversation: a later export has all of it again."""
        return self.reading(transcript, self._data(transcript))

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the conversation as it is in the export, without the others."""
        data = self._data(transcript)
        if later is not None:
            new_files.new_file(target, [data], later)
        else:
            durable.replace_file(target, [data])

    def _data(self, transcript: Transcript) -> bytes:
        found = self._conversations(transcript.path).get(transcript.key)
        return bytes(found[0]) if found is not None else b""

    def _conversations(self, path: str) -> dict[str, tuple[Raw, int]]:
        try:
            status = os.stat(path)
            state = path, status.st_mtime_ns, status.st_size
            if state not in self._opened:
                self._opened[state] = dict(self._load(path))
        except (OSError, ValueError):
            return {}
        return self._opened[state]

    def _load(self, path: str) -> Iterator[tuple[str, tuple[Raw, int]]]:
        for data in _documents(path, self.marker):
            for raw in self._split(data):
                found = self.describe(raw)
                if found is not None:
                    yield found[0], (raw, found[1])
                elif self.marker in bytes(raw):
                    key = re.search(self.key_pattern, bytes(raw))
                    name = key[1].decode("utf-8", "replace") if key else derived_id(bytes(raw)[:300].hex())
                    yield name, (raw, 1)

    def _split(self, data: mmap.mmap) -> Iterator[Raw]:
        """Yield the conversations of a document. One that is damaged does not affect the others."""
        if self.describe(data[:] if data[:1] == b"{" else b"") is not None:
            yield data[:]  # a copy, of one conversation
            return
        try:
            found = _list_decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            yield from found
            return
        text = data[:].decode("utf-8", "replace")
        start = 0
        for begin, end, _ in spans(text, self.is_conversation):
            if "{" in text[start:begin]:
                yield text[start:begin].strip(" \t\r\n,[]").encode("utf-8")
            yield text[begin:end].encode("utf-8")
            start = end
        if "{" in text[start:]:
            yield text[start:].strip(" \t\r\n,[]").encode("utf-8")


def _documents(path: str, marker: bytes) -> Iterator[mmap.mmap]:
    """Yield the JSON documents of an export, in memory that is read when it is needed."""
    with open(path, "rb", opener=durable.plain_file) as file:
        head = file.read(_PEEK)
        if head.startswith(b"PK\x03\x04"):
            yield from _unpacked(path, marker)
        elif head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{") and marker in head:
            yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _unpacked(path: str, marker: bytes) -> Iterator[mmap.mmap]:
    """Yield the documents of an archive. Each is unpacked to a file without a name, so that any part can be read.

    Raise DamagedData if a document cannot be unpacked.
    """
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        for member in sorted(filter(_MEMBER.fullmatch, archive.namelist())):
            if archive.getinfo(member).file_size > _LARGEST:
                continue
            with tempfile.TemporaryFile() as file:
                try:
                    _unpack(archive, member, marker, file)
                # Encrypted, or compressed in a way that Python does not know, or damaged.
                except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
                    raise DamagedData(
                        f"{path} cannot be unpacked: {error}", kept="it is unchanged", hint="download the export again"
                    ) from error
                if file.tell():
                    yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _unpack(archive: zipfile.ZipFile, member: str, marker: bytes, file: IO[bytes]) -> None:
    """Write a document of an archive to a file, if it has conversations."""
    with archive.open(member) as packed:
        head = packed.read(_PEEK)
        if marker in head:
            file.write(head)
            shutil.copyfileobj(packed, file, 1 << 20)
            file.flush()
