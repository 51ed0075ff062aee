"""What Gemini CLI deletes by itself.

At every start it deletes sessions of that project: those last updated before `maxAge`, and all but the newest
`maxCount`. Without any setting, `maxAge` is 30 days. The project's settings override the user's.
"""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from cortext.io import durable
from cortext.model import clock
from cortext.tools.base import Purge, Transcript
from cortext.tools.gemini_cli.store import GeminiStore
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.retention import DAY, Retention

RETENTION = ("general", "sessionRetention", "enabled")
DEFAULT_AGE = "30d"
_UNITS = {"h": DAY / 24, "d": DAY, "w": 7 * DAY, "m": 30 * DAY}
_UPDATED = re.compile(rb'"lastUpdated"\s*:\s*"([^"]{10,40})"')
_BLOCK = 1 << 16
_LARGEST = 1 << 30


def purge(store: GeminiStore) -> Purge | None:
    """Return what it will delete in each project when it is started there; None if that is nothing."""
    path = os.path.join(store.folder, "settings.json")
    user = _retention_in(read_object(path))
    chats: dict[str, list[Transcript]] = {}
    for transcript in store.transcripts():
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


def retention(store: GeminiStore) -> Retention:
    """Return the setting, for changing it."""
    return Retention(store.folder, RETENTION, False, comments=True)


def renew(path: str) -> None:
    """Record in this file, which cortext wrote, that the session was updated now."""
    now = clock.now()
    if not path:
        return
    from cortext.tools.gemini_cli.read import is_document

    if is_document(path):
        data = durable.read_file(path, _LARGEST)
        durable.replace_file(path, [_UPDATED.sub(f'"lastUpdated": "{now}"'.encode(), data, count=1)])
        return
    durable.append_once(path, msgspec.json.encode({"$set": {"lastUpdated": now}}) + b"\n")


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
