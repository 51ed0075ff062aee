"""Hold back the first prompt of a resumed session until its history is loaded.

With `--resume` and `-i`, Gemini CLI loads the history and sends the prompt at the same time. If the prompt wins the
race, the model gets it without the history, and the answer is written to a separate file. A hook that runs before the
prompt therefore waits until the history is loaded, which appends a line to the session's file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from cortext.io import durable

# Gemini CLI passes these variables to its hooks, even where it filters the rest of the environment.
FILE, SIZE = "GEMINI_CLI_CORTEXT_FILE", "GEMINI_CLI_CORTEXT_SIZE"
# `wait` as a shell command, for projects without our hook: polls ten times a second, for at most eight seconds.
COMMAND = (
    'cat > /dev/null; i=0; while [ -n "$GEMINI_CLI_CORTEXT_FILE" ] && [ "$i" -lt 80 ] && '
    '! tail -c "+$((GEMINI_CLI_CORTEXT_SIZE + 1))" "$GEMINI_CLI_CORTEXT_FILE" 2> /dev/null | '
    'grep -q \'"$set":{"sessionId"\'; do i=$((i + 1)); sleep 0.1; done; true'
)
_LOADED = b'{"$set":{"sessionId":'
_TIMEOUT = 8.0
_POLL_INTERVAL = 0.02
_READ_LIMIT = 4 << 20


def environment(path: str) -> dict[str, str]:
    """Return the variables that tell the gate which session is resumed: its file, and the file's current size."""
    # Gemini CLI continues an older document in a JSON Lines file beside it.
    lines = path if path.endswith(".jsonl") else f"{path}l"
    size = os.stat(lines).st_size if os.path.exists(lines) else 0
    return {FILE: lines, SIZE: str(size)}


def wait(environ: Mapping[str, str], timeout: float = _TIMEOUT) -> bool:
    """Wait until the session that we launched is loaded; return False on a timeout.

    Return True immediately if we launched none.
    """
    path, size = environ.get(FILE, ""), environ.get(SIZE, "")
    if not path or not size.isdigit():
        return True
    deadline = time.monotonic() + timeout
    while not _is_loaded(path, int(size)):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_INTERVAL)
    return True


def _is_loaded(path: str, size: int) -> bool:
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            file.seek(size)
            return _LOADED in file.read(_READ_LIMIT)
    except OSError:
        return False
