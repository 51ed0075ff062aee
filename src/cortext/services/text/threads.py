"""The talk of a stored session as it stands, read as it is asked for: however long it is, little of it is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from cortext.model.message import BEGINNING, Message, Outline
from cortext.store.base import Store
from cortext.store.capabilities import Outlines, Skims

_ASIDE, _CUT, _KEPT = range(3)


class StoredThread:
    """What `model.message.thread` makes of a session, message by message, and again each time it is asked.

    Texts of many megabytes come cut (capabilities.Skims), unless the messages are to be `whole`.
    """

    def __init__(self, store: Store, session_id: str, *, whole: bool = False) -> None:
        self._store, self._id, self._whole = store, session_id, whole
        self._way = _way(lambda: store.outline(session_id) if isinstance(store, Outlines) else store.read(session_id))

    def __iter__(self) -> Iterator[Message]:
        store = self._store
        messages = store.skim(self._id) if isinstance(store, Skims) and not self._whole else store.read(self._id)
        # Which messages belong to it was looked at first: what came since is not part of this talk.
        for there, message in zip(self._way, messages, strict=False):
            if there:
                yield message


def _way(outline: Callable[[], Iterable[Outline]]) -> bytearray:
    """Of every message, whether it is in the thread: a byte each. Only branches are remembered by their ids."""
    kinds = bytearray()
    branches: dict[int, str] = {}
    before = ""
    for place, message in enumerate(outline()):
        kinds.append(_ASIDE if message.aside else _CUT if message.partial else _KEPT)
        if message.aside:
            continue
        if message.parent and message.parent != before:
            branches[place] = message.parent
        before = message.id
    wanted = set(branches.values()) - {BEGINNING}
    places: dict[str, int] = {}
    if wanted:
        for place, message in zip(range(len(kinds)), outline(), strict=False):
            if not message.aside and message.id in wanted:
                places[message.id] = place
    way = bytearray(len(kinds))
    place = len(kinds) - 1
    while place >= 0:
        way[place] = kinds[place] == _KEPT
        parent = branches.get(place, "")
        if parent == BEGINNING:
            break
        # A parent is always earlier: a file that says otherwise must not send us round in a circle.
        earlier = places.get(parent, place)
        place = earlier if earlier < place else place - 1
    return way
