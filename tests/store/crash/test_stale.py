"""Stale state: another process wrote, moved or replaced the files since this one last read them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cortext.errors import SessionExists
from cortext.model.session import Change
from tests.store.crash import invariants
from tests.store.crash.actor import (
    COMPACTING,
    LAYOUTS,
    SESSION,
    Actor,
    Event,
    Ledger,
    checked_name,
    files_of,
    make_message,
)
from tests.store.crash.faults import Counting, installed
from tests.store.crash.invariants import contents, plain


def two_actors(layout: str, root: Path, count: int, size: int = 60) -> tuple[Actor, Actor, list[Event]]:
    """Return two actors, as two processes, on a session that the first one wrote, and their events."""
    events: list[Event] = []
    first, second = (Actor(layout, str(root), events.append) for _ in range(2))
    first.create()
    for number in range(count):
        first.append(f"a-{number}", size=size)
    return first, second, events


@pytest.mark.req("STORE-03", "STORE-08")
@pytest.mark.parametrize("layout", COMPACTING)
def test_numbering_continues_after_another_process_archived_everything(layout: str, tmp_path: Path) -> None:
    first, second, events = two_actors(layout, tmp_path, 5)
    second.compact(5)
    assert contents(files_of(first.store).log) == b""
    first.append("b-0")
    assert [message.seq for message in first.store.read(SESSION)] == [0, 1, 2, 3, 4, 5]
    invariants.check(layout, str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-01", "STORE-03")
@pytest.mark.parametrize("layout", COMPACTING)
def test_a_new_file_with_a_reused_inode_is_recognised_as_new(layout: str, tmp_path: Path) -> None:
    first, second, events = two_actors(layout, tmp_path, 8)
    written = 0
    for rounds in range(1, 8):  # after a few compactions ext4 reuses an inode that the log had before
        for _ in range(rounds):
            second.append(f"b-{written}")
            second.compact(5 + written + rounds)
            written += 1
        first.append(f"c-{rounds}")
        invariants.check_indexes(first.store)
    invariants.check(layout, str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-03")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_append_goes_to_the_file_that_replaced_one_of_the_same_size(layout: str, tmp_path: Path) -> None:
    first, second, _ = two_actors(layout, tmp_path, 3)
    log = files_of(first.store).log
    before = os.stat(log).st_size
    with first.store.open(SESSION) as writer:
        writer.append(make_message("held-0"))
        unchanged = contents(log)
        os.rename(log, f"{log}.old")
        Path(log).write_bytes(unchanged)  # as git does on checkout
        [added] = writer.append(make_message("held-1"))
    assert os.stat(log).st_size > before
    assert contents(log).startswith(unchanged) and contents(log).count(b"\n") == unchanged.count(b"\n") + 1
    assert plain(second.store.read(SESSION))[-1] == added
    second.title("third")
    first.append("b-0")
    names = [checked_name(message) for message in second.store.read(SESSION)]
    assert names == ["a-0", "a-1", "a-2", "held-0", "held-1", "b-0"]


@pytest.mark.req("STORE-05")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_line_completed_during_a_check_is_not_damage(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the line was written when the log was read; when the lock is checked, the writer has finished."""
    first, second, _ = two_actors(layout, tmp_path, 2)
    log = files_of(first.store).log
    complete = contents(log)
    first.append("b-0", size=500)
    line = contents(log)[len(complete) :]
    Path(log).write_bytes(complete + line[:100])
    calls = []

    def is_held(files: object) -> bool:
        calls.append(files)
        Path(log).write_bytes(complete + line)
        return False

    monkeypatch.setattr(second.store, "is_held", is_held)
    assert second.store.check(SESSION) == [] and calls
    Path(log).write_bytes(complete + line[:100])
    calls.clear()
    session = second.store.get(SESSION)
    assert (session.damage, session.message_count) == (0, 3) and calls


@pytest.mark.req("STORE-05", "STORE-01")
@pytest.mark.parametrize("layout", COMPACTING)
def test_reading_during_a_compaction_yields_every_message_once(layout: str, tmp_path: Path) -> None:
    first, second, _ = two_actors(layout, tmp_path, 6)
    names = [f"a-{number}" for number in range(6)]
    not_started, started = first.store.read(SESSION), iter(first.store.read(SESSION))
    seen = [checked_name(next(started))]
    second.compact(4)
    assert [checked_name(message) for message in not_started] == names
    assert seen + [checked_name(message) for message in started] == names
    started = iter(first.store.read(SESSION))
    seen = [checked_name(next(started)) for _ in range(2)]
    second.compact(6)
    assert seen + [checked_name(message) for message in started] == names


@pytest.mark.req("STORE-05")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reading_from_a_number_works_after_the_file_was_replaced(layout: str, tmp_path: Path) -> None:
    """The file is long enough for a binary search; its beginning grows between the call and the iteration."""
    with installed(Counting()):
        first, second, _ = two_actors(layout, tmp_path, 30, size=60_000)
        reading = first.store.read(SESSION, 25)
        second.title("a much longer title than the one that was there before " * 20)
        assert [checked_name(message) for message in reading] == [f"a-{number}" for number in range(25, 30)]
        assert reading.damage == []


@pytest.mark.req("STORE-03", "STORE-06")
@pytest.mark.parametrize("first", invariants.FIRST)
@pytest.mark.parametrize("layout", COMPACTING)
def test_an_archive_with_a_hole_does_not_hide_messages_in_the_log(layout: str, first: str, tmp_path: Path) -> None:
    """The power was cut while a compaction wrote the archive: a block in its middle was lost."""
    actor, _, events = two_actors(layout, tmp_path, 6, size=300)
    files = files_of(actor.store)
    log = contents(files.log)
    actor.compact(4)
    lines = contents(files.archive).split(b"\n")
    lines[2] = b"\0" * len(lines[2])
    Path(files.archive).write_bytes(b"\n".join(lines))
    Path(files.log).write_bytes(log)
    actor.reopen()
    assert [message.seq for message in actor.store.read(SESSION)] == [0, 1, 2, 3, 4, 5]
    invariants.check(layout, str(tmp_path), Ledger(events), first)


@pytest.mark.req("STORE-03", "STORE-08")
@pytest.mark.parametrize("layout", COMPACTING)
def test_the_tail_keeps_its_numbers_after_an_interrupted_compaction(layout: str, tmp_path: Path) -> None:
    actor, _, events = two_actors(layout, tmp_path, 6)
    files = files_of(actor.store)
    log = contents(files.log)
    actor.compact(4)
    Path(files.log).write_bytes(log + b"\0" * 300)
    assert [message.seq for message in LAYOUTS[layout](str(tmp_path)).tail(SESSION, 3)] == [3, 4, 5]
    invariants.check(layout, str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-03", "STORE-06")
@pytest.mark.parametrize("layout", COMPACTING)
def test_messages_renumbered_by_another_program_do_not_hide_the_archive(layout: str, tmp_path: Path) -> None:
    first, _, _ = two_actors(layout, tmp_path, 4)
    first.compact(4)
    record = {"role": "user", "content": "from another program", "id": "foreign", "seq": 0}
    Path(files_of(first.store).log).write_text(json.dumps(record) + "\n", encoding="utf-8")
    first.reopen()
    contents_now = [message.content.partition("|")[0] for message in first.store.read(SESSION)]
    assert contents_now == ["a-0", "a-1", "a-2", "a-3", "from another program"]
    first.store.repair(SESSION)
    first.append("b-0")
    assert [message.seq for message in first.store.read(SESSION)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.req("STORE-06")
def test_a_restore_keeps_both_the_trashed_and_the_existing_quarantine(tmp_path: Path) -> None:
    """An interrupted deletion left a quarantine beside the session; the older one is restored from the trash."""
    first, _, events = two_actors("spawn", tmp_path, 2)
    quarantine = Path(f"{files_of(first.store).log}.quarantine")
    first.tear(b"torn-one")
    first.append("b-0")
    assert b"torn-one" in invariants.quarantined(files_of(first.store).log)
    first.delete()
    assert not quarantine.exists()
    quarantine.write_bytes(b'{"offset": 7, "sha256": "x", "base64": "dG9ybi10d28="}\n')
    first.restore()
    assert invariants.quarantined(files_of(first.store).log) == b"torn-twotorn-one"
    invariants.check("spawn", str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_restore_onto_an_existing_session_moves_nothing(layout: str, tmp_path: Path) -> None:
    first, second, _ = two_actors(layout, tmp_path, 2)
    first.tear(b"torn")
    first.append("b-0")
    first.delete()
    second.create()
    second.append("c-0")
    before = invariants.snapshot(str(tmp_path))
    with pytest.raises(SessionExists):
        first.restore()
    assert invariants.snapshot(str(tmp_path)) == before
    assert [checked_name(message) for message in first.store.read(SESSION)] == ["c-0"]


@pytest.mark.req("STORE-10")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_processes_can_change_different_fields(layout: str, tmp_path: Path) -> None:
    first, second, _ = two_actors(layout, tmp_path, 1)
    first.title("by the first")
    second.store.update(SESSION, Change(status="paused"))
    first.append("b-0")
    session = second.store.get(SESSION)
    assert (session.title, session.status, session.message_count) == ("by the first", "paused", 2)
