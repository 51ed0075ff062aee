"""`/workspace.resume` inside a running tool while a server does not answer (see `services/resume/in_tool`).

A list shows what the other stores have and says what is missing. A name is not looked up among half of the sessions:
only a whole id is certain then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from cortext.errors import AmbiguousId, NotFound, StoreUnreachable
from cortext.index.sessions import Row
from cortext.services.library.listing import incomplete_line
from cortext.services.resume.in_tool import FORCE, LARGEST, ChatResumer, Reply


def answer(
    resumer: ChatResumer,
    wanted: str,
    capture_chat: Callable[[], object] = lambda: None,
    largest: int = LARGEST,
    size: Callable[[str], int] = len,
) -> Reply:
    """Return the list, or the conversation that continues here; if a server is away, what is missing or not done.

    `capture_chat` stores what was said in this chat so far. It must succeed before the chat is attached to another
    conversation; for a list it may fail, and the next hook repeats it.
    """
    if any(word != FORCE for word in wanted.split()):
        try:
            capture_chat()
            resumer.listing.refresh()
            return resumer.answer(wanted, largest, size)
        except StoreUnreachable as error:
            return Reply(f"cortext could not resume it: {error.message}. Nothing was changed: {error.hint}.")
    some = resumer.reachable()
    with suppress(StoreUnreachable):  # the list says so
        capture_chat()
    some.listing.refresh()
    reply = some.answer(wanted, largest, size)
    gone = incomplete_line(error.message for error in some.listing.away.values())
    if gone and not some.resumable():
        return Reply("", f"{gone} No other conversation can be resumed here.")
    return reply._replace(record=f"{gone}\n\n{reply.record}") if gone else reply


def choose(resumer: ChatResumer, wanted: str, see: str) -> Row:
    """Return the conversation that is meant. Raises StoreUnreachable if that needs a server that does not answer."""
    some = resumer.reachable()
    try:
        row = some.choose(wanted, see)
    except (AmbiguousId, NotFound) as error:
        raise next(iter(some.listing.away.values()), error) from None
    if some.listing.away and row.id != wanted.strip():
        raise next(iter(some.listing.away.values()))
    return row
