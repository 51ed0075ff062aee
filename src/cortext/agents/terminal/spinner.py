"""A spinner on a terminal while nothing else is shown. It removes itself completely."""

from __future__ import annotations

import time
from typing import TextIO

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Spinner:
    """`turn` it regularly, `clear` it before anything else is written. On a pipe it does nothing."""

    def __init__(self, stream: TextIO, label: str = "thinking") -> None:
        self._stream, self.label = stream, label
        self._live = stream.isatty()
        self._begin, self._shown = time.monotonic(), False

    def turn(self) -> None:
        """Show the next frame, with the elapsed seconds."""
        if not self._live:
            return
        elapsed = time.monotonic() - self._begin
        frame = _FRAMES[int(elapsed * 10) % len(_FRAMES)]
        self._stream.write(f"\r\x1b[K\x1b[2m{frame} {self.label} {elapsed:.0f} s (Ctrl-C stops)\x1b[0m")
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        """Remove it from the screen."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
