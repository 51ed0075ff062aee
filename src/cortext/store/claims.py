"""Work that is to be done once, by one of many workers: a claim that runs out, and a number that a late one lacks.

A worker claims a piece of work (a chat whose updates wait, a session that wants a summary), does it, and says so when
it is finished. If it dies, the claim runs out and another takes over. What is finished is not given again.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Claim(NamedTuple):
    """A piece of work that is ours, as long as the fencing number is still this one."""

    key: str
    topic: str
    fence: int


class Claims(Protocol):
    """Who does what, across processes and hosts."""

    def claim(self, topic: str, key: str, seconds: float, *, version: int = 0) -> Claim | None:
        """Ours for so long; None where another has it, or where it is finished up to this version (above 0)."""

    def renew(self, claim: Claim, seconds: float) -> bool:
        """Ours for longer; False where it was lost."""

    def finish(self, claim: Claim, *, version: int = 0) -> bool:
        """Let go, and remember up to which version it is finished; False where it was lost."""
