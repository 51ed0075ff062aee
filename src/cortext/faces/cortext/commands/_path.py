"""Whether the shell and the AI tools find us: hooks and MCP entries call `cortext` by its name."""

from __future__ import annotations

import os
import sys

from cortext.faces.terminal.style import paint
from cortext.safety import terminal


def warn_if_not_on_path() -> bool:
    """Say on standard error that `cortext` is not on PATH, and how it gets there; whether that was so."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if any(os.access(os.path.join(folder, "cortext"), os.X_OK) for folder in folders):
        return False
    called = os.path.abspath(sys.argv[0])
    near = os.path.dirname(called) if os.path.basename(called) == "cortext" else os.path.dirname(sys.executable)
    print(
        f"{paint('warning', 'yellow', stream=sys.stderr)}: `cortext` is not on PATH: the hooks and the MCP entry of "
        "your AI tools call it by that name,\nand nothing would be kept. Put this into your shell's start-up file:\n"
        f'  export PATH="{terminal.line(near)}:$PATH"',
        file=sys.stderr,
    )
    return True
