"""Gemini CLI: its transcripts, its native sessions, its commands and hooks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from cortext.io.new_files import Later
from cortext.model.headless import Question, Run
from cortext.safety.framing import GO_ON
from cortext.tools.base import (
    CommandFile,
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
from cortext.tools.gemini_cli import gate
from cortext.tools.gemini_cli.store import TOOL, GeminiStore
from cortext.tools.shared.hooks import additional_context, text_of
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.program import check_argument
from cortext.tools.shared.settings import SettingsFiles

if TYPE_CHECKING:
    from cortext.tools.gemini_cli.read import GeminiReading
    from cortext.tools.shared.installer import Config

_KINDS = {
    "SessionStart": "started",
    "BeforeAgent": "prompt",
    "AfterAgent": "answered",
    "PreCompress": "compacted",  # it reports only the beginning; the next prompt comes after the end
    "SessionEnd": "ended",
}


class GeminiCli(SettingsFiles, LocalTool):
    """The adapter for Gemini CLI."""

    name = TOOL
    title = "Gemini CLI"
    tested_version = "0.61.0"
    command = "gemini"
    package = "@google/gemini-cli"
    folder_variables = ("GEMINI_CLI_HOME",)
    commands_run = False
    records_after_answer = False
    prompt_is_public = True
    first_steps = ("/workspace.brainstorm TOPIC",)
    started_by = "GEMINI_CLI"
    session_variable = ""
    install_command = "npm install -g @google/gemini-cli"
    headless_context = 1_048_576

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self._store = GeminiStore(self.home, self.own_environ)

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        return self._store.transcripts(project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file; None if it is not a transcript of Gemini CLI."""
        return self._store.transcript_at(path)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the files among the chats that are no sessions."""
        return self._store.leftovers(listed)

    def watched(self) -> Watch:
        """Return the folder of all projects."""
        return Watch(folders=[self._store.chats_root])

    def changed(self, path: str) -> list[Transcript]:
        """Return the transcript in this file, or the one whose side agent this file belongs to."""
        return self._store.changed(path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> GeminiReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        from cortext.tools.gemini_cli.read import GeminiReading

        return GeminiReading(transcript, cursor, self._store.agents(transcript.path, transcript.key))

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Copy the transcript unchanged, and the transcripts of its side agents beside it."""
        from cortext.tools.gemini_cli.write import mirror

        mirror(self._store, transcript.path, target, transcript.key, later)

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images that are in the transcript."""
        from cortext.tools.gemini_cli.records import image_in
        from cortext.tools.shared.inline_images import in_lines

        return in_lines(transcript, refs, image_in)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        from cortext.tools.gemini_cli.write import put_back

        return put_back(self._store, copy, project)

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return the commands that the tool does not send again, and count the results that it sends repeatedly.

        None after a compression.
        """
        from cortext.tools.gemini_cli.withheld import withheld

        return withheld(transcript.path)

    # ── native sessions ──────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.gemini_cli.render import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project with these messages as real turns."""
        from cortext.tools.gemini_cli.write import write_session

        return write_session(self._store, messages, project, title, key, note)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively; the prompt, if any, is sent first.

        Gemini CLI may delete a resumed session at its next start, and may send the prompt before the history is
        loaded. Entries in the project's settings prevent both.
        """
        check_argument(prompt)
        options = [*(["-m", model] if model else []), *(["-i", prompt] if prompt else [])]
        program = self.program.path() or self.program.command
        launch = Launch(argv=[program, "--resume", written_or_key, *options], cwd=project)
        path = self._store.path_of(project, written_or_key)
        if path:  # otherwise there is no session to protect: a preview of the command line
            launch.changed = self._prepare(project, gated=bool(prompt))
        if path and prompt:
            launch.env = gate.environment(path)
        return launch

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, note=prompt)
        return written, self.launch(written.key, project=project, prompt=GO_ON, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that was never used."""
        if written.path:
            from cortext.io import durable

            durable.remove(written.path)

    def _prepare(self, project: str, *, gated: bool) -> list[str]:
        """Prepare the project's settings for a resume, never the user's; return the files that changed.

        A settings file of our own, named in the environment, is not an option: Gemini CLI accepts one only if it is
        owned by root.
        """
        if os.path.realpath(os.path.join(project, ".gemini")) == os.path.realpath(self._store.folder):
            return []  # these are the user's settings
        from cortext.tools.gemini_cli.install import resume_configs
        from cortext.tools.gemini_cli.purge import RETENTION
        from cortext.tools.shared import installer, jsonc

        setting: Any = jsonc.read_object(os.path.join(self._store.folder, "settings.json"))
        for step in RETENTION:
            setting = setting.get(step) if isinstance(setting, dict) else None
        if not gated and setting is False:
            return []
        return installer.install(project, resume_configs(keep=setting is not False, gate=gated))

    # ── the project's config ─────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash command files, and the skill about cortext."""
        from cortext.tools.gemini_cli.install import command_files
        from cortext.tools.shared.agent_skill import agent_skill

        return command_files(commands) | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: hooks, the MCP server, and the setting that turns off the deletion of sessions."""
        from cortext.tools.gemini_cli.install import configs

        return configs(program)

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's settings."""
        from cortext.tools.shared.mcp_servers import servers_of

        return servers_of(os.path.join(self._store.folder, "settings.json"), project, ".gemini/settings.json")

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why our hooks would not run here (hooks turned off, folder not trusted), each with a remedy."""
        from cortext.tools.gemini_cli.hooks_off import hooks_off

        return list(hooks_off(self._store.folder, project, self.environ))

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return a hook's payload as an event; None if it is not one that we handle."""
        kind = _KINDS.get(text_of(payload, "hook_event_name"))
        key = text_of(payload, "session_id")
        if kind is None or not key:
            return None
        if kind == "compacted" and text_of(payload, "trigger") != "manual":
            return None  # a turn, before which Gemini CLI compresses or does not
        event = HookEvent(kind=kind, key=key, path=text_of(payload, "transcript_path"), project=text_of(payload, "cwd"))
        if kind == "prompt":
            from cortext.tools.shared.typed import COMMAND_MARK, RESUMED

            gate.wait(self.environ)
            event.text = text_of(payload, "prompt")
            mark = COMMAND_MARK.search(event.text)
            if mark:
                event.kind, event.command, event.arguments = "command", mark[1], mark[2].strip()
            elif RESUMED in event.text:
                event.kind = "started"  # we launched it with this prompt; the user did not type it
        # `prompt_response` repeats chunks of a streamed answer, so the answer is read from the transcript.
        return event

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the output that adds context to a prompt; at a session's start it would break a slash command."""
        event = text_of(payload, "hook_event_name")
        if not context or event != "BeforeAgent":
            return ""
        return additional_context(event, context)

    # ── what it deletes ──────────────────────────────────────────────────────────────────────────────

    def purge(self) -> Purge | None:
        """Return what it will delete: sessions older than `sessionRetention.maxAge`, or more than `maxCount`."""
        from cortext.tools.gemini_cli.purge import purge

        return purge(self._store)

    def raise_retention(self, *, dry_run: bool = False) -> list[str]:
        """Turn off the deletion of sessions in the user's settings."""
        from cortext.tools.gemini_cli.purge import retention

        return retention(self._store).raise_it(dry_run=dry_run)

    def renew(self, key: str, *, project: str) -> None:
        """Record in a session that was just put back that it was updated now; its old time would expire it again."""
        from cortext.tools.gemini_cli.purge import renew

        renew(self._store.path_of(project, key))

    def restore_retention(self, *, dry_run: bool = False) -> list[str]:
        """Undo `raise_retention`."""
        from cortext.tools.gemini_cli.purge import retention

        return retention(self._store).restore(dry_run=dry_run)

    # ── headless ─────────────────────────────────────────────────────────────────────────────────────

    def program_path(self) -> str:
        """Return the path of the program; empty if it is not installed."""
        return self.program.path()

    def ask(self, question: Question) -> Run:
        """Return how to run the program for one answer."""
        from cortext.tools.gemini_cli import headless

        return headless.ask(question)
