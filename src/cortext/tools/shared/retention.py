"""The setting by which an AI tool deletes its own conversations: raised in the user's settings, and restored.

The previous value is in a note beside the settings, so that it can be restored byte for byte even if cortext's own
folders are gone.
"""

from __future__ import annotations

import os
from typing import Any

from cortext.tools.shared import installer
from cortext.tools.shared.entries import Setting

DAY = 86_400.0
_FILE = "settings.json"
_NOTE = "cortext-retention.json"


class Retention:
    """One such setting in `settings.json` in the tool's folder in the user's home."""

    def __init__(self, folder: str, path: tuple[str, ...], keeping: Any, *, comments: bool = False) -> None:
        self._folder = folder
        entry = Setting("retention", path, keeping)
        self._config = installer.JsonConfig((_FILE,), [entry], comments=comments, note=_NOTE)

    def raise_it(self, *, dry_run: bool) -> list[str]:
        """Set the value with which nothing is deleted; return the files that changed or would."""
        return self._settings(installer.install(self._folder, [self._config], dry_run=dry_run))

    def restore(self, *, dry_run: bool) -> list[str]:
        """Set the noted value again; return the files that changed or would."""
        return self._settings(installer.remove(self._folder, [self._config], dry_run=dry_run))

    @staticmethod
    def _settings(paths: list[str]) -> list[str]:
        return [path for path in paths if os.path.basename(path) != _NOTE]
