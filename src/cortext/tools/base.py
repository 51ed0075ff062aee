"""What an adapter does for one AI tool, on one page.

`TranscriptSource` is required: it is enough for import, list, search, show, sync, sweep, doctor and tools. The others
are optional, and services ask with `isinstance`:

    Collection     finds many conversations in one file: a database, an exported archive
    NativeWriter   writes sessions into the tool's own store and opens them: resume, export --format native
    Instructs      takes a text into its system prompt for one start: resume
    KeepsImages    has the images of a conversation in its transcripts: resume carries them over
    Refuses        cannot continue its own sessions under other settings: resume, restore
    Rewinds        says that its user has taken messages back: the check after a resume
    Installer      puts our commands, hooks and MCP entry into a project: init, upgrade, uninstall
    Hooks          interprets the events that the tool reports while it runs
    ShowsNotes     shows its user a line with the answer to an event
    UserHooks      runs hooks only from the user's own settings: init asks before it changes them
    Headless       answers without a terminal interface: `cli/NAME` as a model (see `model.answer`)
    Purges         deletes its own conversations after a time: rescue, doctor, tools
    Watched        keeps its conversations where their changes can be noticed: watch
    NamesLeftovers says what in its store `transcripts` does not list, and why: import, doctor, tools

An adapter reads leniently, because the formats belong to the tools and change, and writes strictly: it reads back what
it wrote. It never writes to a file that the tool created. It only touches the user's home and the project folder that
it is given, so that a test can point it anywhere. `cortext.testing` checks all of this.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from cortext.io.new_files import Later
from cortext.model.answer import Headless
from cortext.model.message import Message

if TYPE_CHECKING:  # a hook writes no session, and does without
    from cortext.model.turns import Turns

__all__ = [
    "EXAMPLE_KEY",
    "About",
    "Collection",
    "CommandFile",
    "Counts",
    "Detected",
    "Headless",
    "HookEvent",
    "Hooks",
    "Installer",
    "Instructs",
    "KeepsImages",
    "Launch",
    "Leftover",
    "Messages",
    "NamesLeftovers",
    "NativeWriter",
    "Purge",
    "Purges",
    "Refuses",
    "Rewinds",
    "Transcript",
    "TranscriptReading",
    "TranscriptSource",
    "UserHooks",
    "Watch",
    "Watched",
    "Withheld",
    "Written",
    "folder_variables_of",
    "proof_of",
    "reads_named_files",
    "shows_history",
    "skills_at_hand",
    "user_speaks_first",
]

Messages = Sequence[Message]


class Detected(msgspec.Struct, kw_only=True):
    """A tool that is installed here."""

    program: str
    version: str  # empty if the program does not report one
    tested: bool  # whether our tests run against this version


class Transcript(msgspec.Struct, kw_only=True):
    """A conversation in a tool's own store. `key` is the tool's session id.

    `size` and `changed` are a cheap fingerprint: if both are equal, so are the contents. `snapshot_of` is the key of
    the conversation that this file has an earlier state of, if a tool or its user keeps one: both make one session.
    Then `key` is that key, `@` and a name.
    """

    tool: str
    key: str
    path: str
    project: str = ""
    size: int = 0
    changed: int = 0
    snapshot_of: str = ""


class Leftover(msgspec.Struct, frozen=True):
    """A file, folder or table in a tool's store that may hold conversations and could not be listed, and why."""

    path: str
    why: str


class Counts(msgspec.Struct, kw_only=True):
    """The records that a reading found besides messages, counted by kind, and where the first damaged ones are."""

    skipped: dict[str, int] = {}  # known bookkeeping records that are not part of the conversation
    unknown: dict[str, int] = {}  # record types that this adapter does not know
    damaged: dict[str, int] = {}  # records that could not be read, by reason
    places: list[str] = []  # where the damaged records are, for the user: at most 20


class About(msgspec.Struct, kw_only=True):
    """The metadata in a transcript."""

    title: str = ""
    model: str = ""
    project: str = ""
    remote: str = ""  # the address of the project's git remote, if the tool recorded it
    created_at: str = ""
    command: str = ""  # the slash command that started it: /workspace.brainstorm
    summary: str = ""  # the tool's own summary (a compaction), if any
    tools: list[str] = []  # the names of the tools that the model called, or had by what its program says
    skills: list[str] = []  # the names of the skills that the model had, or was given the instructions of
    branch: str = ""  # the git branch that was checked out with the newest messages, if the tool recorded it
    head: str = ""  # the commit
    notes: int = 0  # how many texts of its own the tool gave to its model, in all: they are not messages


class TranscriptReading(Protocol):
    """A stream of the messages in a transcript. The attributes are complete when the iteration has ended.

    Message ids are stable: the tool's own, or derived from the record. If the conversation branched, `Message.parent`
    names the message that a branch starts from; the messages of subagents are `aside`. Pass `cursor` to the next
    reading to get only what was added since; it is None if the tool's format does not allow that.
    """

    about: About
    counts: Counts
    cursor: dict[str, Any] | None

    def __iter__(self) -> Iterator[Message]: ...


class Written(msgspec.Struct, kw_only=True):
    """A native session that an adapter wrote, and how many things it had to change, by kind."""

    key: str
    path: str
    messages: int
    tool_calls: int
    changed: dict[str, int] = {}  # e.g. {"thinking left out": 2, "line added before text that looks like a command": 1}
    images: int = 0  # how many images are in it as images

    @classmethod
    def of(cls, normal: Turns, key: str = "", path: str = "") -> Written:
        """Return the report on a conversation whose normal form was, or would be, written."""
        counts = {"messages": normal.messages, "tool_calls": normal.tool_calls, "images": normal.images}
        return cls(key=key, path=path, changed=normal.changed, **counts)


class Withheld(msgspec.Struct, kw_only=True):
    """What a tool does not send to the model, or sends in another form, when it opens one of its own sessions."""

    messages: dict[str, set[str]] = {}  # the ids of messages that are not sent, by reason
    changed: dict[str, int] = {}


EXAMPLE_KEY = "NEW"  # stands for the id of a session that is yet to be written


class Launch(msgspec.Struct, kw_only=True):
    """How to start a tool. The caller executes it in its own process, so that the tool gets the terminal."""

    argv: list[str]
    cwd: str
    env: dict[str, str] = {}  # added to the caller's environment
    changed: list[str] = []  # files of the project that got entries of ours, which the tool needs to resume
    note: str = ""  # what was asked for and is not done


class Purge(msgspec.Struct, kw_only=True):
    """What a tool will delete by itself: each conversation with the time (a Unix time) from which it may be deleted.

    `setting` and `value` say why; `keeping` in the user's `file` would make the tool keep everything, unless the value
    `is_managed` by an administrator. `note` is what else the user should know about the setting.
    """

    setting: str  # cleanupPeriodDays
    value: str  # 30
    keeping: str  # cleanupPeriodDays: 3650
    file: str
    due: list[tuple[Transcript, float]] = []
    is_managed: bool = False
    note: str = ""


class Watch(msgspec.Struct, kw_only=True):
    """Where a tool's transcripts change: folders, with everything below them, and single files. Neither need exist."""

    folders: list[str] = []
    files: list[str] = []


class HookEvent(msgspec.Struct, kw_only=True):
    """A hook payload in the form that all tools share."""

    kind: str  # started | prompt | command | answered | compacted | ended | other
    key: str  # the tool's session id
    path: str = ""  # its transcript, if the payload names it
    project: str = ""
    text: str = ""  # the prompt or the answer
    command: str = ""  # workspace.brainstorm
    arguments: str = ""


class CommandFile(msgspec.Struct, kw_only=True):
    """A slash command to install: `name` without the slash; `text` contains {arguments} where they are inserted.

    `run` is a cortext command line whose output becomes part of the prompt, if the tool supports that. `file` is the
    user's file that the text is in, relative to the project; empty if it is in none. A tool that reads such a file
    when the command is typed is given its name, so that the text stands in one file.
    """

    name: str
    description: str
    text: str
    run: Sequence[str] = ()
    file: str = ""


@runtime_checkable
class TranscriptSource(Protocol):
    """An AI tool whose conversations can be read. The class is instantiated without arguments."""

    name: str  # what the user types: claude, gemini, opencode, codex
    title: str  # what the user reads: Claude Code
    tested_version: str  # the version that the adapter's tests run against

    def detect(self) -> Detected | None:
        """Return which version is installed here; None if it is not installed."""

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its conversations on this machine (of one project, if given), in no particular order."""

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file, wherever the file is; None if it is not a transcript of this tool."""

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return the messages; with a cursor, only those that were added since."""

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Copy the transcript unchanged, so that it can be restored. The target's folder exists.

        Copying a transcript that grew to the same target again writes only what is new (see `io.new_files`).
        With `later` this is the first copy, and the caller flushes it to disk.
        """


@runtime_checkable
class Collection(TranscriptSource, Protocol):
    """A tool that has files with many conversations in each."""

    def transcripts_in(self, path: str) -> Iterator[Transcript]:
        """Yield the conversations in this file, wherever it is; none if it is not such a file of this tool."""


@runtime_checkable
class NamesLeftovers(TranscriptSource, Protocol):
    """A tool whose store is accounted for: what is no transcript there is named, so that nothing is passed over."""

    def leftovers(self, listed: Sequence[Transcript]) -> Iterable[Leftover]:
        """Return what may hold conversations and is not among those that `transcripts` has just listed."""


def proof_of(tool: TranscriptSource) -> str:
    """Return what the adapter's tests run against: the `program`, or only `samples` of its format.

    An adapter says so in the attribute `proof`; without it, the tests run against the program.
    """
    return str(getattr(tool, "proof", "program"))


def folder_variables_of(tool: TranscriptSource) -> tuple[str, ...]:
    """Return the environment variables that say where the tool's files are, apart from HOME and XDG_*.

    An adapter names them in the attribute `folder_variables`: the service of `cortext watch` gets their values.
    """
    return tuple(getattr(tool, "folder_variables", ()))


def skills_at_hand(tool: TranscriptSource, project: str) -> set[str] | None:
    """Return the names of the skills that a tool finds in files for this project; None if that is not known.

    An adapter has a method `skill_folders`, which takes the project's folder and returns the folders of skills.
    """
    folders_of = getattr(tool, "skill_folders", None)
    if folders_of is None:
        return None
    found = set()
    for folder in folders_of(project):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        found |= {name for name in names if os.path.isfile(os.path.join(folder, name, "SKILL.md"))}
    return found


def user_speaks_first(tool: TranscriptSource) -> bool:
    """Return whether the tool cannot be opened with a first prompt, so that it waits for the user.

    An adapter says so in the attribute `user_speaks_first`, and its `launch` sends no prompt. What the model should
    know is then in the first message of a session that we write; the tool's own session is opened without it.
    """
    return bool(getattr(tool, "user_speaks_first", False))


def reads_named_files(tool: TranscriptSource) -> bool:
    """Return whether a first prompt may name a file of the project (`@path`), whose text the model gets with it.

    An adapter says so in the attribute `reads_named_files`, if the tool takes no text into its system prompt.
    """
    return bool(getattr(tool, "reads_named_files", False))


def shows_history(tool: TranscriptSource) -> bool:
    """Return whether the tool's own screen shows the conversation that it opens, above its prompt.

    An adapter of a tool that does not says so in the attribute `shows_history`: then cortext shows the end of it.
    """
    return bool(getattr(tool, "shows_history", True))


@runtime_checkable
class NativeWriter(TranscriptSource, Protocol):
    """A tool that a conversation can be resumed in: its adapter can write a session and open it."""

    # Whether a first prompt has to be an argument of the program, which every user of the machine can read.
    prompt_is_public: bool

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a copy into the tool's store if the tool no longer has the session; return the session's key."""

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return what the tool would not send to the model if it opened this session.

        None if that is unknown: after a compaction, for tools that keep only a summary of the earlier messages.
        """

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages, with an empty key and path; write nothing."""

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project that holds these messages as real turns.

        It never overwrites an existing session, and is verified by reading it back. It gets the id `key`, if that is
        given and not taken. `note` is added as a first user message, from cortext to the model; it is not counted as
        one of the messages, and not shown on the tool's screen if the tool has a way for that.
        """

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively and send the prompt, if any, first.

        If `prompt_is_public`, the prompt is an argument of the program, which every user of the machine can read.
        """

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Return how to open a new session interactively with this prompt. Its id is known before it starts.

        The prompt is always private: if it would be an argument of the program, it is written into the session instead.
        """

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that `write` or `launch_new` made and nobody used."""


@runtime_checkable
class Instructs(Protocol):
    """A tool that takes a text into its system prompt for one start, in a way of its own.

    It is the text of the conversation's command, without its title: some tools take it only as an argument, which every
    user of the machine can read.
    """

    def instructed(self, launch: Launch, text: str, file: str) -> Launch:
        """Return the launch with this text; `file` is a file of ours that contains it. Nothing is written anywhere."""


@runtime_checkable
class KeepsImages(TranscriptSource, Protocol):
    """A tool whose transcripts contain the images of the conversation."""

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images (`Part.ref`) that are in the transcript."""


@runtime_checkable
class Refuses(Protocol):
    """A tool that cannot continue a session of its own if the settings lack what it was held with."""

    def refusal(self, transcript: Transcript) -> str:
        """Return why the tool could not continue this session with its settings, for the user; empty if it could."""


@runtime_checkable
class Rewinds(Protocol):
    """A tool whose user can take messages back, so that reading the session no longer yields them."""

    def rewinds(self, transcript: Transcript) -> int:
        """Return how often the tool's records say that messages of the session were taken back."""


@runtime_checkable
class Installer(TranscriptSource, Protocol):
    """A tool whose project settings can hold our commands, hooks and MCP entry."""

    @property
    def first_steps(self) -> Sequence[str]:
        """How to start a conversation in it after `cortext init`, one line each."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the files that belong to cortext alone (commands, skills, a plugin): relative path and contents."""

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Add hooks and the MCP entry to the tool's settings in this project; return the files that changed.

        `program` is how to call cortext (`["cortext"]`): the hook is `program + ["hook", self.name]`, the MCP server
        `program + ["mcp"]`. The user's own settings stay. Installing twice changes nothing. Without `server`, the MCP
        entry is not added, but an existing one stays. With `dry_run` nothing is written, and the files that would
        change are returned.
        """

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Remove exactly what `install_settings` added; return the files that changed or, with `dry_run`, would."""

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers that this tool has in this project."""


@runtime_checkable
class Hooks(TranscriptSource, Protocol):
    """A tool that calls cortext while it runs."""

    commands_run: bool  # whether its command files run cortext and give the output to the model
    # Whether the model treats the text that a hook adds to a prompt as a developer's instruction. Then the record of a
    # resumed conversation is sent after the answer instead, where the same text is a user's message.
    records_after_answer: bool
    started_by: str  # the environment variable that the tool sets for the processes that it starts
    session_variable: str  # the variable that holds the id of the tool's session; empty if there is none

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why the tool would not run the hooks that are installed in this project: reason and remedy, each."""

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return the event that a payload describes; None if it is of no interest."""

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return what to print so that the tool gives `context` to the model; empty if this event does not allow it."""


@runtime_checkable
class UserHooks(TranscriptSource, Protocol):
    """A tool that runs hooks only from the user's own settings, in every folder: ours are added if the user agrees."""

    @property
    def user_hooks_file(self) -> str:
        """The file with these settings."""

    def install_user_hooks(self, program: Sequence[str], *, dry_run: bool = False) -> list[str]:
        """Add our hooks, unless the user has them; return the files that changed or, with `dry_run`, would."""

    def remove_user_hooks(self, *, dry_run: bool = False) -> list[str]:
        """Remove exactly what was added, byte for byte; return the files that changed or, with `dry_run`, would."""


@runtime_checkable
class ShowsNotes(Protocol):
    """A tool that shows its user a line with the answer of a hook."""

    def with_note(self, answer: str, note: str) -> str:
        """Return an answer of `hook_answer`, which may be empty, with a line for the user."""


@runtime_checkable
class Purges(TranscriptSource, Protocol):
    """A tool that deletes its own conversations after a time, unless a setting of the user says otherwise."""

    def purge(self) -> Purge | None:
        """Return what it will delete and when, by its present settings; None if they say that it deletes nothing."""

    def raise_retention(self, *, dry_run: bool = False) -> list[str]:
        """Change the user's settings so that it deletes nothing; return the files that changed.

        The previous value is noted beside the settings. With `dry_run` nothing is written, and the files that would
        change are returned.
        """

    def renew(self, key: str, *, project: str) -> None:
        """Make a session that cortext has just put back count as used now: the tool's next start must not delete it."""

    def restore_retention(self, *, dry_run: bool = False) -> list[str]:
        """Undo `raise_retention`, byte for byte, unless the user has changed the value since; return the files."""


@runtime_checkable
class Watched(TranscriptSource, Protocol):
    """A tool whose transcripts can be captured when their files change."""

    def watched(self) -> Watch:
        """Return where its transcripts change."""

    def changed(self, path: str) -> Iterable[Transcript]:
        """Return the transcripts that may have changed with this file; none if the file is not part of any."""
