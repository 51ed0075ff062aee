"""The life cycle of a session: the whole transition table, and the derived statuses."""

from __future__ import annotations

from itertools import product

import pytest

from cortext.errors import TransitionRefused, UsageError
from cortext.model.session import (
    ACTIVE,
    COMPLETED,
    IDLE,
    INTERRUPTED,
    PAUSED,
    STATUSES,
    Change,
    Session,
    check_transition,
)
from cortext.testing.table import every_row

ALLOWED = {
    (ACTIVE, PAUSED),
    (ACTIVE, COMPLETED),
    (ACTIVE, INTERRUPTED),
    (PAUSED, ACTIVE),
    (PAUSED, COMPLETED),
    (INTERRUPTED, ACTIVE),
    (INTERRUPTED, PAUSED),
    (INTERRUPTED, COMPLETED),
    (ACTIVE, IDLE),
    (IDLE, ACTIVE),
    (IDLE, PAUSED),
    (IDLE, COMPLETED),
    (IDLE, INTERRUPTED),
}


@pytest.mark.req("STORE-02")
@every_row("force", [False, True])
@every_row(("old", "new"), list(product(STATUSES, STATUSES)))
def test_only_the_listed_transitions_are_allowed(old: str, new: str, force: bool) -> None:
    if old == new or (old, new) in ALLOWED or (force and (old, new) == (COMPLETED, ACTIVE)):
        check_transition(old, new, force=force)
        assert Change(status=new, force=force).apply(Session(id="a", status=old)).status == new
        return
    with pytest.raises(TransitionRefused) as caught:
        check_transition(old, new, force=force)
    assert caught.value.kept and caught.value.hint


@pytest.mark.req("STORE-02")
def test_refusing_to_reopen_a_completed_session_mentions_force() -> None:
    with pytest.raises(TransitionRefused) as caught:
        check_transition(COMPLETED, ACTIVE)
    assert "--force" in caught.value.hint


@pytest.mark.req("STORE-02")
@pytest.mark.parametrize("word", ["", "Idle", "Active", "active ", "\x1b[31m", "x" * 1000])
def test_an_unknown_status_is_refused_and_the_valid_ones_are_named(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_transition(ACTIVE, word, force=True)
    assert all(status in caught.value.hint for status in STATUSES)
    assert caught.value.message.isprintable() and len(caught.value.message) < 80


@pytest.mark.req("STORE-02")
@pytest.mark.parametrize("new", STATUSES)
def test_a_status_of_another_program_can_always_be_left(new: str) -> None:
    check_transition("archived", new)
    assert Change(status=new).apply(Session(id="a", status="archived")).status == new


@pytest.mark.req("STORE-02")
@every_row(
    ("stored", "leased", "seen"),
    [
        (ACTIVE, None, ACTIVE),
        (ACTIVE, True, ACTIVE),
        (ACTIVE, False, INTERRUPTED),
        (PAUSED, False, PAUSED),
        (COMPLETED, False, COMPLETED),
        (IDLE, False, IDLE),
        (INTERRUPTED, True, INTERRUPTED),
        ("archived", False, "archived"),
    ],
)
def test_the_shown_status_is_derived(stored: str, leased: bool | None, seen: str) -> None:
    assert Session(id="a", status=stored, leased=leased).shown_status == seen


@pytest.mark.req("STORE-02")
def test_a_session_whose_holder_died_is_shown_as_interrupted() -> None:
    session = Session(id="a", leased=False)
    assert (session.shown_status, session.status) == (INTERRUPTED, ACTIVE)
    assert Session(id="a", leased=True).shown_status == Session(id="a").shown_status == ACTIVE


@pytest.mark.req("STORE-02")
def test_a_change_affects_only_the_fields_it_sets() -> None:
    before = Session(id="a", title="old", agent="qa", extra={"kept": 1})
    after = Change(title="", extra={"new": 2}).apply(before)
    assert (after.title, after.agent, after.extra) == ("", "qa", {"kept": 1, "new": 2})
    assert (before.title, before.extra) == ("old", {"kept": 1})
    assert Change().apply(before) == before
