"""The adapter for Aider: finding and reading its conversations.

They are sections of `.aider.chat.history.md` in each project, and histories of our own.

Aider has no list of projects and no session ids. So its histories are looked for in the current folder, the workspaces
and repositories that cortext knows (those in which any tool was used), and the projects of our own histories: one path
each, no search through the disk. A section is a conversation, together with the following ones that restored the
history. Its id is the time at which it started and a hash of its first words, so that a copy has the same id.

Restoring a chat history sends all sections of a file, and Aider appends to the same file. So a conversation is resumed
from a history of our own, in cortext's data folder: what was carried over or the copied section, then Aider's further
sections. Its first line, which Aider ignores, says which conversation and project it belongs to.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cortext.errors import CortextError
from cortext.io import durable, new_files
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message
from cortext.tools.aider.history import STARTED, Block, blocks
from cortext.tools.base import About, Counts, Leftover, Transcript, Watch
from cortext.tools.shared.commands import is_resume_block
from cortext.tools.shared.folders import beginning, entries, listing, of_project
from cortext.tools.shared.leftovers import renamed, unlisted
from cortext.tools.shared.lines import ForeignLines, derived_id, local_moment, note
from cortext.tools.shared.native import OwnMessages, list_path
from cortext.tools.shared.parts import HasWriter, LazyPart
from cortext.tools.shared.program import LocalTool

HISTORY = ".aider.chat.history.md"
KEY = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{12}")
_HEAD = b"# cortext "
_BEGIN = 4096
_LARGEST = 1 << 28
_SECTION = re.compile(rb"^" + STARTED.encode() + rb"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)[ \t]*\r?$", re.MULTILINE)
_RESTORED = re.compile(rb"^> Restored previous conversation history\.", re.MULTILINE)
_COMMAND = ("/", "!")
_BLANK = "<blank>"


class Head(msgspec.Struct, omit_defaults=True):
    """The first line of a history of our own."""

    key: str
    project: str = ""
    title: str = ""


class _Known(msgspec.Struct):
    """A line of the file with the repositories that cortext knows."""

    top: str = ""


class Section(msgspec.Struct):
    """A conversation: its id, its bytes, and the head of the file if that is ours."""

    key: str
    data: bytes
    changed: int
    head: Head | None = None

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


_repository_decoder = msgspec.json.Decoder(_Known)


class Aider(HasWriter, LocalTool):
    """The adapter for Aider, which has neither tool calls nor hooks.

    It cannot be started with a first prompt and stay open (`--message` answers and exits), so the context of a resumed
    conversation is the last message of the history, and the user speaks first.
    """

    name = "aider"
    title = "Aider"
    tested_version = "0.86.2"
    command = "aider"
    distribution = "aider-chat"
    prompt_is_public = True
    user_speaks_first = True
    shows_history = False
    install_command = "pipx install aider-chat"

    writer = LazyPart("cortext.tools.aider.write:AiderWriter")

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self._read: tuple[object, list[Section]] = (None, [])  # the last file, because its sections are read in turn

    @property
    def data(self) -> str:
        """The folder with cortext's data."""
        data = self.own_environ.get("XDG_DATA_HOME") or os.path.join(self.home, ".local", "share")
        return os.path.join(data, "cortext")

    @property
    def folder(self) -> str:
        """The folder of the histories of our own."""
        return os.path.join(self.data, "aider")

    def own_path(self, key: str) -> str:
        """Return the path of a history of our own."""
        return os.path.join(self.folder, f"{key}.md")

    def list_path(self, key: str) -> str:
        """Return the path of the list of messages that we wrote into it."""
        return list_path(self.home, self.own_environ, self.name, key)

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every conversation that can be found, or those of one project."""
        own = list(self._own_histories())
        yield from of_project(own, project, resolve=True)
        taken = {transcript.key for transcript in own}
        projects = [transcript.project for transcript in own]
        folders = self._projects(projects) if project is None else [project, _repository(project)]
        for path in _history_paths(folders):
            for transcript in self.transcripts_in(path):
                if transcript.key not in taken:
                    taken.add(transcript.key)
                    yield transcript

    def histories(self) -> list[str]:
        """Return the paths at which a history of Aider's own may be. Of our own, only the first line is read."""
        heads = (_head(beginning(path, _BEGIN)) for path in self._own_paths())
        return _history_paths(self._projects([head.project for head in heads if head is not None]))

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the histories that do not begin as one does or have another name; of our own, every one not listed."""
        histories = self.histories()
        folders = {os.path.dirname(history) for history in histories}  # a folder in one of them is another project
        beside = (path for history in histories for path in renamed(history, histories))
        others = (path for path in beside if os.path.dirname(path) in folders)
        own = (os.path.join(self.folder, entry.name) for entry in entries(self.folder) if entry.is_file())
        odd = (path for path in histories if not _is_history(path))
        return unlisted(dict.fromkeys((*sorted(own), *odd, *others)), listed, self.title)

    def watched(self) -> Watch:
        """Return our own histories, and Aider's in the projects that can be known."""
        return Watch(folders=[self.folder], files=self.histories())

    def changed(self, path: str) -> list[Transcript]:
        """Return the conversations in this file, without those that continue in a history of our own."""
        in_own_folder = os.path.dirname(os.path.abspath(path)) == self.folder
        if not in_own_folder and path not in self.histories():
            return []
        return [found for found in self.transcripts() if found.path == path]

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the conversation in this file; None if it has several."""
        found = list(self.transcripts_in(path))
        return found[0] if len(found) == 1 else None

    def transcripts_in(self, path: str) -> Iterator[Transcript]:
        """Yield all conversations in this file."""
        path = os.path.abspath(path)
        folder, name = os.path.split(path)
        for section in self.sections(path):
            yield _transcript(path, section, folder if name == HISTORY else "")

    def section(self, transcript: Transcript) -> Section | None:
        """Return the contents of a conversation; None if the file no longer has it."""
        return next((found for found in self.sections(transcript.path) if found.key == transcript.key), None)

    def sections(self, path: str) -> list[Section]:
        """Return the conversations in a file in which the user said something; a file of our own is one."""
        try:
            status = os.stat(path)
            stamp = (path, status.st_ino, status.st_size, status.st_mtime_ns)
            if self._read[0] != stamp:
                found = stat.S_ISREG(status.st_mode) and _is_history(path)
                data = durable.read_file(path, _LARGEST) if found else b""
                self._read = (stamp, list(_sections(data, status.st_mtime_ns)))
        except (OSError, CortextError):
            return []
        return self._read[1]

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> AiderReading:
        """Return a reading of the messages; always of all."""
        return AiderReading(self, transcript)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the conversation's part of the file unchanged."""
        section = self.section(transcript)
        if section is None:
            raise FileNotFoundError(transcript.path)
        if later is not None:
            new_files.new_file(target, [_contents(section)], later)
        else:
            durable.replace_file(target, [_contents(section)])

    def _own_histories(self) -> Iterator[Transcript]:
        for path in self._own_paths():
            found = self.transcript_at(path)
            if found is not None:
                yield found

    def _own_paths(self) -> list[str]:
        return [os.path.join(self.folder, name) for name in listing(self.folder) if name.endswith(".md")]

    def _projects(self, own: list[str]) -> list[str]:
        """Return the folders in which a history may be."""
        try:
            here = os.getcwd()
        except FileNotFoundError:
            here = ""
        try:
            workspaces = durable.read_text(os.path.join(self.data, "workspaces"), "surrogateescape").split("\n")
        except (OSError, CortextError):
            workspaces = []
        return [here, _repository(here), *workspaces, *self._repositories(), *own]

    def _repositories(self) -> list[str]:
        """Return the repositories in which conversations of any tool were held, as cortext recorded them."""
        lines = ForeignLines(os.path.join(self.data, "projects.jsonl"), 0, Counts())
        try:
            return [found.top for line in lines for found in lines.decode(line, _repository_decoder, _Known)]
        except (OSError, CortextError):
            return []


def _history_paths(folders: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(os.path.join(os.path.realpath(folder), HISTORY) for folder in folders if folder))


def head_line(head: Head) -> bytes:
    """Return the first line of a history of our own."""
    return _HEAD + msgspec.json.encode(head) + b"\n"


def _is_history(path: str) -> bool:
    """Whether a file begins like a history, so that other large files are not read."""
    begin = beginning(path, _BEGIN)
    return begin.startswith(_HEAD) or _SECTION.search(begin) is not None


def _head(data: bytes) -> Head | None:
    """Return what the first line of a history of our own says; None if it is not one."""
    first = data.partition(b"\n")[0]
    try:
        head = msgspec.json.decode(first.removeprefix(_HEAD), type=Head) if first.startswith(_HEAD) else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return head if head is not None and KEY.fullmatch(head.key) else None


def _sections(data: bytes, changed: int) -> Iterator[Section]:
    if data.startswith(_HEAD):
        head = _head(data)
        if head is not None:
            yield Section(head.key, data.partition(b"\n")[2], changed, head)
        return
    found = list(_SECTION.finditer(data))
    starts = [start for start in found if start is found[0] or not _is_continued(data, start)]
    keys: set[str] = set()
    for index, start in enumerate(starts):
        last = index + 1 == len(starts)
        # Aider writes an empty line before the next start, which is not yet there while this section is the last.
        section = data[start.start() :] if last else data[start.start() : starts[index + 1].start()].removesuffix(b"\n")
        said = next((block.text for block in blocks(section.decode("utf-8", "replace")) if block.role == USER), "")
        if not said:
            continue
        year, month, day, hour, minute, second = (digits.decode() for digits in start.groups())
        key, number = "", 0
        while not key or key in keys:  # two that began in the same second with the same words
            digest = hashlib.blake2b(f"{number}\0{said}".encode(), digest_size=6).hexdigest()
            key, number = f"{year}{month}{day}-{hour}{minute}{second}-{digest}", number + 1
        keys.add(key)
        moment = clock.to_epoch(f"{year}-{month}-{day}T{hour}:{minute}:{second}") or 1
        # The section only grows, so its size is enough to notice a change; the file's time would be that of all.
        yield Section(key, section, max(1, int(moment)))


def _is_continued(data: bytes, start: re.Match[bytes]) -> bool:
    """Whether a section continues the one before: Aider says that it restored the history, before the user speaks."""
    user = data.find(b"\n#### ", start.end())
    return _RESTORED.search(data, start.end(), user if user >= 0 else len(data)) is not None


def _transcript(path: str, section: Section, folder: str) -> Transcript:
    head = section.head
    return Transcript(
        tool=Aider.name,
        key=section.key,
        path=path,
        project=head.project if head is not None else folder,
        size=len(section.data),
        changed=section.changed,
    )


def _repository(folder: str) -> str:
    """Return the git repository around a folder, where Aider keeps its history; empty if there is none."""
    folder = os.path.abspath(folder) if folder else ""
    while folder and not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        folder = parent if parent != folder else ""
    return folder


class AiderReading:
    """The messages of a conversation; see `TranscriptReading`. Aider records times only for its starts."""

    def __init__(self, store: Aider, transcript: Transcript) -> None:
        self._store, self._transcript = store, transcript
        self.about, self.counts = About(), Counts()
        self.cursor: dict[str, Any] | None = None  # a section is short: it is always read as a whole

    def __iter__(self) -> Iterator[Message]:
        self.about, self.counts = About(project=self._transcript.project), Counts()
        section = self._store.section(self._transcript)
        if section is None:
            return
        messages: Iterable[Message] = section_messages(section, self.counts)
        if section.head is not None:
            self.about.title = section.head.title
            messages = OwnMessages(messages, self._store.list_path(section.key))
        for message in messages:
            self.about.created_at = self.about.created_at or message.timestamp
            self.about.model = message.model or self.about.model
            yield message


def section_messages(section: Section, counts: Counts) -> Iterator[Message]:
    """Yield the messages as the file contains them."""
    spoken = list(blocks(section.text))
    for index, block in enumerate(spoken):
        kind = _skipped(spoken, index)
        if kind:
            note(counts.skipped, kind)
            continue
        message = Message(
            role=block.role,
            content=block.text,
            timestamp=local_moment(block.started),
            id=derived_id(section.key, index, block.role, block.text),
            model=block.model,
            usage=block.usage,
            tokens=block.usage["output_tokens"] if block.usage else None,
        )
        if block.role == USER and is_resume_block(block.text):
            message.aside, message.extra = True, {"resume_block": True}
        yield message


def _skipped(spoken: Sequence[Block], index: int) -> str:
    """Return why something that the user typed is not part of the conversation; empty if it is."""
    block = spoken[index]
    if block.role != USER or not block.started:  # we wrote what precedes the first start of Aider
        return ""
    answered = index + 1 < len(spoken) and spoken[index + 1].role == ASSISTANT
    if not answered and block.text.startswith(_COMMAND):
        return "command"
    return "blank input" if block.text.strip() in ("", _BLANK) else ""


def _contents(section: Section) -> bytes:
    """Return a conversation as a file of its own."""
    return (head_line(section.head) if section.head is not None else b"") + section.data
