"""Asking AI programs without their screens: what the adapters share."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from cortext.io import files as fsio
from cortext.model.answer import Done, Text, Usage
from cortext.model.headless import Said
from cortext.safety.framing import fence

LONGEST = 100_000  # bytes: an argument or a variable may be 128 KiB
# A joiner that takes no room. Some programs read every file that is named after an @, wherever it stands.
JOINER = "\u2060"


class Reader:
    """What the lines of one run mean."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._said = False
        self._model = ""

    def read(self, record: dict[str, Any]) -> Iterator[Said]:
        """The events of one line."""
        raise NotImplementedError

    def _piece(self, text: str) -> Iterator[Said]:
        """A whole piece of the answer; a blank line separates it from the one before."""
        if text.strip():
            yield Text(f"\n\n{text}" if self._said else text)
            self._said = True

    def _done(self, usage: Usage, stop: str = "end") -> Done:
        return Done(stop, usage, self._model)


def instructions(system: str) -> str:
    """A system prompt that has to stand before the prompt, for programs that take none (or none so long)."""
    if not system.strip():
        return ""
    mark = f"instructions-{fence([system])}"
    return f"Follow these instructions:\n<{mark}>\n{system}\n</{mark}>\n\n"


def system_file(scratch: str, system: str) -> str:
    """A file with the system prompt, for the user alone; named by its content, so that it is made once.

    It holds what `alfred` remembers, say: an argument would show it to everybody on the machine.
    """
    data = system.encode("utf-8", "replace")
    path = os.path.join(scratch, f"system-{hashlib.sha256(data).hexdigest()[:16]}.md")
    if not os.path.exists(path):
        fsio.replace_file(path, [data])
    return path


def without_file_names(text: str) -> str:
    """The text with no file named in it: a joiner after each @. `with_file_names` takes them out of the answer."""
    return text.replace("@", f"@{JOINER}")


def with_file_names(text: str) -> str:
    """The model's words without our joiners."""
    return text.replace(JOINER, "")


def field(record: Any, name: str) -> Any:
    """A field of a JSON object; None where there is no object."""
    return record.get(name) if isinstance(record, dict) else None


def word(record: Any, name: str) -> str:
    """A field that should be a text; empty where it is anything else."""
    found = field(record, name)
    return found if isinstance(found, str) else ""


def count(record: Any, *names: str) -> int:
    """The sum of those numbers; -1 where none of them is there."""
    found = [number for name in names if isinstance(number := field(record, name), int)]
    return sum(found) if found else -1
