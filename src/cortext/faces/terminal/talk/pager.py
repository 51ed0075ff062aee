"""Long output, a page at a time: through the user's pager on a terminal, plainly elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def page(text: str) -> None:
    """Show a text (made safe already): with `$PAGER` (or less) where it is longer than the screen."""
    lines = shutil.get_terminal_size().lines
    if not sys.stdout.isatty() or text.count("\n") < lines - 2 or not _through_pager(text):
        print(text)


def _through_pager(text: str) -> bool:
    """Whether a pager could be run; Ctrl-C in it is its own affair."""
    import shlex
    import signal

    wanted = shlex.split(os.environ.get("PAGER", "")) or ["less"]
    if shutil.which(wanted[0]) is None:
        return False
    # -R lets our own colours through; everything else in the text was made visible before.
    environ = {"LESS": "-R", "LESSSECURE": "1", **os.environ}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run(wanted, input=text, text=True, encoding="utf-8", env=environ, check=False)
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode == 0
