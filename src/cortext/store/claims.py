"""Claims on work that exactly one of many workers should do: they expire, and carry a fencing number.

A worker claims a task (a chat with waiting updates, a session that needs a summary), does it, and marks it finished. If
the worker dies, the claim expires and another worker takes over. Finished work is not handed out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Claim(NamedTuple):
    """A claimed task; valid as long as the stored fencing number still equals `fence`."""

    key: str
    topic: str
    fence: int


class Claims(Protocol):
    """Which worker does which task, across processes and hosts."""

    def claim(self, topic: str, key: str, seconds: float, *, version: int = 0) -> Claim | None:
        """Claim a task for `seconds`; None if another worker holds it or it is finished up to this version (if > 0)."""

    def finished(self, topic: str, keys: Sequence[str]) -> dict[str, int]:
        """Return up to which version each of these tasks is finished; those that are not known are left out."""

    def renew(self, claim: Claim, seconds: float) -> bool:
        """Extend the claim by `seconds` from now; False if it was lost."""

    def finish(self, claim: Claim, *, version: int = 0) -> bool:
        """Release the claim and record up to which version the task is finished; False if the claim was lost."""
