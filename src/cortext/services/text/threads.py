"""The thread of a stored session, read lazily, so that little of it is in memory however long it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from cortext.model.message import BEGINNING, Message
from cortext.model.threads import Outline, replaced_in, thread
from cortext.store.base import Store
from cortext.store.capabilities import Skims, outlines_of

_ASIDE, _PARTIAL, _COMPLETE = range(3)


class StoredThread:
    """The same messages as `model.threads.thread` of a session, read again at each iteration.

    Texts of many megabytes are cut (capabilities.Skims), unless `whole`.
    """

    def __init__(self, store: Store, session_id: str, *, whole: bool = False) -> None:
        self._store, self._id, self._whole = store, session_id, whole
        self._in_thread = _in_thread(lambda: outlines_of(store, session_id))

    def __iter__(self) -> Iterator[Message]:
        store = self._store
        messages = store.skim(self._id) if isinstance(store, Skims) and not self._whole else store.read(self._id)
        # The thread was determined before: messages appended since are not part of it.
        for is_in_thread, message in zip(self._in_thread, messages, strict=False):
            if is_in_thread:
                yield message


def _in_thread(outline: Callable[[], Iterable[Outline]]) -> bytearray:
    """Return, one byte per message, whether it is in the thread. Ids are held in memory only for branches."""
    kinds = bytearray()
    branches: dict[int, str] = {}
    before = ""
    has_edits = False
    is_split = False
    for index, message in enumerate(outline()):
        has_edits |= bool(message.replaces)
        is_split |= bool(message.forked_from) or message.joins
        kinds.append(_ASIDE if message.aside else _PARTIAL if message.partial else _COMPLETE)
        if message.aside:
            continue
        if message.parent and message.parent != before:
            branches[index] = message.parent
        before = message.id
    if is_split:
        return _of_branches(len(kinds), outline)
    parents = set(branches.values()) - {BEGINNING}
    index_of: dict[str, int] = {}
    if parents:
        for index, message in zip(range(len(kinds)), outline(), strict=False):
            if not message.aside and message.id in parents:
                index_of[message.id] = index
    in_thread = bytearray(len(kinds))
    index = len(kinds) - 1
    while index >= 0:
        in_thread[index] = kinds[index] == _COMPLETE
        parent = branches.get(index, "")
        if parent == BEGINNING:
            break
        # A parent comes earlier; a damaged file that says otherwise must not cause an endless loop.
        earlier = index_of.get(parent, index)
        index = earlier if earlier < index else index - 1
    if has_edits:
        placed = zip(range(len(kinds)), outline(), strict=False)
        kept = {index: message for index, message in placed if in_thread[index]}
        replaced = replaced_in(kept.values())
        for index, message in kept.items():
            in_thread[index] = message.id not in replaced
    return in_thread


def _of_branches(count: int, outline: Callable[[], Iterable[Outline]]) -> bytearray:
    """Return the same for a conversation that went on in several places: all of its outlines are held in memory."""
    placed = [message for _, message in zip(range(count), outline(), strict=False)]
    kept = {id(message) for message in thread(placed)}
    return bytearray(id(message) in kept for message in placed)
