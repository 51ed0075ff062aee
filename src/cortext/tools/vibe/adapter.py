"""Mistral Vibe: its transcripts, its native sessions, its skills and hook."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from cortext.errors import DamagedData
from cortext.io import durable
from cortext.safety.framing import GO_ON
from cortext.tools.base import CommandFile, HookEvent, Launch, Leftover, Messages, Transcript, Watch, Withheld, Written
from cortext.tools.shared.bundle import BundleTool, Piece, pieces_in
from cortext.tools.shared.folders import is_uuid
from cortext.tools.shared.hooks import text_of
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.program import check_argument
from cortext.tools.shared.settings import SettingsFiles
from cortext.tools.vibe.records import CURRENT
from cortext.tools.vibe.store import TOOL, VibeStore

if TYPE_CHECKING:
    from cortext.tools.shared.installer import Config
    from cortext.tools.vibe.read import VibeReading


class Vibe(SettingsFiles, BundleTool, LocalTool):
    """The adapter for Mistral Vibe."""

    name = TOOL
    title = "Mistral Vibe"
    tested_version = "3.0.2"
    command = "vibe"
    folder_variables = ("VIBE_HOME",)
    commands_run = False
    records_after_answer = True
    prompt_is_public = True
    first_steps = ("/workspace-brainstorm TOPIC",)
    started_by = "VIBE_APP_SERVER_BIN"
    session_variable = ""
    install_command = "uv tool install mistral-vibe"

    def __init__(self, home: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(home, environ)
        self._default = os.path.join(self.home, ".vibe")
        self._folder = self.own_environ.get("VIBE_HOME") or self._default
        self._store = VibeStore(self._folder)

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its transcripts on this machine (of one project, if given), in no particular order."""
        wanted = None if project is None else {project, os.path.realpath(project)}
        for transcript in self._store.transcripts():
            if wanted is None or transcript.project in wanted:
                yield transcript

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file, which may be a copy of ours; None if it is none."""
        return self.copied_transcript(path) or self._store.transcript_at(path)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the sessions that cannot be read, and why."""
        return self._store.leftovers(listed)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self._store.root])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session whose folder a file is in."""
        return self._store.changed(path)

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the files of a session."""
        return self._store.pieces(transcript.path)

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> VibeReading:
        """Return the reading of these files."""
        from cortext.tools.vibe.read import VibeReading

        return VibeReading(transcript, pieces)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a kept copy to the tool's store if the session is missing there; return the session's key."""
        found = self.copied_transcript(copy)
        if found is None or not is_uuid(found.key):
            raise DamagedData(f"{copy} is not a session of {self.title}", kept="nothing was changed")
        if not any(transcript.key == found.key for transcript in self._store.transcripts()):
            self._store.restore(pieces_in(copy))
        return found.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because Vibe sends everything; None if the session was compacted."""
        from cortext.tools.vibe.read import is_compacted

        return None if is_compacted(self.pieces(transcript)) else Withheld()

    def refusal(self, transcript: Transcript) -> str:
        """Return that the settings no longer name the model of the session: Vibe would resume it without an end."""
        from cortext.tools.shared.installer import parse_toml
        from cortext.tools.vibe.install import SETTINGS
        from cortext.tools.vibe.store import ERRORS, model_of

        model = model_of(self.pieces(transcript))
        known: set[object] = set()
        for path in (os.path.join(self._folder, "config.toml"), os.path.join(transcript.project or "", SETTINGS)):
            try:
                models = parse_toml(path, durable.read_text(path)).get("models") if os.path.exists(path) else None
            except (*ERRORS, ValueError):  # Vibe reports it
                return ""
            for each in models if isinstance(models, list) else ():
                known |= {each.get("alias"), each.get("name")} if isinstance(each, dict) else set()
        if not model or not known or model in known:  # without models in the settings, Vibe has its own
            return ""
        return f"it was held with the model {model!r}, which is no longer configured"

    # ── native sessions ──────────────────────────────────────────────────────────────────────────────

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        from cortext.tools.vibe.write import Rendering

        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new native session of this project with these messages as real turns."""
        from cortext.tools.vibe.write import write_session

        return write_session(self._store, messages, project=project, title=title, key=key, note=note)

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session interactively; the prompt, if any, is sent first."""
        check_argument(prompt)
        program = self.program.path() or self.program.command
        env = {} if self._folder == self._default else {"VIBE_HOME": self._folder}
        if model:
            env["VIBE_ACTIVE_MODEL"] = model
        argv = [program, "--resume", written_or_key, *(["--", prompt] if prompt else [])]
        return Launch(argv=argv, cwd=project, env=env)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, note=prompt)
        return written, self.launch(written.key, project=project, prompt=GO_ON, model=model)

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that was never used."""
        if written.path:
            durable.remove_tree(os.path.dirname(written.path))

    # ── the project's config ─────────────────────────────────────────────────────────────────────────

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the commands as skills, and the skill about cortext."""
        from cortext.tools.shared.agent_skill import agent_skill
        from cortext.tools.vibe.install import skill_files

        return skill_files(commands, program) | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: the hook and the MCP server in the project's settings."""
        from cortext.tools.vibe.install import configs

        return configs(program)

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's settings."""
        from cortext.tools.shared.mcp_servers import servers_of
        from cortext.tools.vibe.install import SETTINGS

        return servers_of(os.path.join(self._folder, "config.toml"), project, SETTINGS, key="mcp_servers")

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return nothing: Vibe asks at its start whether to trust a folder, and then runs its hooks."""
        return []

    def hook_event(self, payload: dict[str, Any]) -> HookEvent | None:
        """Return a hook's payload as an event; None if it is not one that we handle.

        Vibe names the session that it made of an imported one; we know it by its first id.
        """
        key = text_of(payload, "session_id")
        if text_of(payload, "hook_event_name") != "post_agent" or not is_uuid(key) or payload.get("parent_session_id"):
            return None
        path = os.path.join(self._store.unified, key, CURRENT)
        transcript = self._store.transcript_at(path)
        return HookEvent(
            kind="answered", key=transcript.key if transcript else key, path=path, project=text_of(payload, "cwd")
        )

    def hook_answer(self, payload: dict[str, Any], context: str) -> str:
        """Return the output that makes Vibe send a text to the model, as another message of the user."""
        if not context or text_of(payload, "hook_event_name") != "post_agent":
            return ""
        return msgspec.json.encode({"decision": "deny", "reason": context}).decode("utf-8")
