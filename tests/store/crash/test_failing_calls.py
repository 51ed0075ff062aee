"""The kernel refuses (disk full, I/O error, quota, a signal) or does half, at every single call."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cortext.errors import WriteFailed
from tests.store.crash import invariants
from tests.store.crash.faults import Counting, FailAt, ShortWrites, installed
from tests.store.crash.steps import STEPS, TORN, Prepared, Step, fail
from tests.store.crash.talk import LAYOUTS, SCENARIOS, SESSION, Actor, Event, Ledger, message_of, place_of

CODES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR)
EVERY = [(step, layout) for step in STEPS for layout in step.layouts]
NAMES = [f"{layout}-{step.name}" for step, layout in EVERY]


@pytest.mark.req("STORE-07", "STORE-03")
@pytest.mark.parametrize(("step", "layout"), EVERY, ids=NAMES)
def test_a_call_that_fails_is_told_and_the_next_try_works(step: Step, layout: str, tmp_path: Path) -> None:
    """Every call that changes something, with the errors in turn, and some of the others (the long run: all, all)."""
    prepared = Prepared(step, layout, str(tmp_path / "case"))
    calls = prepared.calls()
    tried = [n for n, harmless in enumerate(calls.harmless(), 1) if not harmless or n % 7 == 0]
    refused = [
        fail(prepared, FailAt(n, CODES[n % 4], partly=n % 2 == 0), thorough=place % 5 == 0)
        for place, n in enumerate(tried)
    ]
    # A flush that fails is always told; what may go unheard is a note on who holds the lock.
    assert refused.count("fsync") == calls.names.count("fsync") > 0


@pytest.mark.req("STORE-07", "STORE-06")
@pytest.mark.parametrize(("step", "layout"), EVERY, ids=NAMES)
def test_a_rollback_that_fails_too_leaves_at_most_a_torn_end(step: Step, layout: str, tmp_path: Path) -> None:
    prepared = Prepared(step, layout, str(tmp_path / "case"))
    names = prepared.calls().names
    then = frozenset({"ftruncate", "unlink"})
    tried = [n for n, name in enumerate(names, 1) if name in ("write", "fsync", "rename")]
    refused = [
        fail(prepared, FailAt(n, errno.EIO, partly=True, then=then), thorough=place % 3 == 0)
        for place, n in enumerate(tried)
    ]
    assert refused.count("fsync") == names.count("fsync") and refused.count("rename") == names.count("rename")


def _held(layout: str, root: Path, events: list[Event]) -> Actor:
    actor = Actor(layout, str(root), events.append)
    actor.create()
    actor.append("a-0", "a-1")
    return actor


@pytest.mark.req("STORE-07")
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_that_is_refused_goes_back_to_its_last_good_end_and_goes_on(
    layout: str, call: str, code: int, tmp_path: Path
) -> None:
    with installed(Counting()):
        store = _held(layout, tmp_path, []).store
        log = place_of(store).log
        with store.open(SESSION) as writer:
            writer.append(message_of("b-0"))
            good = invariants.contents(log)
            faults = FailAt(1 if call == "write" else 2, code, partly=True)
            with installed(faults), pytest.raises(WriteFailed) as refused:
                writer.append(message_of("b-1", 9000))
            assert faults.failed == [call]
            assert refused.value.kept and refused.value.hint
            assert invariants.contents(log) == good
            # After the flush that failed: back to the old end, and only then another flush.
            assert [name for name, _ in faults.order][-2:] == ["ftruncate", "fsync"]
            [again] = writer.append(message_of("b-1", 9000))
            assert invariants.contents(log).startswith(good)
        assert invariants.plain(store.read(SESSION))[-1] == again
        assert [message.seq for message in store.read(SESSION)] == [0, 1, 2, 3]


@pytest.mark.req("STORE-07", "STORE-06")
@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_whose_rollback_failed_goes_on_when_the_disk_is_well_again(
    layout: str, call: str, tmp_path: Path
) -> None:
    with installed(Counting()):
        store = _held(layout, tmp_path, []).store
        with store.open(SESSION) as writer:
            writer.append(message_of("b-0"))
            faults = FailAt(1 if call == "write" else 2, errno.EIO, partly=True, then=frozenset({"ftruncate", "fsync"}))
            with installed(faults):
                for _ in range(3):  # no later success may hide it, as long as the disk does not work
                    with pytest.raises(WriteFailed):
                        writer.append(message_of("b-1"))
            [again] = writer.append(message_of("b-1"))
        names = [message.content for message in store.read(SESSION)]
        assert names.count(message_of("b-1").content) == 1, "refused three times, stored once"
        assert invariants.plain(store.read(SESSION))[-1] == again
        assert store.check(SESSION) == []


@pytest.mark.req("STORE-07", "STORE-08")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_that_could_not_look_where_the_log_ends_now_looks_again(layout: str, tmp_path: Path) -> None:
    """Another program wrote to the log; finding its new end fails, at every call once. The numbers go on."""
    with installed(Counting()):
        actor = _held(layout, tmp_path, [])
        with actor.store.open(SESSION) as writer:
            for number in range(1, 50):
                before = len(list(actor.store.read(SESSION)))
                actor.tear(b"no json\n" + TORN)
                faults = FailAt(number, errno.EIO)
                try:
                    with installed(faults):
                        [added] = writer.append(message_of(f"b-{number}"))
                except WriteFailed:
                    [added] = writer.append(message_of(f"b-{number}"))
                assert added.seq == before, f"after call {number} failed"
                if not faults.failed:
                    break
        assert number > 8 and not faults.failed
        assert [message.seq for message in actor.store.read(SESSION)] == list(range(2 + number))


@pytest.mark.req("STORE-07", "STORE-03")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_short_writes_are_finished(layout: str, scenario: str, tmp_path: Path) -> None:
    events: list[Event] = []
    with installed(ShortWrites(1)) as calls:
        SCENARIOS[scenario](Actor(layout, str(tmp_path), events.append))
    assert calls.names.count("write") > 100
    with installed(Counting()):
        invariants.check(layout, str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-07")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_disk_that_fills_up_after_a_few_bytes_more_is_told(layout: str, tmp_path: Path) -> None:
    events: list[Event] = []
    with installed(Counting()):
        actor = _held(layout, tmp_path, events)
        good = invariants.contents(place_of(actor.store).log)
        for taken in range(1, 8):
            with installed(ShortWrites(1, end=taken)), pytest.raises(WriteFailed, match="No space left"):
                actor.append("b-0", size=9000)
            assert invariants.contents(place_of(actor.store).log) == good
        actor.append("b-0", size=9000)
        invariants.check(layout, str(tmp_path), Ledger(events[:3] + events[-2:]))
