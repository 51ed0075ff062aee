"""What a process remembers, or just read, is stale: another one wrote, moved, replaced or died meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cortext.errors import SessionExists
from cortext.model.session import Change
from tests.store.crash import invariants
from tests.store.crash.faults import Counting, installed
from tests.store.crash.invariants import contents, plain
from tests.store.crash.talk import COMPACTING, LAYOUTS, SESSION, Actor, Event, Ledger, message_of, name_of, place_of


def two(layout: str, root: Path, count: int, size: int = 60) -> tuple[Actor, Actor, list[Event]]:
    """Two processes and a session that the first of them wrote."""
    events: list[Event] = []
    first, second = (Actor(layout, str(root), events.append) for _ in range(2))
    first.create()
    for number in range(count):
        first.append(f"a-{number}", size=size)
    return first, second, events


@pytest.mark.req("STORE-03", "STORE-08")
@pytest.mark.parametrize("layout", COMPACTING)
def test_numbers_go_on_after_another_process_moved_everything_into_the_archive(layout: str, tmp_path: Path) -> None:
    first, second, events = two(layout, tmp_path, 5)
    second.compact(5)
    assert contents(place_of(first.store).log) == b""
    first.append("b-0")
    assert [message.seq for message in first.store.read(SESSION)] == [0, 1, 2, 3, 4, 5]
    invariants.check(layout, str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-01", "STORE-03")
@pytest.mark.parametrize("layout", COMPACTING)
def test_a_new_file_with_the_inode_of_an_old_one_is_not_taken_for_it(layout: str, tmp_path: Path) -> None:
    first, second, events = two(layout, tmp_path, 8)
    written = 0
    for rounds in range(1, 8):  # after so many compactions ext4 gives the log an inode that it had before
        for _ in range(rounds):
            second.append(f"b-{written}")
            second.compact(5 + written + rounds)
            written += 1
        first.append(f"c-{rounds}")
        invariants.check_indexes(first.store)
    invariants.check(layout, str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-03")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_append_after_another_process_replaced_the_file_by_one_of_the_same_size(layout: str, tmp_path: Path) -> None:
    first, second, _ = two(layout, tmp_path, 3)
    log = place_of(first.store).log
    before = os.stat(log).st_size
    with first.store.open(SESSION) as writer:
        writer.append(message_of("held-0"))
        same = contents(log)
        os.rename(log, f"{log}.old")
        Path(log).write_bytes(same)  # as git does on a checkout
        [added] = writer.append(message_of("held-1"))
    assert os.stat(log).st_size > before
    assert contents(log).startswith(same) and contents(log).count(b"\n") == same.count(b"\n") + 1
    assert plain(second.store.read(SESSION))[-1] == added
    second.title("third")
    first.append("b-0")
    names = [name_of(message) for message in second.store.read(SESSION)]
    assert names == ["a-0", "a-1", "a-2", "held-0", "held-1", "b-0"]


@pytest.mark.req("STORE-05")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_line_that_is_finished_while_somebody_looks_is_no_damage(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it was there when the log was read; when we ask who holds the lock, the writer is done and gone."""
    first, second, _ = two(layout, tmp_path, 2)
    log = place_of(first.store).log
    whole = contents(log)
    first.append("b-0", size=500)
    line = contents(log)[len(whole) :]
    Path(log).write_bytes(whole + line[:100])
    asked = []

    def held(place: object) -> bool:
        asked.append(place)
        Path(log).write_bytes(whole + line)
        return False

    monkeypatch.setattr(second.store, "is_held", held)
    assert second.store.check(SESSION) == [] and asked
    Path(log).write_bytes(whole + line[:100])
    asked.clear()
    session = second.store.get(SESSION)
    assert (session.damage, session.message_count) == (0, 3) and asked


@pytest.mark.req("STORE-05", "STORE-01")
@pytest.mark.parametrize("layout", COMPACTING)
def test_a_reading_across_a_compaction_gives_every_message_once(layout: str, tmp_path: Path) -> None:
    first, second, _ = two(layout, tmp_path, 6)
    names = [f"a-{number}" for number in range(6)]
    asked, begun = first.store.read(SESSION), iter(first.store.read(SESSION))
    seen = [name_of(next(begun))]
    second.compact(4)
    assert [name_of(message) for message in asked] == names
    assert seen + [name_of(message) for message in begun] == names
    begun = iter(first.store.read(SESSION))
    seen = [name_of(next(begun)) for _ in range(2)]
    second.compact(6)
    assert seen + [name_of(message) for message in begun] == names


@pytest.mark.req("STORE-05")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reading_from_a_number_finds_its_place_in_the_file_that_is_there_then(layout: str, tmp_path: Path) -> None:
    """The file is long enough to be searched; between the question and the answer its beginning grows."""
    with installed(Counting()):
        first, second, _ = two(layout, tmp_path, 30, size=60_000)
        asked = first.store.read(SESSION, 25)
        second.title("a much longer title than the one that was there before " * 20)
        assert [name_of(message) for message in asked] == [f"a-{number}" for number in range(25, 30)]
        assert asked.damage == []


@pytest.mark.req("STORE-03", "STORE-06")
@pytest.mark.parametrize("first", invariants.FIRST)
@pytest.mark.parametrize("layout", COMPACTING)
def test_an_archive_with_a_hole_does_not_hide_what_the_log_still_has(layout: str, first: str, tmp_path: Path) -> None:
    """The power went while a compaction wrote the archive: a block in its middle never arrived."""
    actor, _, events = two(layout, tmp_path, 6, size=300)
    place = place_of(actor.store)
    log = contents(place.log)
    actor.compact(4)
    lines = contents(place.archive).split(b"\n")
    lines[2] = b"\0" * len(lines[2])
    Path(place.archive).write_bytes(b"\n".join(lines))
    Path(place.log).write_bytes(log)
    actor.reopen()
    assert [message.seq for message in actor.store.read(SESSION)] == [0, 1, 2, 3, 4, 5]
    invariants.check(layout, str(tmp_path), Ledger(events), first)


@pytest.mark.req("STORE-03", "STORE-08")
@pytest.mark.parametrize("layout", COMPACTING)
def test_the_tail_keeps_its_numbers_after_an_interrupted_compaction_and_a_torn_line(
    layout: str, tmp_path: Path
) -> None:
    actor, _, events = two(layout, tmp_path, 6)
    place = place_of(actor.store)
    log = contents(place.log)
    actor.compact(4)
    Path(place.log).write_bytes(log + b"\0" * 300)
    assert [message.seq for message in LAYOUTS[layout](str(tmp_path)).tail(SESSION, 3)] == [3, 4, 5]
    invariants.check(layout, str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-03", "STORE-06")
@pytest.mark.parametrize("layout", COMPACTING)
def test_messages_that_another_program_numbered_anew_hide_nothing_of_the_archive(layout: str, tmp_path: Path) -> None:
    first, _, _ = two(layout, tmp_path, 4)
    first.compact(4)
    record = {"role": "user", "content": "from another program", "id": "foreign", "seq": 0}
    Path(place_of(first.store).log).write_text(json.dumps(record) + "\n", encoding="utf-8")
    first.reopen()
    contents_now = [message.content.partition("|")[0] for message in first.store.read(SESSION)]
    assert contents_now == ["a-0", "a-1", "a-2", "a-3", "from another program"]
    first.store.repair(SESSION)
    first.append("b-0")
    assert [message.seq for message in first.store.read(SESSION)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.req("STORE-06")
def test_a_restore_keeps_the_quarantine_that_it_brings_and_the_one_that_it_finds(tmp_path: Path) -> None:
    """An interrupted deletion left a quarantine where the session was; the older one comes back from the trash."""
    first, _, events = two("spawn", tmp_path, 2)
    quarantine = Path(f"{place_of(first.store).log}.quarantine")
    first.tear(b"torn-one")
    first.append("b-0")
    assert b"torn-one" in invariants.quarantined(place_of(first.store).log)
    first.delete()
    assert not quarantine.exists()
    quarantine.write_bytes(b'{"offset": 7, "sha256": "x", "base64": "dG9ybi10d28="}\n')
    first.restore()
    assert invariants.quarantined(place_of(first.store).log) == b"torn-twotorn-one"
    invariants.check("spawn", str(tmp_path), Ledger(events))


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_restore_onto_a_session_of_that_name_moves_nothing(layout: str, tmp_path: Path) -> None:
    first, second, _ = two(layout, tmp_path, 2)
    first.tear(b"torn")
    first.append("b-0")
    first.delete()
    second.create()
    second.append("c-0")
    before = invariants.snapshot(str(tmp_path))
    with pytest.raises(SessionExists):
        first.restore()
    assert invariants.snapshot(str(tmp_path)) == before
    assert [name_of(message) for message in first.store.read(SESSION)] == ["c-0"]


@pytest.mark.req("STORE-10")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_processes_change_different_fields_and_both_stay(layout: str, tmp_path: Path) -> None:
    first, second, _ = two(layout, tmp_path, 1)
    first.title("by the first")
    second.store.update(SESSION, Change(status="paused"))
    first.append("b-0")
    session = second.store.get(SESSION)
    assert (session.title, session.status, session.message_count) == ("by the first", "paused", 2)
