"""`aur`: not built yet, and it says so."""

from __future__ import annotations

import sys


def main() -> int:
    """One line and exit code 2, so that a script does not mistake it for the real thing."""
    print("aur: the 'aur spawn' face is not built yet; its sessions are read by `cortext list`", file=sys.stderr)
    return 2
