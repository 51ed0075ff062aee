"""Kimi Code: its transcripts, its native sessions, its skills and hooks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cortext.io.new_files import Later
from cortext.tools.base import CommandFile, HookEvent, Launch, Leftover, Messages, Transcript, Watch, Withheld, Written
from cortext.tools.kimi_code.store import COMPANIONS, TOOL, KimiStore, agents_of, copy, log_in, state_of, transcript_at
from cortext.tools.shared.hooks import text_of
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.settings import SettingsFiles

if TYPE_CHECKING:
    from cortext.tools.kimi_code.read import KimiReading
    from cortext.tools.shared.installer import Config


class KimiCode(SettingsFiles, LocalTool):
    """The adapter for Kimi Code."""

    name = TOOL
    title = "Kimi Code"
    tested_version = "2.1.0"
    command = "kimi"
    package = "@moonshot-ai/kimi-code"
    folder_variables = ("KIMI_CODE_HOME",)
    prompt_is_public = True
    user_speaks_first = True  # its screen takes no first prompt at all
    commands_run = True
    records_after_answer = False
    first_steps = ("/skill:workspace-brainstorm TOPIC",)
    started_by = session_variable = "KIMI_SESSION_ID"  # set by the command lines in our skills
    install_command = "npm install -g @moonshot-ai/kimi-code"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        folder = self.own_environ.get("KIMI_CODE_HOME")
        self._store = KimiStore(folder or os.path.join(self.home, ".kimi-code"))

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        return self._store.transcripts(project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file; None if it is not a session of Kimi Code."""
        return transcript_at(path)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files among the sessions, without what belongs to one."""
        logs = {log for transcript in listed for log in agents_of(transcript.path).values()}
        return unlisted_below(self._store.sessions, listed, self.title, COMPANIONS, logs.__contains__)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self._store.sessions])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in whose folder this file is."""
        return self._store.changed(path)

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> KimiReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        from cortext.tools.kimi_code.read import KimiReading

        return KimiReading(transcript, cursor, state_of(transcript.path), agents_of(transcript.path))

    def copy(self, transcript: Transcript, target: str, later: Later | None = None) -> None:
        """Copy the log unchanged, and beside it the logs of the subagents and the session's state."""
        copy(transcript.path, target, later)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        from cortext.tools.kimi_code.write import put_back

        return put_back(self._store, copy, project)

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because Kimi Code sends everything; None if the session was compacted."""
        reading = self.read(transcript)
        for _ in reading:
            pass
        return None if reading.about.summary else Withheld()

    def refusal(self, transcript: Transcript) -> str:
        """Return that the settings no longer have the model that the session is bound to."""
        from cortext.tools.kimi_code.models import configured_models, model_of

        model, configured = model_of(transcript.path), configured_models(self._store.home, self.environ)
        if not model or not configured or model in configured:
            return ""
        return f"it was held with the model {model!r}, which is no longer configured"

    # ── native sessions ──────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.kimi_code.render import Rendering

        return Written.of(Rendering(messages, 0).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project with these messages as real turns."""
        from cortext.tools.kimi_code.write import write_session

        return write_session(self._store, messages, project, title, key, note)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively. A prompt is not sent: see `user_speaks_first`."""
        program = self.program.path() or self.program.command
        return Launch(argv=[program, "-S", written_or_key, *(["-m", model] if model else [])], cwd=project)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, note=prompt)
        return written, self.launch(written.key, project=project, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that was never used."""
        from cortext.tools.kimi_code.write import discard

        discard(written)

    # ── the project's config ─────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the commands as skills, and the skill about cortext."""
        from cortext.tools.kimi_code.install import skill_files
        from cortext.tools.shared.agent_skill import agent_skill

        return skill_files(commands, program) | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: the MCP server in the project's list of servers."""
        from cortext.tools.kimi_code.install import configs

        return configs(program)

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's lists."""
        from cortext.tools.kimi_code.install import MCP
        from cortext.tools.shared.mcp_servers import servers_of

        return servers_of(os.path.join(self._store.home, "mcp.json"), project, ".mcp.json", MCP)

    @property
    def user_hooks_file(self) -> str:
        """The user's config: a project cannot bring hooks."""
        from cortext.tools.kimi_code.install import CONFIG

        return os.path.join(self._store.home, CONFIG)

    def install_user_hooks(self, program: Sequence[str], *, dry_run: bool = False) -> list[str]:
        """Add our hooks to the user's config, those that it lacks."""
        from cortext.tools.kimi_code.install import user_hooks
        from cortext.tools.shared.installer import install

        return install(self._store.home, user_hooks(self._store.home, program), dry_run=dry_run)

    def remove_user_hooks(self, *, dry_run: bool = False) -> list[str]:
        """Remove them again."""
        from cortext.tools.kimi_code.install import remove_user_hooks

        return remove_user_hooks(self._store.home, dry_run=dry_run)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return which of our hooks the user's config lacks: a project cannot bring hooks."""
        from cortext.tools.kimi_code.install import hooks_off

        return hooks_off(self._store.home)

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return a hook's payload as an event; None if it is not one that we handle."""
        from cortext.tools.kimi_code.hooks import hook_event

        folder = self._store.find(text_of(payload, "session_id"))
        return hook_event(payload, log_in(folder) if folder else "")

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the output that adds context to a prompt."""
        from cortext.tools.kimi_code.hooks import hook_answer

        return hook_answer(payload, context)
