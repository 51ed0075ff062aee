"""Long output through the user's pager on a terminal, and plain elsewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from cortext.faces.terminal.output import columns
from cortext.faces.terminal.table import width
from cortext.safety.credentials import for_child

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def page(text: str) -> None:
    """Show a text (already made safe), with `$PAGER` (or less) if it is longer than the screen."""
    with Pager() as pager:
        pager.write(text)


class Pager:
    """`write` it lines (already made safe). They are printed if they fit the screen; otherwise the pager starts.

    Only less receives colours, because other pagers may not support them.
    """

    def __init__(self, *, wanted: bool = True) -> None:
        self._command = _command() if wanted and sys.stdout.isatty() else []
        self._room = shutil.get_terminal_size().lines - 2
        self._held: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._before: Any = None

    def write(self, text: str) -> None:
        """Write one or more lines, without the last newline. Raises BrokenPipeError if the user has left the pager."""
        if not self._command:
            print(text)
        elif self._process is not None:
            self._send(text)
        else:
            self._held.append(text)
            screen = max(1, columns())
            self._room -= sum(max(1, -(-width(_COLOUR.sub("", line)) // screen)) for line in text.split("\n"))
            if self._room < 0:
                self._start()

    def _start(self) -> None:
        flags = os.environ.get("LESS", "")
        # -R lets our own colours through; everything else in the text was made visible before.
        environ = {**for_child(os.environ), "LESSSECURE": "1", "LESS": flags if "R" in flags else f"{flags} -R".strip()}
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, text=True, encoding="utf-8", errors="replace", env=environ
            )
            self._before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager handles Ctrl-C itself
        except OSError:
            self._command = []
        held, self._held = self._held, []
        for text in held:
            self.write(text)

    def _send(self, text: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        if os.path.basename(self._command[0]) != "less":
            text = _COLOUR.sub("", text)
        self._process.stdin.write(text + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        for text in self._held:
            print(text)
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
            self._process.wait()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        return self._process is not None and kind is BrokenPipeError  # the user left the pager early


def _command() -> list[str]:
    """Return the user's pager, else less; empty if the user wants none or none is installed."""
    named = os.environ.get("PAGER")
    try:
        wanted = ["less"] if named is None else shlex.split(named)
    except ValueError:  # an unclosed quotation mark
        return []
    if not wanted or wanted == ["cat"] or os.environ.get("TERM") == "dumb" or shutil.which(wanted[0]) is None:
        return []
    return wanted
