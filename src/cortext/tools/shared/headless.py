"""Running AI programs without their terminal interface: system prompts, file names, and the lines that they print."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from cortext.io import durable
from cortext.model.answer import AnswerPiece, AnswerText, Done, Usage
from cortext.safety.framing import fence

LONGEST = 100_000  # bytes: the limit of Linux for an argument or a variable is 128 KiB
# A zero-width word joiner. Some programs read every file that is named after an @, anywhere in a prompt.
JOINER = "\u2060"


class Reader:
    """Interprets the lines that a program prints during one run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._has_text = False
        self._model = ""

    def read(self, record: dict[str, Any]) -> Iterator[AnswerPiece]:
        """Yield the events of one line."""
        raise NotImplementedError

    def _piece(self, text: str) -> Iterator[AnswerPiece]:
        """Yield a complete message of the answer; a blank line separates it from the previous one."""
        if text.strip():
            yield AnswerText(f"\n\n{text}" if self._has_text else text)
            self._has_text = True

    def _done(self, usage: Usage, stop: str = "end") -> Done:
        return Done(stop, usage, self._model)


def instructions(system: str) -> str:
    """Return a system prompt to put before the prompt, for programs that accept none, or none of this length."""
    if not system.strip():
        return ""
    tag = f"instructions-{fence([system])}"
    return f"Follow these instructions:\n<{tag}>\n{system}\n</{tag}>\n\n"


def system_file(scratch: str, system: str) -> str:
    """Return the path of a file with the system prompt, which only the user can read.

    The prompt may contain what `alfred` remembers, and every user of the machine can read the arguments of a program.
    The file is named by its content, so that the same prompt is written once.
    """
    data = system.encode("utf-8", "replace")
    path = os.path.join(scratch, f"system-{hashlib.sha256(data).hexdigest()[:16]}.md")
    if not os.path.exists(path):
        durable.replace_file(path, [data])
    return path


def without_file_names(text: str) -> str:
    """Return the text with a joiner after each @, so that it names no file. `with_file_names` removes the joiners."""
    return text.replace("@", f"@{JOINER}")


def with_file_names(text: str) -> str:
    """Return the model's text without our joiners."""
    return text.replace(JOINER, "")
