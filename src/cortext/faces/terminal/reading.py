"""The stores of a command that only reads: it also works in a workspace whose settings file is broken, and says so."""

from __future__ import annotations

import sys

from cortext.faces.terminal.style import folded
from cortext.safety import terminal
from cortext.wiring.stores import Stores


def stores_for(*, only_reads: bool = True) -> Stores:
    """Return the stores of a command in the current folder.

    If the command only reads, a broken settings file of the workspace is noted on standard error, and the defaults are
    used; otherwise it raises ConfigError or UnsafePath.
    """
    stores = Stores(only_reads=only_reads)
    for line in stores.settings.broken_warnings():
        print(folded(terminal.line(f"Note: {line}"), sys.stderr, indent=2), file=sys.stderr)
    return stores
