"""What Gemini CLI gets in a project, why it would not run our hooks, and what it deletes by itself.

At every start it deletes sessions of that project: those last updated before `maxAge`, and all but the newest
`maxCount`. Without any setting, `maxAge` is 30 days. The project's settings override the user's.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cortext.io import durable
from cortext.model import clock
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile, Purge, Transcript
from cortext.tools.gemini_cli.adapter import GATE, GeminiCli
from cortext.tools.gemini_cli.read import is_document
from cortext.tools.gemini_cli.store import GeminiStore
from cortext.tools.shared.commands import agent_skill, check_names, marked_prompt, trust_level
from cortext.tools.shared.entries import NAME, ConfigEntry, Hooks, Server, Setting, servers_of
from cortext.tools.shared.installer import DAY, JsonConfig, Retention, SettingsFiles, toml_string
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.values import field

RETENTION = ("general", "sessionRetention", "enabled")
DEFAULT_AGE = "30d"
_UNITS = {"h": DAY / 24, "d": DAY, "w": 7 * DAY, "m": 30 * DAY}
_UPDATED = re.compile(rb'"lastUpdated"\s*:\s*"([^"]{10,40})"')
_BLOCK = 1 << 16
_LARGEST = 1 << 30
# The hook events that we need. The others fire for every model call, or for every chunk of its answer.
EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")
_KEEP_SESSIONS = Setting("retention", RETENTION, False)
_TIMEOUT_MS = 10_000


class GeminiSettings(SettingsFiles, ToolPart[GeminiCli]):
    """Our files and entries in a project, and the user's setting of what is deleted."""

    def __init__(self, tool: GeminiCli) -> None:
        super().__init__(tool)
        self.store = GeminiStore(tool)

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash command files, and the skill about cortext."""
        check_names(commands)
        files = {f".gemini/commands/{each.name}.toml": command_text(each).encode("utf-8") for each in commands}
        return files | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return our entries in `.gemini/settings.json` (hooks, MCP server, session retention), with a note beside."""
        hook = _hook(shell([*program, "hook", "gemini"]))
        server = Server.of("gemini", program, description="Conversations of this workspace (added by cortext)")
        events = Hooks(dict.fromkeys(EVENTS, hook), mark="")
        # Without the matcher it is called before every turn, whether Gemini CLI then compresses the session or not.
        compressed = Hooks({"PreCompress": hook}, mark="", matcher="manual")
        return [_config(events, compressed, server, _KEEP_SESSIONS)]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's settings."""
        return servers_of(os.path.join(self.tool.folder, "settings.json"), project, ".gemini/settings.json")

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why our hooks would not run here (hooks turned off, folder not trusted), each with a remedy."""
        return list(hooks_off(self.tool.folder, project, self.tool.environ))

    def purge(self) -> Purge | None:
        """Return what it will delete: sessions older than `sessionRetention.maxAge`, or more than `maxCount`."""
        path = os.path.join(self.tool.folder, "settings.json")
        user = _retention_in(read_object(path))
        chats: dict[str, list[Transcript]] = {}
        for transcript in self.store.transcripts():
            chats.setdefault(os.path.dirname(transcript.path), []).append(transcript)
        due: list[tuple[Transcript, float]] = []
        for transcripts in chats.values():
            project = transcripts[0].project
            own = _retention_in(read_object(os.path.join(project, ".gemini", "settings.json"))) if project else {}
            due += _due(transcripts, {**user, **own})
        value = str(user.get("maxAge") or DEFAULT_AGE)
        # With the user's setting turned off, only the settings of a project can still delete anything.
        if not due and user.get("enabled") is False:
            return None
        return Purge(
            setting="general.sessionRetention.maxAge",
            value=value,
            keeping="general.sessionRetention.enabled: false",
            file=path,
            due=due,
        )

    def raise_retention(self, *, dry_run: bool = False) -> list[str]:
        """Turn off the deletion of sessions in the user's settings."""
        return self._retention().raise_it(dry_run=dry_run)

    def _retention(self) -> Retention:
        return Retention(self.tool.folder, RETENTION, False, comments=True)

    def renew(self, key: str, *, project: str) -> None:
        """Record in a session that was just put back that it was updated now; its old time would expire it again."""
        path, now = self.store.path_of(project, key), clock.now()
        if path and is_document(path):
            data = durable.read_file(path, _LARGEST)
            durable.replace_file(path, [_UPDATED.sub(f'"lastUpdated": "{now}"'.encode(), data, count=1)])
        elif path:
            durable.append_once(path, msgspec.json.encode({"$set": {"lastUpdated": now}}) + b"\n")

    def restore_retention(self, *, dry_run: bool = False) -> list[str]:
        """Undo `raise_retention`."""
        return self._retention().restore(dry_run=dry_run)


def resume_configs(*, keep: bool, gate: bool) -> list[JsonConfig]:
    """Return the entries that a resume needs: no deletion of sessions, and the gate before the first prompt."""
    entries: list[ConfigEntry] = [_KEEP_SESSIONS] if keep else []
    if gate:
        entries.append(Hooks({"BeforeAgent": _hook(GATE)}, mark="", update=False))
    return [_config(*entries)]


def _config(*entries: ConfigEntry) -> JsonConfig:
    return JsonConfig((".gemini/settings.json",), entries, comments=True, note=".gemini/cortext.json")


def _hook(command: str) -> dict[str, Any]:
    return {
        "name": NAME,
        "type": "command",
        "command": command,
        "timeout": _TIMEOUT_MS,
        "description": "Keeps this conversation (cortext)",
    }


# ── command files ────────────────────────────────────────────────────────────────────────────────────


def command_text(command: CommandFile) -> str:
    """Return a command file for Gemini CLI."""
    return f"description = {toml_string(command.description)}\nprompt = {_toml_text(marked_prompt(command))}\n"


def _toml_text(text: str) -> str:
    """Return a multi-line TOML string; a single-line one if the multi-line form would not parse to the same text."""
    escaped = text.replace("\\", "\\\\").replace('"""', '""\\"')
    multi_line = f'"""\n{escaped}"""'
    try:
        is_exact = tomllib.loads(f"text = {multi_line}\n")["text"] == text
    except tomllib.TOMLDecodeError:
        is_exact = False
    return multi_line if is_exact else toml_string(text)


# ── hooks ─────────────────────────────────────────────────────────────────────────────────────────


def hooks_off(folder: str, project: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each reason with its remedy; `folder` is the user's `.gemini`."""
    user_settings = os.path.join(folder, "settings.json")
    files = [(path, read_object(path)) for path in (user_settings, os.path.join(project, ".gemini", "settings.json"))]
    switches = [
        (path, value) for path, settings in files if (value := field(settings, "hooksConfig", "enabled")) is not None
    ]
    if switches and switches[-1][1] is False:  # the project's setting overrides the user's
        yield f"`hooksConfig.enabled` is false in {switches[-1][0]}", "set it to true, or remove it"
    for path, settings in files:
        names = field(settings, "hooksConfig", "disabled")
        if isinstance(names, list) and NAME in names:
            yield f"our hooks are disabled in {path}", f"run /hooks enable {NAME} in gemini"
    trusted = environ.get("GEMINI_CLI_TRUST_WORKSPACE")
    if trusted == "true" or field(files[0][1], "security", "folderTrust", "enabled") is False:
        return
    rules = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(folder, "trustedFolders.json")
    level = "DO_NOT_TRUST" if trusted == "false" else trust_level(read_object(rules), project)
    if level == "DO_NOT_TRUST":
        yield "it is set not to trust this folder, and ignores its settings", "run /permissions trust in gemini"
    elif not level:
        yield "this folder is not trusted yet", "start gemini in this folder once, and trust it when asked"


# ── deletion ──────────────────────────────────────────────────────────────────────────────────────


def _due(transcripts: list[Transcript], settings: dict[str, Any]) -> list[tuple[Transcript, float]]:
    age, most = _seconds(settings.get("maxAge", DEFAULT_AGE)), settings.get("maxCount")
    least = _seconds(settings.get("minRetention", "1d")) or DAY
    # If a value is invalid, it deletes nothing.
    if settings.get("enabled", True) is not True or age is None or age < least:
        return []
    if most is not None and (type(most) not in (int, float) or most < 1):
        return []
    updated = sorted(((_last_updated(item), item) for item in transcripts), key=lambda pair: -pair[0])
    kept = len(updated) if most is None else int(most)
    return [(item, time + age if number < kept else 0.0) for number, (time, item) in enumerate(updated)]


def _retention_in(settings: Any) -> dict[str, Any]:
    for step in RETENTION[:-1]:
        settings = settings.get(step) if isinstance(settings, dict) else None
    return settings if isinstance(settings, dict) else {}


def _seconds(period: Any) -> float | None:
    match = re.fullmatch(r"([0-9]+)([hdwm])", period) if isinstance(period, str) else None
    return int(match[1]) * _UNITS[match[2]] if match and int(match[1]) else None


def _last_updated(transcript: Transcript) -> float:
    """Return when a session was last updated by its own account, which is repeated after every message."""
    try:
        with open(transcript.path, "rb", opener=durable.plain_file) as file:
            size = os.fstat(file.fileno()).st_size
            blocks = [file.read(_BLOCK)]
            if size > _BLOCK:
                file.seek(max(_BLOCK, size - _BLOCK))
                blocks.append(file.read(_BLOCK))
    except OSError:
        blocks = []
    for block in reversed(blocks):
        found = _UPDATED.findall(block)
        if found:
            return clock.to_epoch(found[-1].decode("ascii", "replace")) or transcript.changed / 1e9
    return transcript.changed / 1e9
