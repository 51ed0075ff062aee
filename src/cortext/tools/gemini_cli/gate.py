"""The gate before the first prompt of a resumed session.

With `--resume` and `-i` the program loads the history and sends the prompt at the same time; when the prompt is
faster, the model gets it without a word of the history, and the answer goes into a file of its own. A hook that runs
before the prompt holds it until the history is there: loading it writes a line to the session's file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from cortext.io import files as fsio

# The program hands these on to its hooks whatever else it holds back from them.
FILE, SIZE = "GEMINI_CLI_CORTEXT_FILE", "GEMINI_CLI_CORTEXT_SIZE"
# The same without us, for a project that has no hook of ours: ten times a second, for eight seconds at most.
COMMAND = (
    'cat > /dev/null; i=0; while [ -n "$GEMINI_CLI_CORTEXT_FILE" ] && [ "$i" -lt 80 ] && '
    '! tail -c "+$((GEMINI_CLI_CORTEXT_SIZE + 1))" "$GEMINI_CLI_CORTEXT_FILE" 2> /dev/null | '
    'grep -q \'"$set":{"sessionId"\'; do i=$((i + 1)); sleep 0.1; done; true'
)
_LOADED = b'{"$set":{"sessionId":'
_LONGEST_WAIT = 8.0
_BETWEEN_LOOKS = 0.02
_LOOKED_AT = 4 << 20


def environment(path: str) -> dict[str, str]:
    """What the gate must know of a session that is about to be resumed: its file, and how long it is now."""
    lines = path if path.endswith(".jsonl") else f"{path}l"  # an older document goes on as lines, beside it
    size = os.stat(lines).st_size if os.path.exists(lines) else 0
    return {FILE: lines, SIZE: str(size)}


def wait(environ: Mapping[str, str], longest: float = _LONGEST_WAIT) -> bool:
    """Wait until the session that we launched is loaded; at once where we launched none."""
    path, size = environ.get(FILE, ""), environ.get(SIZE, "")
    if not path or not size.isdigit():
        return True
    deadline = time.monotonic() + longest
    while not _is_loaded(path, int(size)):
        if time.monotonic() > deadline:
            return False
        time.sleep(_BETWEEN_LOOKS)
    return True


def _is_loaded(path: str, size: int) -> bool:
    try:
        with open(path, "rb", opener=fsio.plain_file) as file:
            file.seek(size)
            return _LOADED in file.read(_LOOKED_AT)
    except OSError:
        return False
