"""Many processes on one session: 8 writers and 2 readers, and writers without a lock as the negative control."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cortext.errors import SessionBusy
from tests.store.crash import invariants
from tests.store.crash.actor import LAYOUTS, SESSION, checked_name, files_of, make_message, new_session
from tests.store.crash.faults import Counting, half_of, installed

ROOT = Path(__file__).parents[3]
WRITERS = 8
EACH = 250


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start a process of `race` and wait until it is ready; kill it by its id at the end, whatever happens."""
    command = [sys.executable, "-m", "tests.store.crash.race", *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() in ("ready\n", "held\n")
            yield process
        finally:
            process.kill()


def send_line(process: subprocess.Popen[str]) -> None:
    """Send the line that the process waits for."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def race(kind: str, layout: str, root: str, count: int, *, readers: int = 0) -> list[dict[str, list[int]]]:
    """Start all writers at once and wait for them; return what the readers saw meanwhile."""
    with ExitStack() as stack:
        writers = [stack.enter_context(started(kind, layout, root, f"w{n}", count)) for n in range(WRITERS)]
        watching = [stack.enter_context(started("read", layout, root)) for _ in range(readers)]
        for process in (*watching, *writers):
            send_line(process)
        for process in writers:
            assert process.wait() == 0
        reports = []
        for process in watching:
            send_line(process)
            assert process.stdout is not None
            reports.append(json.loads(process.stdout.readline()))
        return reports


def check_race(layout: str, root: str, count: int) -> None:
    """Check that nothing is lost, duplicated or interleaved, and that each writer's messages are in its order."""
    store = LAYOUTS[layout](root)
    messages = invariants.plain(store.read(SESSION))
    by_writer: dict[str, list[int]] = defaultdict(list)
    for message in messages:
        writer, _, number = checked_name(message).rpartition("-")
        by_writer[writer].append(int(number))
    assert dict(by_writer) == {f"w{n}": list(range(count)) for n in range(WRITERS)}
    assert [message.seq for message in messages] == list(range(WRITERS * count))
    assert len({message.id for message in messages}) == WRITERS * count
    assert store.check(SESSION) == []
    assert invariants.unreadable(store) == []


@pytest.mark.req("STORE-05", "STORE-03", "STORE-08")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_concurrent_writers_lose_nothing_and_readers_see_complete_messages(layout: str, tmp_path: Path) -> None:
    LAYOUTS[layout](str(tmp_path)).create(new_session())
    count = EACH if layout == "workspace" else EACH // 5
    reports = race("append", layout, str(tmp_path), count, readers=2)
    check_race(layout, str(tmp_path), count)
    for report in reports:
        # The readers really ran while the writers wrote: they saw several intermediate states.
        between = {seen for seen in report["seen"] if 0 < seen < WRITERS * count}
        assert len(between) >= 3, f"a reader saw only {report['seen']}"
        assert report["seen"] == sorted(report["seen"]), "a reader saw a message disappear"
        assert report["damage"] == [], "a line that is being written is not damage"


@pytest.mark.req("STORE-05")
def test_the_same_race_without_a_lock_fails_the_same_check(tmp_path: Path) -> None:
    """The negative control: if this check passed, the test above would prove nothing."""
    LAYOUTS["workspace"](str(tmp_path)).create(new_session())
    race("naive", "workspace", str(tmp_path), 60)
    with pytest.raises(AssertionError):
        check_race("workspace", str(tmp_path), 60)
    assert invariants.unreadable(LAYOUTS["workspace"](str(tmp_path))), "the lines must have been interleaved"


@pytest.mark.req("STORE-05")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reader_during_a_write_sees_what_was_acknowledged_and_no_damage(layout: str, tmp_path: Path) -> None:
    store = LAYOUTS[layout](str(tmp_path))
    store.create(new_session())
    before = invariants.plain(store.append(SESSION, make_message("a-0"), make_message("a-1")))
    observations: list[tuple[object, ...]] = []

    class Interrupted(Counting):
        """Writes half of the line, lets a reader look at the file, then writes the rest."""

        def act(self, number: int, name: str, args: tuple[object, ...]) -> object:
            if name != "write" or observations:
                return self.real(name, *args)
            half_of(name, args)
            with installed(Counting()):
                reader = LAYOUTS[layout](str(tmp_path))
                read = reader.read(SESSION)
                observations.append(
                    (invariants.plain(read), invariants.plain(reader.tail(SESSION, 2)), reader.check(SESSION))
                )
                observations.append((reader.get(SESSION).damage, [session.damage for session in reader.sessions()]))
            data = memoryview(args[1])  # type: ignore[arg-type]
            return len(data) // 2 + self.real(name, args[0], data[len(data) // 2 :])

    with installed(Interrupted()):
        [added] = store.append(SESSION, make_message("a-2", 5000))
    assert observations == [(before, before, []), (0, [0])]
    assert invariants.plain(store.read(SESSION)) == [*before, added]


@pytest.mark.req("STORE-05")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_waiting_for_a_held_session_times_out_and_names_its_holder(layout: str, tmp_path: Path) -> None:
    store = LAYOUTS[layout](str(tmp_path))
    store.create(new_session())
    with started("hold", layout, tmp_path) as holder:
        with pytest.raises(SessionBusy) as busy, store.open(SESSION, timeout=0.05):
            pytest.fail("two writers at once")
        message = f"{busy.value} {busy.value.hint}"
        assert f"process {holder.pid} on " in message and " since 20" in message and "0.05 s" in message
        # Readers do not wait for the lock.
        assert [checked_name(message) for message in store.read(SESSION)] == ["held-0"]
        assert store.get(SESSION).message_count == 1
        send_line(holder)
        assert holder.wait() == 0
    with store.open(SESSION, timeout=0.5) as writer:
        assert writer.append(make_message("next-0"))[0].seq == 1


@pytest.mark.req("STORE-05")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_lock_of_a_killed_holder_is_released_at_once(layout: str, tmp_path: Path) -> None:
    store = LAYOUTS[layout](str(tmp_path))
    store.create(new_session())
    with started("hold", layout, tmp_path) as holder:
        with pytest.raises(SessionBusy), store.open(SESSION, timeout=0):
            pytest.fail("two writers at once")
        holder.kill()
        holder.wait()
        with store.open(SESSION, timeout=0) as writer:
            assert writer.append(make_message("next-0"))[0].seq == 1
    assert invariants.unreadable(store) == []
    assert files_of(store).session_id == SESSION
