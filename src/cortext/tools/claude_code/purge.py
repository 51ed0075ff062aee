"""What Claude Code deletes by itself.

A few seconds after a start, at most once a day, it deletes every transcript of every project whose file did not change
for `cleanupPeriodDays`. If the value is invalid, it deletes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cortext.tools.base import Purge, Transcript
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.retention import DAY, Retention

SETTING = "cleanupPeriodDays"
DEFAULT_DAYS = 30
TEN_YEARS = 3650  # Claude Code has no value for "never"; its own messages recommend this one


def purge(folder: str, transcripts: Iterable[Transcript]) -> Purge | None:
    """Return what it will delete by the settings in this folder; None if that is nothing."""
    path = os.path.join(folder, "settings.json")
    days = read_object(path).get(SETTING, DEFAULT_DAYS)
    if type(days) is not int or not 0 < days < TEN_YEARS:
        return None
    due = []
    for transcript in transcripts:
        try:
            # Of the main file: the fingerprint is also that of the files of subagents.
            due.append((transcript, os.stat(transcript.path, follow_symlinks=False).st_mtime + days * DAY))
        except OSError:
            continue  # just deleted
    return Purge(setting=SETTING, value=str(days), keeping=f"{SETTING}: {TEN_YEARS}", file=path, due=due)


def retention(folder: str) -> Retention:
    """Return the setting, for changing it."""
    return Retention(folder, (SETTING,), TEN_YEARS)
