"""`cortext merge-driver BASE OURS THEIRS PATH`: called by git, not by people."""

from __future__ import annotations

from cortext.errors import UsageError
from cortext.services.workspace.merge_driver import merge_file


def run(arguments: list[str]) -> int:
    """Merge into OURS; return 1 to leave the conflict to git."""
    if len(arguments) != 4:
        raise UsageError("merge-driver takes BASE OURS THEIRS PATH", hint="git calls it; `cortext init` sets it up")
    return 0 if merge_file(*arguments) else 1
