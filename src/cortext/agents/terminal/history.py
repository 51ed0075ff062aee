"""The history of a prompt over all runs: one JSON string per line, newest last."""

from __future__ import annotations

import json
import os

from cortext.errors import CortextError
from cortext.io import durable

LARGEST = 1 << 20  # bytes; then only the newer half is kept
MOST_ENTRIES = 1000  # entries that a prompt offers


class History:
    """The history of one face's prompt, in a file of its own. Failures to write it are ignored."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> list[str]:
        """Return the newest entries, oldest first; invalid lines are skipped."""
        try:
            lines = durable.read_text(self.path, "replace").splitlines()[-MOST_ENTRIES:]
        except OSError:
            return []
        return [entry for line in lines if (entry := _entry(line))]

    def add(self, text: str) -> None:
        """Add an entry."""
        try:
            durable.ensure_folder(os.path.dirname(self.path))
            durable.append_once(self.path, (json.dumps(text) + "\n").encode("ascii"))
            if os.stat(self.path).st_size > LARGEST:
                kept = self.load()
                newer = kept[len(kept) // 2 :]
                durable.replace_file(self.path, [(json.dumps(entry) + "\n").encode("ascii") for entry in newer])
        except (OSError, CortextError):
            pass


def _entry(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    return entry if isinstance(entry, str) else ""
