"""What is asked of lists and search: one value, which goes down from a face to the index and the servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

Among = Callable[[str, str], bool]  # whether a session, by its store and id, may be found


class Query(msgspec.Struct, frozen=True):
    """Which sessions, or which messages if there is a `text`, and how many of them in which order.

    `filters` are values by name, as a person types them: see `FILTERS`.
    """

    text: str = ""
    filters: Mapping[str, str] = {}
    roots: Sequence[str] | None = None  # the stores; None: all
    limit: int = 0  # 0: all sessions, or as many results as usual
    order: str = "last_active"  # of a list: titles from A to Z, everything else descending
    per_session: int = 0  # messages of one session at most; 0: as usual
    exact: bool = False  # by whole words only
    leave_out: Collection[str] = ()  # ids of sessions that are not searched
    among: Among | None = None  # which sessions may be found at all
