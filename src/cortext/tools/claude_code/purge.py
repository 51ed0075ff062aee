"""What Claude Code deletes by itself.

A few seconds after a start, at most once a day, it deletes every transcript of every project whose file did not change
for `cleanupPeriodDays`. If the value is invalid, it deletes nothing. Managed settings win over the user's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from cortext.tools.base import Purge, Transcript
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.retention import DAY, Retention

SETTING = "cleanupPeriodDays"
DEFAULT_DAYS = 30
MANAGED = "/Library/Application Support/ClaudeCode" if sys.platform == "darwin" else "/etc/claude-code"
TEN_YEARS = 3650  # Claude Code has no value for "never"; its own messages recommend this one


def purge(folder: str, transcripts: Iterable[Transcript]) -> Purge | None:
    """Return what it will delete by the settings in this folder; None if that is nothing."""
    path = os.path.join(folder, "settings.json")
    managed = _managed()
    value = managed if managed is not None else read_object(path).get(SETTING, DEFAULT_DAYS)
    is_whole = type(value) is int or (type(value) is float and value.is_integer())
    if not is_whole or not 0 <= value < TEN_YEARS:
        return None
    result = Purge(setting=SETTING, value=f"{value:.0f}", keeping=f"{SETTING}: {TEN_YEARS}", file=path)
    if managed is not None:
        result.is_managed = True
        result.value += " in the managed settings"
    if value == 0:
        result.note = f"{SETTING} is 0: older versions write no transcript then, and nothing can be captured"
        return result
    for transcript in transcripts:
        try:
            # Of the main file: the fingerprint is also that of the files of subagents.
            result.due.append((transcript, os.stat(transcript.path, follow_symlinks=False).st_mtime + value * DAY))
        except OSError:
            continue  # just deleted
    return result


def _managed() -> Any:
    """Return the value in the settings of an administrator, which win over the user's; None if they have none."""
    folder = os.path.join(MANAGED, "managed-settings.d")
    added = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = [os.path.join(MANAGED, "managed-settings.json"), *(os.path.join(folder, name) for name in added)]
    return next((found for path in reversed(paths) if (found := read_object(path).get(SETTING)) is not None), None)


def retention(folder: str) -> Retention:
    """Return the setting, for changing it."""
    return Retention(folder, (SETTING,), TEN_YEARS)
