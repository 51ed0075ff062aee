"""A sign of life on a terminal while nothing else is to be seen. It leaves no trace."""

from __future__ import annotations

import time
from typing import TextIO

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Spinner:
    """`turn` it now and then, `clear` it before anything else is written. On a pipe it does nothing."""

    def __init__(self, stream: TextIO, label: str = "thinking") -> None:
        self._stream, self.label = stream, label
        self._live = stream.isatty()
        self._begin, self._shown = time.monotonic(), False

    def turn(self) -> None:
        """One step further, with the seconds that went by."""
        if not self._live:
            return
        gone = time.monotonic() - self._begin
        frame = _FRAMES[int(gone * 10) % len(_FRAMES)]
        self._stream.write(f"\r\x1b[K\x1b[2m{frame} {self.label} {gone:.0f} s (Ctrl-C stops)\x1b[0m")
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Off the screen."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
