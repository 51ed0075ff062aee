"""Whether a tool's session still held what was handed over to it, after the first turn of a resume."""

from __future__ import annotations

from typing import Any

import msgspec

FIRST_TURN = "first_turn"  # the key in a session's metadata


class FirstTurn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How many of the messages that were handed over the tool's session held after the first turn."""

    tool: str
    key: str
    messages: int
    held: int
    at: str
    answered: bool = True  # False if messages were gone before the model had answered

    @property
    def is_short(self) -> bool:
        """Whether messages were gone, and nothing in the session said why."""
        return self.held < self.messages

    def sentence(self, title: str) -> str:
        """Return the result for people; `title` is the tool's."""
        if self.is_short:
            since = "after the first turn" if self.answered else "when it had been opened"
            return (
                f"the session in {title} held only {self.held} of {self.messages} {since}, and nothing in it says why"
            )
        return f"the session in {title} still holds {self.held} of {self.messages} after the first turn"


def first_turn_of(extra: dict[str, Any]) -> FirstTurn | None:
    """Return the newest result that is stored with a session; None if there is none."""
    try:
        return msgspec.convert(extra.get(FIRST_TURN), FirstTurn)
    except msgspec.ValidationError:
        return None
