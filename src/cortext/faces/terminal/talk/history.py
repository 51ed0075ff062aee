"""What was typed at a prompt, over all runs: one JSON string a line, the newest last."""

from __future__ import annotations

import json
import os

from cortext.errors import CortextError
from cortext.io import files as fsio

LONGEST = 1 << 20  # bytes; then only the newer half is kept
KEPT = 1000  # entries that a prompt offers


class History:
    """The lines of one face's prompt, in a file of its own. A history that cannot be written is nobody's loss."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> list[str]:
        """The newest entries, oldest first; lines that are no entry are passed over."""
        try:
            lines = fsio.read_text(self.path, "replace").splitlines()[-KEPT:]
        except OSError:
            return []
        return [entry for line in lines if (entry := _entry(line))]

    def add(self, text: str) -> None:
        """Remember one more."""
        try:
            fsio.ensure_folder(os.path.dirname(self.path))
            fsio.append_once(self.path, (json.dumps(text) + "\n").encode("ascii"))
            if os.stat(self.path).st_size > LONGEST:
                kept = self.load()
                newer = kept[len(kept) // 2 :]
                fsio.replace_file(self.path, [(json.dumps(entry) + "\n").encode("ascii") for entry in newer])
        except (OSError, CortextError):
            pass


def _entry(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    return entry if isinstance(entry, str) else ""
