"""Every single system call fails (disk full, I/O error, quota, signal) or does only half of its work."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cortext.errors import WriteFailed
from tests.store.crash import invariants
from tests.store.crash.actor import LAYOUTS, SCENARIOS, SESSION, Actor, Event, Ledger, files_of, make_message
from tests.store.crash.faults import Counting, FailAt, ShortWrites, installed
from tests.store.crash.steps import STEPS, TORN, Prepared, Step, fail

CODES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR)
EVERY = [(step, layout) for step in STEPS for layout in step.layouts]
NAMES = [f"{layout}-{step.name}" for step, layout in EVERY]


@pytest.mark.req("STORE-07", "STORE-03")
@pytest.mark.parametrize(("step", "layout"), EVERY, ids=NAMES)
def test_a_failed_call_is_reported_and_a_retry_succeeds(step: Step, layout: str, tmp_path: Path) -> None:
    """Fail every call that changes something, and some others, with one error each; the long run tries them all."""
    prepared = Prepared(step, layout, str(tmp_path / "case"))
    calls = prepared.calls()
    chosen = [n for n, harmless in enumerate(calls.harmless(), 1) if not harmless or n % 7 == 0]
    refused = [
        fail(prepared, FailAt(n, CODES[n % 4], partly=n % 2 == 0), thorough=index % 5 == 0)
        for index, n in enumerate(chosen)
    ]
    # A failed flush is always reported; only a failed write of the lock holder's name may be ignored.
    assert refused.count("fsync") == calls.names.count("fsync") > 0


@pytest.mark.req("STORE-07", "STORE-06")
@pytest.mark.parametrize(("step", "layout"), EVERY, ids=NAMES)
def test_a_failed_rollback_leaves_at_most_a_torn_end(step: Step, layout: str, tmp_path: Path) -> None:
    prepared = Prepared(step, layout, str(tmp_path / "case"))
    names = prepared.calls().names
    then = frozenset({"ftruncate", "unlink"})
    chosen = [n for n, name in enumerate(names, 1) if name in ("write", "fsync", "rename")]
    refused = [
        fail(prepared, FailAt(n, errno.EIO, partly=True, then=then), thorough=index % 3 == 0)
        for index, n in enumerate(chosen)
    ]
    assert refused.count("fsync") == names.count("fsync") and refused.count("rename") == names.count("rename")


def _with_two_messages(layout: str, root: Path, events: list[Event]) -> Actor:
    actor = Actor(layout, str(root), events.append)
    actor.create()
    actor.append("a-0", "a-1")
    return actor


@pytest.mark.req("STORE-07")
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_failed_append_is_rolled_back_and_the_writer_can_continue(
    layout: str, call: str, code: int, tmp_path: Path
) -> None:
    with installed(Counting()):
        store = _with_two_messages(layout, tmp_path, []).store
        log = files_of(store).log
        with store.open(SESSION) as writer:
            writer.append(make_message("b-0"))
            good = invariants.contents(log)
            faults = FailAt(1 if call == "write" else 2, code, partly=True)
            with installed(faults), pytest.raises(WriteFailed) as refused:
                writer.append(make_message("b-1", 9000))
            assert faults.failed == [call]
            assert refused.value.kept and refused.value.hint
            assert invariants.contents(log) == good
            # After a failed flush the log is truncated to its old end, and only then flushed again.
            assert [name for name, _ in faults.order][-2:] == ["ftruncate", "fsync"]
            [retried] = writer.append(make_message("b-1", 9000))
            assert invariants.contents(log).startswith(good)
        assert invariants.plain(store.read(SESSION))[-1] == retried
        assert [message.seq for message in store.read(SESSION)] == [0, 1, 2, 3]


@pytest.mark.req("STORE-07", "STORE-06")
@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_recovers_from_a_failed_rollback_when_the_disk_works_again(
    layout: str, call: str, tmp_path: Path
) -> None:
    with installed(Counting()):
        store = _with_two_messages(layout, tmp_path, []).store
        with store.open(SESSION) as writer:
            writer.append(make_message("b-0"))
            faults = FailAt(1 if call == "write" else 2, errno.EIO, partly=True, then=frozenset({"ftruncate", "fsync"}))
            with installed(faults):
                for _ in range(3):  # the error must persist as long as the disk does not work
                    with pytest.raises(WriteFailed):
                        writer.append(make_message("b-1"))
            [retried] = writer.append(make_message("b-1"))
        names = [message.content for message in store.read(SESSION)]
        assert names.count(make_message("b-1").content) == 1, "refused three times, but not stored once"
        assert invariants.plain(store.read(SESSION))[-1] == retried
        assert store.check(SESSION) == []


@pytest.mark.req("STORE-07", "STORE-08")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_that_failed_to_find_the_end_of_the_log_finds_it_later(layout: str, tmp_path: Path) -> None:
    """Another program wrote to the log, and finding its new end fails once at every call. Numbering must continue."""
    with installed(Counting()):
        actor = _with_two_messages(layout, tmp_path, [])
        with actor.store.open(SESSION) as writer:
            for number in range(1, 50):
                before = len(list(actor.store.read(SESSION)))
                actor.tear(b"no json\n" + TORN)
                faults = FailAt(number, errno.EIO)
                try:
                    with installed(faults):
                        [added] = writer.append(make_message(f"b-{number}"))
                except WriteFailed:
                    [added] = writer.append(make_message(f"b-{number}"))
                assert added.seq == before, f"after call {number} failed"
                if not faults.failed:
                    break
        assert number > 8 and not faults.failed
        assert [message.seq for message in actor.store.read(SESSION)] == list(range(2 + number))


@pytest.mark.req("STORE-07", "STORE-03")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_short_writes_are_completed(layout: str, scenario: str, tmp_path: Path) -> None:
    events: list[Event] = []
    with installed(ShortWrites(1)) as calls:
        SCENARIOS[scenario](Actor(layout, str(tmp_path), events.append))
    assert calls.names.count("write") > 100
    with installed(Counting()):
        invariants.check(layout, str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-07")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_disk_that_fills_up_during_a_write_is_reported(layout: str, tmp_path: Path) -> None:
    events: list[Event] = []
    with installed(Counting()):
        actor = _with_two_messages(layout, tmp_path, events)
        good = invariants.contents(files_of(actor.store).log)
        for writes in range(1, 8):
            with installed(ShortWrites(1, end=writes)), pytest.raises(WriteFailed, match="No space left"):
                actor.append("b-0", size=9000)
            assert invariants.contents(files_of(actor.store).log) == good
        actor.append("b-0", size=9000)
        invariants.check(layout, str(tmp_path), Ledger(events[:3] + events[-2:]))
