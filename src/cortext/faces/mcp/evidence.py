"""As much of the best evidence as fits into an answer: passages are chosen one by one, and shown by session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from cortext.faces.mcp.drawing import evidence_entry, shortened, without_summary
from cortext.faces.mcp.pages import FRAME, Json, cost
from cortext.services.library.listing import Row
from cortext.services.library.recall import Passage, SessionPassages

DATA_FRAME = 60  # tokens of the note and the cursor; the data has no heading, fences or hint


class Filled(NamedTuple):
    """The sessions that the best passages are from, the session of the best one first; and how many passages."""

    found: list[SessionPassages]
    passages: int
    is_full: bool  # whether the next passage did not fit


Draw = Callable[[SessionPassages], tuple[str, Json]]


def filled(ranked: Iterable[tuple[Row, Passage]], budget: int, draw: Draw = evidence_entry) -> Filled:
    """Return the best passages that fit into this many tokens, at least one; `ranked` is read only as far as needed.

    Within a session they are in the order in which they were said. If there is room left, passages get their
    neighbours, the best passage first, and sessions their summaries. `draw` is how a session will be shown.
    """

    def growth(before: SessionPassages | None, after: SessionPassages) -> list[int]:
        """Return how many tokens the answer grows by, as text and as data."""
        old = cost(before, draw) if before is not None else (0, 0)
        return [new - less for new, less in zip(cost(after, draw), old, strict=True)]

    def fits(before: SessionPassages | None, after: SessionPassages) -> bool:
        return all(now + more <= budget for now, more in zip(used, growth(before, after), strict=True))

    def take(before: SessionPassages | None, after: SessionPassages) -> None:
        used[:] = [now + more for now, more in zip(used, growth(before, after), strict=True)]

    sessions: dict[tuple[str, str], SessionPassages] = {}
    order: list[tuple[tuple[str, str], Passage]] = []
    summaries: dict[tuple[str, str], Row] = {}
    used = [FRAME, DATA_FRAME]  # as text and as data
    is_full = False
    for row, passage in ranked:
        key = (row.root, row.id)
        summaries[key] = row
        bare = replace(passage, before="", after="")
        before = sessions.get(key)
        after = SessionPassages(
            session=without_summary(row) or row, passages=[*(before.passages if before else ()), bare]
        )
        while not order and not fits(None, after) and (smaller := shortened(after)) is not None:
            after = smaller
        if order and not fits(before, after):
            is_full = True
            break
        take(before, after)
        sessions[key] = after
        order.append((key, passage))
    for key, passage in order:
        richer = _with_neighbours(sessions[key], passage)
        if not fits(sessions[key], richer):
            break
        take(sessions[key], richer)
        sessions[key] = richer
    for key, one in sessions.items():
        richer = replace(one, session=summaries[key])
        if fits(one, richer):
            take(one, richer)
            sessions[key] = richer
    for one in sessions.values():
        one.passages.sort(key=lambda passage: passage.seq)
    return Filled(list(sessions.values()), len(order), is_full)


def _with_neighbours(one: SessionPassages, passage: Passage) -> SessionPassages:
    """Return the session with the neighbours of one of its passages, unless these are passages themselves."""
    shown = {other.seq for other in one.passages}
    before = "" if passage.seq - 1 in shown else passage.before
    after = "" if passage.seq + 1 in shown else passage.after
    return replace(
        one,
        passages=[
            replace(other, before=before, after=after) if other.seq == passage.seq else other for other in one.passages
        ],
    )
