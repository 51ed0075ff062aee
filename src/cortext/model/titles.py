"""Which title a conversation has: the user's, the heading of its notes, the agent's or the tool's, the first words."""

from __future__ import annotations

import re

from cortext.model.session import TITLED_BY_USER, Session

# What says nothing of a conversation: a number, a bare address, a command, an order to carry out a plan.
_POOR_TITLE = re.compile(
    r"\W*\d*\W*|https?://\S+|[/$][a-z][\w.:-]*|(?:please )?(?:implement|execute|follow|carry out) (?:the|this)"
    r"(?: following)? plan\W*|new (?:chat|session|conversation)|untitled",
    re.IGNORECASE,
)


def best_title(*candidates: str) -> str:
    """Return the first title that says something, else the first of all, as it stands.

    The order is the same everywhere: the user's, the heading of the notes, the agent's or the tool's, the first words.
    """
    given = [one for one in candidates if one.strip()]
    return next((one for one in given if not is_poor_title(one)), given[0] if given else "")


def is_poor_title(text: str) -> bool:
    """Whether a title says nothing of the conversation."""
    return _POOR_TITLE.fullmatch(text.strip()) is not None


def is_titled_by_user(session: Session) -> bool:
    """Whether a person named this session, with `/workspace.X topic` or `cortext title`."""
    _, _, topic = str(session.extra.get("begun_by", "")).partition(" ")  # older versions stored nothing else
    return bool(session.title) and (TITLED_BY_USER.items() <= session.extra.items() or bool(topic.strip()))
