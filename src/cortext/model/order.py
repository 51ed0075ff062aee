"""Tags, star, notes and archive of a conversation, as events in its own metadata (`Session.extra["order"]`).

An event says what was set or removed, and when; the last one about a thing counts. So two machines that both changed
something merge by keeping the events of both, in any order, and nothing conflicts. An event that a later one replaced
says nothing any more and is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cortext.errors import UsageError
from cortext.model import clock
from cortext.model.ids import new_message_id

ORDER = "order"  # key of `Session.extra`
TAG, STAR, ARCHIVE, NOTE = "tag", "star", "archive", "note"

Event = dict[str, Any]

_TAG = re.compile(r"[^\W_][\w.+/#@-]{0,49}")
LONGEST_NOTE = 2_000


class Note(NamedTuple):
    """A note on a conversation; `id` names it for removal."""

    id: str
    at: str
    text: str


class Order(NamedTuple):
    """What the events of a conversation amount to."""

    tags: tuple[str, ...] = ()
    starred: bool = False
    archived: bool = False
    notes: tuple[Note, ...] = ()


def tag_name(text: str) -> str:
    """Return a tag in its one spelling: lower case, without a leading #. UsageError if it cannot be one."""
    name = text.strip().removeprefix("#").lower()
    if not _TAG.fullmatch(name):
        raise UsageError(
            f"invalid tag {text[:60]!r}",
            kept="nothing was changed",
            hint="use up to 50 letters, digits and . + / # @ - _, without blanks, starting with a letter or digit",
        )
    return name


def order_of(extra: Mapping[str, Any]) -> Order:
    """Return the tags, star, notes and archive of a session with this `extra`."""
    found = [event for event in _latest(_events(extra.get(ORDER))).values() if event.get("on") is True]
    tags = sorted(event["value"] for event in found if event["what"] == TAG)
    notes = [Note(event["id"], event["at"], event["value"]) for event in found if event["what"] == NOTE]
    kinds = {event["what"] for event in found}
    return Order(
        tuple(tags), STAR in kinds, ARCHIVE in kinds, tuple(sorted(notes, key=lambda note: (note.at, note.id)))
    )


def event(extra: Mapping[str, Any], what: str, value: str = "", *, on: bool = True) -> Event:
    """Return the event that sets something (or removes it) in a session with this `extra`.

    `value` is the tag, or the text of a note; to remove a note, its id. The event is later than all that are known
    about the same thing: the clock of another machine may be ahead.
    """
    name = new_message_id()
    made = {"id": name, "at": clock.now(), "what": what, "on": on}
    if what == NOTE and not on:
        made["of"] = value
    elif value:
        made["value"] = value
    before = _latest(_events(extra.get(ORDER))).get(_key(made))
    if before is not None and before["at"] >= made["at"]:
        made["at"] = clock.from_epoch((clock.to_epoch(before["at"]) or 0) + 0.001)
    return made


def merged(*sides: object) -> list[Event]:
    """Return the events of all sides in the order of time, without those that a later one replaced."""
    return sorted(_latest([found for side in sides for found in _events(side)]).values(), key=_time)


def _events(value: object) -> list[Event]:
    """Return the events in a list that another program may have edited; whatever is not one is left out."""
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict) and _is_event(item)]


def _is_event(item: Event) -> bool:
    texts = all(isinstance(item.get(name), str) for name in ("id", "at", "what"))
    what = item.get("what")
    needs = "of" if what == NOTE and item.get("on") is not True else "value" if what in (TAG, NOTE) else "id"
    if not texts or not isinstance(item.get(needs), str) or not clock.normalise(item["at"]):
        return False
    # Nothing could remove a tag that cannot be written.
    return what != TAG or (item["value"] == item["value"].lower() and _TAG.fullmatch(item["value"]) is not None)


def _latest(events: Iterable[Event]) -> dict[tuple[str, str], Event]:
    """Return the last event about each thing; of two versions of one event (a masked note), the second."""
    latest: dict[tuple[str, str], Event] = {}
    for found in events:
        key = _key(found)
        if key not in latest or _time(found) >= _time(latest[key]):
            latest[key] = found
    return latest


def _key(found: Event) -> tuple[str, str]:
    """Return what an event is about: one tag, one note, the star."""
    if found["what"] == NOTE:
        return NOTE, found.get("of") or found["id"]
    return found["what"], found.get("value", "") if found["what"] == TAG else ""


def _time(found: Event) -> tuple[str, str]:
    return clock.normalise(found["at"]), found["id"]
