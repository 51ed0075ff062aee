"""Tags, star, notes and archive as events: the last one counts, on whichever side of a merge it was made."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from cortext.errors import UsageError
from cortext.model.order import ARCHIVE, NOTE, ORDER, STAR, TAG, Event, event, merged, order_of, tag_name
from cortext.model.session import Change, Session
from cortext.store.files.merge import merge_fields


def _at(time: str, what: str, value: str = "", *, on: bool = True, name: str = "") -> Event:
    fields: Event = {"id": name or f"{time}{what}{value}", "at": f"2026-11-02T10:{time}.000Z", "what": what, "on": on}
    return fields | ({"of" if what == NOTE and not on else "value": value} if value else {})


EVENTS = [
    _at("00:00", TAG, "billing"),
    _at("00:01", TAG, "billing", on=False),
    _at("00:02", TAG, "later"),
    _at("00:03", STAR),
    _at("00:04", NOTE, "ask legal", name="n1"),
    _at("00:05", NOTE, "n1", on=False),
    _at("00:06", NOTE, "legal said yes", name="n2"),
    _at("00:07", ARCHIVE),
    _at("00:08", ARCHIVE, on=False),
]


@pytest.mark.req("ORDER-01")
def test_the_order_in_which_events_are_merged_does_not_matter() -> None:
    wanted = merged(EVENTS)
    for cut in range(len(EVENTS) + 1):
        for one, other in itertools.permutations((EVENTS[:cut], EVENTS[cut:])):
            assert merged(one, other) == merged(other, one, one) == wanted
    order = order_of({ORDER: EVENTS[::-1]})
    assert (order.tags, order.starred, order.archived) == (("later",), True, False)
    assert [note.text for note in order.notes] == ["legal said yes"]


@pytest.mark.req("ORDER-01")
def test_both_sides_of_a_git_merge_keep_their_events() -> None:
    base = {"title": "x", "last_active": "2026-11-02T09:00:00Z", ORDER: [EVENTS[0]]}
    ours = {**base, ORDER: [EVENTS[1], EVENTS[3]]}
    theirs = {**base, "last_active": "2026-11-03T09:00:00Z", ORDER: [EVENTS[0], EVENTS[2]]}
    for one, other in ((ours, theirs), (theirs, ours)):
        order = order_of(merge_fields(base, one, other))
        assert (order.tags, order.starred) == (("later",), True), "a removed tag stays removed"
    assert order_of(merge_fields({}, ours, {"title": "x"})).starred


def test_a_tag_of_another_program_that_could_not_be_removed_is_left_out() -> None:
    odd = [_at("00:00", TAG, name) for name in ("a b", "Upper", "[masked token]", "", "x" * 60, "fine")]
    assert order_of({ORDER: odd}).tags == ("fine",)


def test_a_change_adds_events_to_those_that_exist() -> None:
    session = Session(id="a", extra={ORDER: [EVENTS[2]], "other": 1})
    changed = Change(extra={ORDER: [EVENTS[3]]}).apply(session)
    assert order_of(changed.extra).tags == ("later",) and order_of(changed.extra).starred
    assert changed.extra["other"] == 1 and session.extra[ORDER] == [EVENTS[2]]


def test_an_event_is_later_than_what_a_clock_ahead_of_ours_recorded() -> None:
    ahead = {"id": "x", "at": "2999-01-01T00:00:00.000Z", "what": STAR, "on": True}
    removed = event({ORDER: [ahead]}, STAR, on=False)
    assert not order_of({ORDER: merged([ahead], [removed])}).starred


@pytest.mark.parametrize(
    "junk",
    [None, 3, "x", [3], [{}], [{"id": "a", "at": "soon", "what": TAG, "value": "x", "on": True}], [{"what": TAG}]],
)
def test_whatever_another_program_wrote_there_is_ignored(junk: Any) -> None:
    assert order_of({ORDER: junk}) == order_of({})
    assert order_of({ORDER: merged(junk, [EVENTS[3]])}).starred


def test_a_tag_has_one_spelling() -> None:
    assert {tag_name(text) for text in ("Billing", "#billing", " billing ")} == {"billing"}
    assert tag_name("größe") == "größe" and tag_name("area/api.v2") == "area/api.v2"
    for text in ("", "a b", "-x", "a,b", "x" * 51, "#", "a\nb", "a\u202eb"):
        with pytest.raises(UsageError, match="invalid tag"):
            tag_name(text)
