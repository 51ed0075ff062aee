"""Work that a command leaves to another process: `cortext refresh`, started here and not waited for."""

from __future__ import annotations

import sys

ENDED = "--ended"  # what follows are a tool and the key of its session, which has ended


def refresh_command(*options: str) -> list[str]:
    """Return the command line; the current folder may be a stranger's, and no module is imported from it."""
    return [sys.executable, "-P", "-m", "cortext.faces.cortext.main", "refresh", *options]


def refresh_later(*options: str) -> None:
    """Compare every session's files with the list, in a background process."""
    import subprocess  # every list imports this module, and few start a process

    subprocess.Popen(
        refresh_command(*options), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def index_later() -> None:
    """The same, and finish the search index."""
    refresh_later("--search")
