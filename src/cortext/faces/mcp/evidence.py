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


Key = tuple[str, str]  # the store and the id of a session
Draw = Callable[[SessionPassages], tuple[str, Json]]


def filled(ranked: Iterable[tuple[Row, Passage]], budget: int, draw: Draw = evidence_entry) -> Filled:
    """Return the best passages that fit into this many tokens, at least one; `ranked` is read only as far as needed.

    Within a session they are in the order in which they were said. If there is room left, passages get their
    neighbours, the best passage first, and sessions their summaries. `draw` is how a session will be shown.
    """

    sessions: dict[Key, SessionPassages] = {}
    costs: dict[Key, tuple[int, int]] = {}  # as text and as data
    used = [FRAME, DATA_FRAME]

    def take(key: Key, richer: SessionPassages, *, anyway: bool = False) -> bool:
        """Show a session like this if that fits; return whether it does."""
        new = cost(richer, draw)
        total = [now - less + more for now, less, more in zip(used, costs.get(key, (0, 0)), new, strict=True)]
        if max(total) > budget and not anyway:
            return False
        used[:], costs[key], sessions[key] = total, new, richer
        return True

    order: list[tuple[Key, Passage]] = []
    summaries: dict[Key, Row] = {}
    is_full = False
    for row, passage in ranked:
        key = (row.root, row.id)
        summaries[key] = row
        bare = replace(passage, before="", after="")
        others = sessions[key].passages if key in sessions else []
        in_order = sorted([*others, bare], key=lambda one: one.seq)
        after = SessionPassages(session=without_summary(row) or row, passages=in_order)
        is_taken = take(key, after)
        while not order and not is_taken:
            smaller = shortened(after)
            after = smaller or after
            is_taken = take(key, after, anyway=smaller is None)
        if not is_taken:
            is_full = True
            break
        order.append((key, passage))
    for key, passage in order:
        if not take(key, _with_neighbours(sessions[key], passage)):
            break
    for key, one in list(sessions.items()):
        take(key, replace(one, session=summaries[key]))
    return Filled(list(sessions.values()), len(order), is_full)


def _with_neighbours(one: SessionPassages, passage: Passage) -> SessionPassages:
    """Return the session with the neighbours of one of its passages, unless these are shown already."""
    shown = {
        seq
        for other in one.passages
        for seq, text in ((other.seq - 1, other.before), (other.seq, other.text), (other.seq + 1, other.after))
        if text
    }
    before = "" if passage.seq - 1 in shown else passage.before
    after = "" if passage.seq + 1 in shown else passage.after
    return replace(
        one,
        passages=[
            replace(other, before=before, after=after) if other.seq == passage.seq else other for other in one.passages
        ],
    )
