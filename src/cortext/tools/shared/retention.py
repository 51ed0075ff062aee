"""The setting by which an AI tool deletes its own conversations: raised in the user's settings, and restored.

The previous value is in a note beside the settings, so that it can be restored byte for byte even if cortext's own
folders are gone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cortext.tools.shared.installer import JsonConfig

DAY = 86_400.0
_FILE = "settings.json"
_NOTE = "cortext-retention.json"

# The installer is imported where it is used: `doctor` only asks when conversations are deleted.


class Retention:
    """One such setting in `settings.json` in the tool's folder in the user's home."""

    def __init__(self, folder: str, path: tuple[str, ...], keeping: Any, *, comments: bool = False) -> None:
        self._folder, self._path, self._keeping, self._comments = folder, path, keeping, comments

    def raise_it(self, *, dry_run: bool) -> list[str]:
        """Set the value with which nothing is deleted; return the files that changed or would."""
        from cortext.tools.shared import installer

        return self._settings(installer.install(self._folder, [self._config()], dry_run=dry_run))

    def restore(self, *, dry_run: bool) -> list[str]:
        """Set the noted value again; return the files that changed or would."""
        from cortext.tools.shared import installer

        return self._settings(installer.remove(self._folder, [self._config()], dry_run=dry_run))

    def _config(self) -> JsonConfig:
        from cortext.tools.shared.entries import Setting
        from cortext.tools.shared.installer import JsonConfig

        entry = Setting("retention", self._path, self._keeping)
        return JsonConfig((_FILE,), [entry], comments=self._comments, note=_NOTE)

    @staticmethod
    def _settings(paths: list[str]) -> list[str]:
        return [path for path in paths if os.path.basename(path) != _NOTE]
