"""What an adapter does for one AI tool, on one page.

`TranscriptSource` is required: it is enough for import, list, search, show, sync, sweep, doctor and tools. The others
are optional, and services ask with `isinstance`:

    NativeWriter   writes sessions into the tool's own store and opens them: resume, export --format native
    Installer      puts our commands, hooks and MCP entry into a project: init, upgrade, uninstall
    Hooks          understands what the tool reports while it runs
    Headless       answers without a screen: `cli/NAME` as a model (see `model.headless`)

An adapter reads leniently (formats belong to the tools, and change) and writes strictly (what it wrote it
reads back). It never writes to a file that the tool wrote. Everything it touches lies in the user's home or the
project folder that it is given, so a test can point it anywhere. `cortext.testing` checks all of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from cortext.io.batch import Later
from cortext.model.headless import Headless
from cortext.model.message import Message
from cortext.model.turns import Turns

__all__ = [
    "About",
    "CommandFile",
    "Counts",
    "Detected",
    "Headless",
    "HookEvent",
    "Hooks",
    "Installer",
    "Launch",
    "Messages",
    "NativeWriter",
    "Transcript",
    "TranscriptReading",
    "TranscriptSource",
    "Withheld",
    "Written",
]

Messages = Sequence[Message]


class Detected(msgspec.Struct, kw_only=True):
    """A tool that is installed here."""

    program: str
    version: str
    tested: bool  # whether this is a version that our tests ran


class Transcript(msgspec.Struct, kw_only=True):
    """A conversation in a tool's own store. `key` is the tool's session id.

    `size` and `changed` are cheap signs of change: equal signs, equal contents.
    """

    tool: str
    key: str
    path: str
    project: str = ""
    size: int = 0
    changed: int = 0


class Counts(msgspec.Struct, kw_only=True):
    """What a reading met besides messages, counted by kind, and the first few places of damage."""

    skipped: dict[str, int] = {}  # bookkeeping records that are known and not part of the talk
    unknown: dict[str, int] = {}  # record types that this adapter has never seen
    damaged: dict[str, int] = {}  # records that could not be read, by reason
    places: list[str] = []  # where: "file:line", at most 20


class About(msgspec.Struct, kw_only=True):
    """What a transcript tells about itself."""

    title: str = ""
    model: str = ""
    project: str = ""
    created_at: str = ""
    command: str = ""  # the slash command that it began with: /workspace.brainstorm
    summary: str = ""  # the tool's own summary (a compaction), if any
    tools: list[str] = []  # tools that were called


class TranscriptReading(Protocol):
    """The messages of a transcript, streaming; the rest is complete when the iteration is.

    Message ids are stable: the tool's own, or derived from the record. Where the talk went back and took
    another way, `Message.parent` says so; side agents' messages are `aside`. `cursor` is what to hand to
    the next reading to get only what was added since (None where the tool's format does not allow it).
    """

    about: About
    counts: Counts
    cursor: dict[str, Any] | None

    def __iter__(self) -> Iterator[Message]: ...


class Written(msgspec.Struct, kw_only=True):
    """A native session that an adapter wrote, and what had to change on the way, by kind."""

    key: str
    path: str
    messages: int
    tool_calls: int
    changed: dict[str, int] = {}  # e.g. {"thinking left out": 2, "line added before text that looks like a command": 1}

    @classmethod
    def of(cls, normal: Turns, key: str = "", path: str = "") -> Written:
        """The report on a conversation whose normal form was, or would be, written."""
        return cls(key=key, path=path, messages=normal.messages, tool_calls=normal.tool_calls, changed=normal.changed)


class Withheld(msgspec.Struct, kw_only=True):
    """What the model does not get, or gets otherwise, when a tool opens a session of its own."""

    messages: dict[str, set[str]] = {}  # ids of messages by the reason why the model does not get them
    changed: dict[str, int] = {}


class Launch(msgspec.Struct, kw_only=True):
    """How to start a tool: the caller execs this, so that the terminal belongs to the tool."""

    argv: list[str]
    cwd: str
    env: dict[str, str] = {}  # added to the caller's


class HookEvent(msgspec.Struct, kw_only=True):
    """A tool's hook payload in our words."""

    kind: str  # started | prompt | command | answered | compacted | ended | other
    key: str  # the tool's session id
    path: str = ""  # its transcript, where the payload says
    project: str = ""
    text: str = ""  # the prompt, or the answer
    command: str = ""  # workspace.brainstorm
    arguments: str = ""


class CommandFile(msgspec.Struct, kw_only=True):
    """A slash command to install: `name` without the slash; `text` has {arguments} where they go.

    `run` is a command line of ours whose output becomes part of the prompt, where the tool can do that.
    """

    name: str
    description: str
    text: str
    run: Sequence[str] = ()


@runtime_checkable
class TranscriptSource(Protocol):
    """One AI tool whose conversations can be read. The class is called without arguments."""

    name: str  # what the user types: claude, gemini, opencode, codex
    title: str  # what the user reads: Claude Code
    tested_version: str  # the version that the adapter's tests ran against

    def detect(self) -> Detected | None:
        """Whether it is installed here, and which version."""

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Its conversations on this machine (of one project, if given), in no order."""

    def transcript_at(self, path: str) -> Transcript | None:
        """The transcript in this file, which may lie anywhere; None where the file is not one of this tool."""

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """The messages; with a cursor only those since."""

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Keep the transcript as it is in the tool's own form, so that it can go back unchanged. The folder exists.

        A second copy of one that grew costs only what is new (see `io.batch`). With `later` it is the first, and
        flushed then.
        """


@runtime_checkable
class NativeWriter(TranscriptSource, Protocol):
    """A tool that a conversation can be resumed in: we write its sessions, and know how to open one."""

    # Whether a first prompt has to be an argument of the program: everybody on the machine can read those.
    prompt_is_public: bool

    def put_back(self, copy: str, *, project: str) -> str:
        """Bring a kept copy back into the tool's store if the tool lost it; the session's key."""

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """What the model would not get of this session if the tool opened it; None where that cannot be said: after a
        compaction, for the tools that keep no more of what came before than a summary.
        """

    def preview(self, messages: Messages) -> Written:
        """What `write` would report for these messages (key and path empty); nothing is written."""

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project that holds these messages as real turns.

        Never over an existing one; verified by reading it back. With `key` it gets that id where it is free. `note` is
        said last, in the user's place: a word of ours to the model, which is none of the messages.
        """

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """How to open that session interactively, the prompt (if any) sent first.

        Where `prompt_is_public` it is an argument of the program, which every user of the machine can read.
        """

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """How to open a new session interactively with this prompt; its id is known before it is begun.

        The prompt is private in any case: it stands in the session where it would be public otherwise.
        """

    def discard(self, written: Written, *, project: str) -> None:
        """Take away a session that `write` or `launch_new` made and nobody used."""


@runtime_checkable
class Installer(TranscriptSource, Protocol):
    """A tool whose settings in a project can hold our commands, hooks and MCP entry."""

    @property
    def first_steps(self) -> Sequence[str]:
        """How a conversation is begun in it after `cortext init`, a line each."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """The whole files that are ours in a project (commands or skills, a plugin): relative path and contents."""

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Put hooks and the MCP entry into the project's config of this tool; the files that it changed.

        `program` is how to call us (`["cortext"]`): the hook is `program + ["hook", self.name]`, the MCP
        server `program + ["mcp"]`. What the user has there stays. Doing it twice changes nothing. Without `server`,
        the MCP entry is not added, but one that is there stays. `dry_run` only says which files it would change.
        """

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Remove exactly what `install_settings` put in; the files that it changed, or, dry, would change."""

    def mcp_servers(self, project: str) -> set[str]:
        """The names of the MCP servers that this tool would have in this project."""


@runtime_checkable
class Hooks(TranscriptSource, Protocol):
    """A tool that calls us while it runs."""

    commands_run: bool  # whether its command files see to it that what we print reaches the model
    # Whether a hook's words beside a prompt would be a developer's: then a record of the past goes to the model with
    # the end of its answer, where such words are a user's message.
    records_after_answer: bool
    started_by: str  # the environment variable that programs started by the tool see
    session_variable: str  # the one that says which of its sessions started them; empty where there is none

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Why the tool would not run our hooks in this project although they are in place, and what to do, each."""

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """A hook's payload in our words; None where it does not concern us."""

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """What to print so that the tool gives `context` to the model with this event; empty where it cannot."""
