"""Where gptme keeps its conversations: `logs/<name>/conversation.jsonl`, with the settings of each in `config.toml`.

The log says nothing about itself: the folder's name is the id, and the settings name the project and the title. So a
copy elsewhere has a folder beside it, `<copy>.files/<name>`, with the other files of the session. After `/compact`, the
full history is in `lossless.jsonl`; a compaction by gptme itself leaves the log as it is and works with a view of it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from cortext.errors import CortextError
from cortext.io import durable, new_files
from cortext.tools.base import Counts, Transcript
from cortext.tools.gptme.records import Record, decoder
from cortext.tools.shared.lines import ForeignLines

TOOL = "gptme"
LOG = "conversation.jsonl"
SETTINGS = "config.toml"
LOSSLESS = "lossless.jsonl"
# What gptme keeps beside a conversation.
COMPANIONS = (
    *(f"*/{SETTINGS}", f"*/{LOSSLESS}", "*/events.jsonl", "*/control.jsonl", "*/progress.jsonl", "*/RESUME.md"),
    *("*/conv-checkpoints.jsonl", "*/lesson-emissions.jsonl", "*/phase0-shadow.jsonl*", "*/model_selection_trace.json"),
    *("*/prompt-queue-closed", "*/tui.log", "*/attachments/", "*/branches/", "*/files/", "*/tool-outputs/"),
    *("*/views/", "*/workspace/"),
)
KEY = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ACTIVE_VIEW = os.path.join("views", ".current")


class GptmeStore:
    """The folder with all conversations of a user."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        data = environ.get("XDG_DATA_HOME", "").strip() or os.path.join(home, ".local", "share")
        config = environ.get("XDG_CONFIG_HOME", "").strip() or os.path.join(home, ".config")
        self.logs = environ.get("GPTME_LOGS_HOME", "").strip() or os.path.join(data, "gptme", "logs")
        self.user_settings = os.path.join(config, "gptme", SETTINGS)

    def folder(self, key: str) -> str:
        """Return the folder of a session."""
        return os.path.join(self.logs, key)

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every session, or those of one project."""
        try:
            names = os.listdir(self.logs)
        except (FileNotFoundError, NotADirectoryError):
            return
        wanted = os.path.realpath(project) if project is not None else None
        for name in names:
            found = self.transcript_at(os.path.join(self.logs, name, LOG))
            if found is not None and (wanted is None or os.path.realpath(found.project or os.sep) == wanted):
                yield found

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the session whose log is at this path, or whose copy."""
        beside = folder_of(path)
        if not beside or not _is_log(path):
            return None
        size = changed = 0
        for file in (path, os.path.join(beside, LOSSLESS)):
            try:
                status = os.stat(file)
            except OSError:
                continue
            size += status.st_size
            changed = max(changed, status.st_mtime_ns)
        project = settings_of(beside).get("workspace")
        return Transcript(
            tool=TOOL,
            key=os.path.basename(beside),
            path=os.path.abspath(path),
            project=project if isinstance(project, str) else "",
            size=size,
            changed=changed,
        )

    def copy(self, path: str, target: str, later: new_files.Later | None = None) -> None:
        """Copy a session: its log to the target, its other files beside that."""
        source = folder_of(path)
        beside = os.path.join(f"{target}.files", os.path.basename(source))
        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(path, target, later)
        new_files.ensure_folder(beside, later)
        for name in (SETTINGS, LOSSLESS):
            if os.path.isfile(os.path.join(source, name)):
                new_files.mirror_file(os.path.join(source, name), os.path.join(beside, name), later)


def folder_of(path: str) -> str:
    """Return the folder with the other files of a session, whose name is the session's id; empty if there is none."""
    path = os.path.abspath(path)
    if os.path.basename(path) == LOG:
        return os.path.dirname(path)
    try:
        (name,) = os.listdir(f"{path}.files")
    except (OSError, ValueError):
        return ""
    return os.path.join(f"{path}.files", name) if KEY.fullmatch(name) else ""


def full_log(path: str) -> str:
    """Return the path of the log with all messages: not the one that a compaction by the user shortened."""
    lossless = os.path.join(folder_of(path), LOSSLESS)
    return lossless if os.path.isfile(lossless) else path


def is_compacted(path: str) -> bool:
    """Whether gptme would send a summary instead of the earlier messages."""
    folder = folder_of(path)
    return any(os.path.exists(os.path.join(folder, name)) for name in (LOSSLESS, _ACTIVE_VIEW))


def settings_of(folder: str, table: str = "chat", name: str = SETTINGS) -> dict[str, Any]:
    """Return a table of the settings in a folder; empty if there is none that can be read."""
    import tomllib

    try:
        settings = tomllib.loads(durable.read_text(os.path.join(folder, name))).get(table)
    except (OSError, CortextError, ValueError, RecursionError):  # ValueError: not TOML, or not UTF-8
        return {}
    return settings if isinstance(settings, dict) else {}


def _is_log(path: str) -> bool:
    """Whether one of the first lines of a file is a message."""
    lines = ForeignLines(path, 0, Counts())
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        for number, line in enumerate(lines):
            records: list[Record] = lines.decode(line, decoder, Record)
            if any(record.role for record in records):
                return True
            if number == 2:
                break
    except (OSError, CortextError):
        return False
    return False
