"""As much of the best evidence as fits into an answer: passages are chosen one by one, and shown by session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from cortext.faces.mcp.drawing import found_entry, shortened
from cortext.faces.mcp.pages import FRAME, cost
from cortext.services.library.listing import Row
from cortext.services.library.recall import Passage, SessionPassages

Place = tuple[str, str, int]  # store, session, number of the message


class Filled(NamedTuple):
    """The sessions that the best passages are from, the session of the best one first; and how many passages."""

    found: list[SessionPassages]
    count: int


def filled(ranked: Iterable[tuple[Row, Passage]], budget: int) -> Filled:
    """Return the best passages that fit into this many tokens, at least one; `ranked` is read only as far as needed.

    Within a session they are in the order in which they were said. If there is room left, passages get their
    neighbours, the best passage first.
    """
    sessions: dict[tuple[str, str], SessionPassages] = {}
    order: list[tuple[tuple[str, str], Passage]] = []
    room = budget - FRAME
    for row, passage in ranked:
        key = (row.root, row.id)
        bare = replace(passage, before="", after="")
        before = sessions.get(key)
        after = SessionPassages(session=row, passages=[*(before.passages if before else ()), bare])
        needed = _growth(before, after)
        while not order and any(more > room for more in needed):
            smaller = shortened(after)
            if smaller is None:
                break
            after = smaller
            needed = _growth(before, after)
        if order and max(needed) > room:
            break
        sessions[key] = after
        order.append((key, passage))
        room -= max(needed)
    _add_neighbours(sessions, order, room)
    for one in sessions.values():
        one.passages.sort(key=lambda passage: passage.seq)
    return Filled(list(sessions.values()), len(order))


def _growth(before: SessionPassages | None, after: SessionPassages) -> tuple[int, int]:
    """Return how many tokens an answer grows by, as text and as data."""
    old = cost(before, found_entry) if before is not None else (0, 0)
    new = cost(after, found_entry)
    return new[0] - old[0], new[1] - old[1]


def _add_neighbours(
    sessions: dict[tuple[str, str], SessionPassages], order: Iterable[tuple[tuple[str, str], Passage]], room: int
) -> None:
    for key, passage in order:
        one = sessions[key]
        shown = {other.seq for other in one.passages}
        index = next(number for number, other in enumerate(one.passages) if other.seq == passage.seq)
        richer = replace(
            one.passages[index],
            before="" if passage.seq - 1 in shown else passage.before,
            after="" if passage.seq + 1 in shown else passage.after,
        )
        new = replace(one, passages=[*one.passages[:index], richer, *one.passages[index + 1 :]])
        needed = max(_growth(one, new))
        if needed > room:
            return
        sessions[key] = new
        room -= needed
