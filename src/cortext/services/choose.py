"""Choosing the session that a person means: by its number in the list, its id, a prefix, or words."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.errors import AmbiguousId, SessionNotFound
from cortext.services.stores import Found


def choose(found: Sequence[Found], wanted: str) -> Found:
    """The one that is meant; AmbiguousId or SessionNotFound with the nearest otherwise."""
    if wanted.isdigit() and 1 <= int(wanted) <= len(found):
        return found[int(wanted) - 1]
    matches = candidates(found, wanted)
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(item.session.id for item in matches[:8])
        raise AmbiguousId(f"{wanted!r} could be: {names}", hint="give more of the id, or the number from the list")
    raise SessionNotFound(f"no conversation matches {wanted!r}", hint="see what there is with `cortext resume --list`")


def candidates(found: Sequence[Found], wanted: str) -> list[Found]:
    """The sessions that could be meant: the exact id alone, else prefixes, else all the words."""
    exact = [item for item in found if item.session.id == wanted]
    if exact:
        return exact
    prefixed = [item for item in found if item.session.id.startswith(wanted.lower())]
    if prefixed:
        return prefixed
    words = wanted.casefold().split()
    return [item for item in found if words and all(word in _text(item) for word in words)]


def _text(item: Found) -> str:
    session = item.session
    return f"{session.id} {session.title} {session.summary} {session.type}".casefold()
