"""The adapter for Claude Code: where its transcripts are, how it is started, and what its hooks report."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import msgspec

from cortext.errors import NotFound, UnsafePath
from cortext.io import durable, new_files
from cortext.model.headless import Question, Run
from cortext.safety.framing import GO_ON
from cortext.tools.base import (
    CommandFile,
    Counts,
    HookEvent,
    Launch,
    Leftover,
    Messages,
    Purge,
    Transcript,
    Watch,
    Withheld,
    Written,
)
from cortext.tools.shared.folders import dashed, entries, is_uuid, utf16_units
from cortext.tools.shared.hooks import additional_context, all_hooks_off, event_of, text_of
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.program import check_argument
from cortext.tools.shared.settings import SettingsFiles

if TYPE_CHECKING:
    from cortext.tools.claude_code.read import ClaudeReading
    from cortext.tools.shared.installer import Config

_SUFFIX = ".jsonl"
# What Claude Code keeps beside the sessions of a project, and in the folder of a session that it has deleted.
_COMPANIONS = (
    *("*/agent-*.jsonl", "*/sessions-index.json", "*/bridge-pointer.json", "*/memory/", "*/tiny_memory/", "*/bagel/"),
    *("*/cloud-snapshots/", "*/connector-downloads/", "*/*/subagents/", "*/*/tool-results/", "*/*/session-memory/"),
    *("*/*/workflows/", "*/*/mcp-tasks/", "*/*/*.cast"),
)
_LONGEST_FOLDER = 200
_LONGEST_CONTEXT = 10_000  # UTF-16 units; of a longer hook answer the model gets only a preview
_TAKES_CONTEXT = frozenset(("SessionStart", "UserPromptSubmit", "UserPromptExpansion", "PreToolUse"))
_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "UserPromptExpansion": "command",
    "PreToolUse": "calling",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}
_RECORDS_CHECKED = 64  # the first message comes well before that


class ClaudeCode(SettingsFiles, LocalTool):
    """The adapter for Claude Code."""

    name = "claude"
    title = "Claude Code"
    tested_version = "2.1.325"
    command = "claude"
    folder_variables = ("CLAUDE_CONFIG_DIR",)
    commands_run = True
    records_after_answer = False
    prompt_is_public = True
    first_steps = (
        "/workspace.brainstorm TOPIC",
        'When asked about the MCP server, choose "Use this MCP server".',
    )
    started_by = "CLAUDECODE"
    session_variable = "CLAUDE_CODE_SESSION_ID"
    install_command = "npm install -g @anthropic-ai/claude-code"
    headless_context = 200_000

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    @property
    def _config_folder(self) -> str:
        return self.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(self.home, ".claude")

    @property
    def _projects(self) -> str:
        return os.path.join(self._config_folder, "projects")

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every `<session>.jsonl` of every project folder. Files of subagents belong to their session.

        A file of another name that has a session in it (`2026-01-05-<session>.jsonl`) is a snapshot of that one.
        """
        if project is not None:
            real = os.path.realpath(project)
            yield from self._in_folder(os.path.join(self._projects, folder_name(real)), real)
            return
        for folder in entries(self._projects):
            if folder.is_dir():
                yield from self._in_folder(folder.path, "")

    def _in_folder(self, folder: str, project: str) -> Iterator[Transcript]:
        for entry in entries(folder):
            key = entry.name.removesuffix(_SUFFIX)
            if entry.is_symlink() and os.path.isfile(entry.path):
                continue  # a second name of another transcript; a dangling link is reported when it is read
            if key == entry.name:
                continue
            found = self._transcript(key, entry.path, project) if is_uuid(key) else self._snapshot(entry.path, project)
            if found is not None:
                yield found

    def _snapshot(self, path: str, project: str = "") -> Transcript | None:
        """Return the transcript in a file that is not named as Claude Code names them; None if it is none."""
        try:
            key = _session_in(path)
        except (OSError, UnsafePath):
            return None
        if not is_uuid(key):
            return None
        name = os.path.basename(path).removesuffix(_SUFFIX)
        found = self._transcript(f"{key}@{name}", path, project)
        if found is not None:
            found.snapshot_of = key
        return found

    def _transcript(self, key: str, path: str, project: str) -> Transcript | None:
        """Return the transcript with its fingerprint, companion files included; None if it was just removed."""
        size = changed = 0
        try:
            for file in (path, *(companion for _, companion in companion_files(path))):
                status = os.stat(file, follow_symlinks=False)
                size, changed = size + status.st_size, max(changed, status.st_mtime_ns)
        except FileNotFoundError:
            return None
        return Transcript(tool=self.name, key=key, path=path, project=project, size=size, changed=changed)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript at any path, recognised by its records; None for the file of a subagent."""
        try:
            key = _session_in(path)
        except (OSError, UnsafePath):
            return None
        return self._transcript(key, path, "") if key else None

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files beside the sessions, without those that belong to one."""
        begun = {transcript.path.removesuffix(_SUFFIX) for transcript in listed}

        def belongs(path: str) -> bool:  # whatever is in the folder of a session is kept with it
            steps = os.path.relpath(path, self._projects).split(os.sep)
            return len(steps) > 2 and os.path.join(self._projects, *steps[:2]) in begun

        return unlisted_below(self._projects, listed, self.title, _COMPANIONS, belongs)

    def watched(self) -> Watch:
        """Return the folder of all projects."""
        return Watch(folders=[self._projects])

    def changed(self, path: str) -> list[Transcript]:
        """Return the transcript in this file, or the one that this companion file belongs to."""
        folder, _, rest = os.path.relpath(path, self._projects).partition(os.sep)
        key = rest.partition(os.sep)[0].removesuffix(_SUFFIX)
        if folder == os.pardir:
            return []
        if not is_uuid(key):
            snapshot = self._snapshot(path) if path.endswith(_SUFFIX) and os.sep not in rest else None
            return [snapshot] if snapshot is not None else []
        found = self._transcript(key, os.path.join(self._projects, folder, key + _SUFFIX), "")
        return [found] if found is not None else []

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> ClaudeReading:
        """Return the messages; with a cursor, only those added since."""
        from cortext.tools.claude_code.read import ClaudeReading

        if transcript.snapshot_of:
            transcript = msgspec.structs.replace(transcript, key=transcript.snapshot_of)
        subagents = [file for file in companion_files(transcript.path) if file[0].endswith(_SUFFIX)]
        return ClaudeReading(transcript, subagents, cursor)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the file byte for byte, and its companion files to a folder next to the copy."""
        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(transcript.path, target, later)
        _mirror_companions(transcript.path, target, later)

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images that are in the transcript."""
        from cortext.tools.claude_code.records import image_in
        from cortext.tools.shared.inline_images import in_lines

        return in_lines(transcript, refs, image_in)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a copy, unless Claude Code still has that session; return the session's id."""
        key = _session_in(copy)
        if not key:
            raise NotFound(f"not a transcript of {self.title}: {copy}", kept="nothing was changed")
        if self._path_of(key) is None:
            target = self._new_path(key, project)
            durable.ensure_folder(os.path.dirname(target))
            new_files.mirror_file(copy, target)
            _mirror_companions(copy, target)
        return key

    def _path_of(self, key: str) -> str | None:
        """Return the path of this session in the tool's store, in any project; None if it has none."""
        for folder in entries(self._projects):
            path = os.path.join(folder.path, key + _SUFFIX)
            if os.path.lexists(path):
                return path
        return None

    def _new_path(self, key: str, project: str) -> str:
        return os.path.join(self._projects, folder_name(os.path.realpath(project)), key + _SUFFIX)

    # ── writing and starting ─────────────────────────────────────────────────────────────────────────

    def withheld(self, transcript: Transcript) -> Withheld:
        """Return the messages before the last compaction."""
        from cortext.tools.claude_code.withheld import withheld

        return withheld(transcript.path)

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report."""
        from cortext.tools.claude_code.render import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session into the project's folder. It gets another id if `key` is taken or not a UUID."""
        if not is_uuid(key) or self._path_of(key) is not None:
            key = str(uuid.uuid4())
        from cortext.tools.claude_code import write as claude_code_write

        return claude_code_write.write_session(
            self._new_path(key, project),
            messages,
            key=key,
            project=os.path.realpath(project),
            title=title,
            model=model,
            version=self.tested_version,
            note=note,
        )

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to start Claude Code interactively with that session open."""
        check_argument(prompt)
        options = ["--model", model] if model else []
        # After "--" a prompt that begins with a dash is not taken for an option.
        prompt_arguments = ["--", prompt] if prompt else []
        program = self.program.path() or self.program.command
        return Launch(argv=[program, "--resume", written_or_key, *options, *prompt_arguments], cwd=project)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt, and return how to start Claude Code with it."""
        key = str(uuid.uuid4())
        launch = self.launch(key, project=project, prompt=GO_ON, model=model)
        return self.write([], project=project, title=title, key=key, model=model, note=prompt), launch

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that nobody used."""
        if written.path:
            durable.remove(written.path)

    # ── a project's config ───────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash commands as files of the project."""
        from cortext.tools.claude_code.install import command_files

        return command_files(commands, program)

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: the hooks in `.claude/settings.json`, and the MCP server in `.mcp.json`."""
        from cortext.tools.claude_code.install import configs

        return configs(program)

    def report_calls(self, project: str, program: Sequence[str], *, wanted: bool, dry_run: bool = False) -> list[str]:
        """Add the hook for shell commands to `.claude/settings.json`, or remove it."""
        from cortext.tools.claude_code.install import call_config
        from cortext.tools.shared import installer

        change = installer.install if wanted else installer.remove
        return change(project, [call_config(program)], dry_run=dry_run)

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers of the project and of the user."""
        from cortext.tools.shared.mcp_servers import names_in, servers_of

        user = os.path.join(self.environ.get("CLAUDE_CONFIG_DIR") or self.home, ".claude.json")
        return servers_of(user, project, ".mcp.json") | names_in(user, "projects", project, "mcpServers")

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Report `disableAllHooks` in the settings that apply here. The most specific file that sets it decides."""
        own = os.path.join(project, ".claude")
        names = ("settings.json", "settings.local.json")
        return all_hooks_off(
            [os.path.join(self._config_folder, names[0]), *(os.path.join(own, name) for name in names)]
        )

    # ── what it deletes ──────────────────────────────────────────────────────────────────────────────

    def purge(self) -> Purge | None:
        """Return what it will delete: transcripts that did not change for `cleanupPeriodDays`."""
        from cortext.tools.claude_code.purge import purge

        return purge(self._config_folder, self.transcripts())

    def raise_retention(self, *, dry_run: bool = False) -> list[str]:
        """Set `cleanupPeriodDays` in the user's settings to ten years."""
        from cortext.tools.claude_code.purge import retention

        return retention(self._config_folder).raise_it(dry_run=dry_run)

    def renew(self, key: str, *, project: str) -> None:
        """Do nothing: the time of the file counts, and a session that was just put back is a new file."""

    def restore_retention(self, *, dry_run: bool = False) -> list[str]:
        """Undo `raise_retention`."""
        from cortext.tools.claude_code.purge import retention

        return retention(self._config_folder).restore(dry_run=dry_run)

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────────

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Translate a hook payload; return None if it names no event or no session of Claude Code."""
        # Copilot, too, runs the hooks in Claude Code's settings, for its own sessions. It sets this variable for them.
        return None if self.environ.get("COPILOT_PROJECT_DIR") else event_of(payload, _KINDS)

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the context as JSON for the hook's output; empty if Claude Code would not pass on all of it."""
        event = text_of(payload, "hook_event_name")
        if not context or event not in _TAKES_CONTEXT or _utf16_length(context) > _LONGEST_CONTEXT:
            return ""
        return additional_context(event, context)

    def with_note(self, answer: str, note: str) -> str:
        """Return the answer of a hook with a line that Claude Code shows to the user."""
        import msgspec

        noted: bytes = msgspec.json.encode({**msgspec.json.decode(answer or "{}"), "systemMessage": note})
        return noted.decode("utf-8")

    # ── headless ─────────────────────────────────────────────────────────────────────────────────────

    def program_path(self) -> str:
        """Return the path of the executable; empty if it is not installed."""
        return self.program.path()

    def ask(self, question: Question) -> Run:
        """Return how to run Claude Code for one answer."""
        from cortext.tools.claude_code import headless

        return headless.ask(question)


def folder_name(project: str) -> str:
    """Return the name of a project's folder: `-` for all but letters and digits; a long name is cut and hashed."""
    name = dashed(project)
    if len(name) <= _LONGEST_FOLDER:
        return name
    value = 0
    for unit in utf16_units(project):
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{name[:_LONGEST_FOLDER]}-{digits or '0'}"


def companion_files(path: str) -> list[tuple[str, str]]:
    """Return the relative name and path of each file next to a transcript: of subagents and long tool results."""
    root = _companion_folder(path)
    found: list[tuple[str, str]] = []
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        for entry in entries(folder):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                found.append((os.path.relpath(entry.path, root), entry.path))
    return sorted(found)


def _companion_folder(path: str) -> str:
    return path.removesuffix(_SUFFIX) if path.endswith(_SUFFIX) else f"{path}.files"


def _mirror_companions(source: str, target: str, later: new_files.Later | None = None) -> None:
    for name, path in companion_files(source):
        copy = os.path.join(_companion_folder(target), name)
        new_files.ensure_folder(os.path.dirname(copy), later)
        new_files.mirror_file(path, copy, later)


def _session_in(path: str) -> str:
    """Return the id of the session in a file, from its first records; empty if it is not a transcript."""
    from cortext.tools.claude_code.records import KNOWN, MESSAGE_TYPES, Record, decoder
    from cortext.tools.shared.lines import ForeignLines

    name = os.path.basename(path).removesuffix(_SUFFIX)
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        head = os.pread(descriptor, 64, 0)
    finally:
        os.close(descriptor)
    if not re.match(rb'[\s\0]*\{\s*"', head) or name.startswith("agent-"):
        return ""
    session = ""
    lines = ForeignLines(path, 0, Counts())
    for line, _ in zip(lines, range(_RECORDS_CHECKED), strict=False):
        for record in lines.decode(line, decoder, Record):
            session = session or record.sessionId or ""
            if record.type in MESSAGE_TYPES:
                if record.isSidechain or (record.message is not None and record.message.content is None):
                    return ""  # of a subagent, or of Qwen Code, whose messages have `parts` instead
                return name if is_uuid(name) else record.sessionId or session
            if record.type not in KNOWN:
                session = ""
    return name if session and is_uuid(name) else session


def _utf16_length(text: str) -> int:
    """Return the length of a text in JavaScript, which is how Claude Code counts."""
    return len(text.encode("utf-16-le", "replace")) // 2
