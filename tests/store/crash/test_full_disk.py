"""Real full disks: a file size limit, and a tiny tmpfs where mounting is allowed."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.errors import WriteFailed
from tests.store.crash import invariants
from tests.store.crash.actor import LAYOUTS, SESSION, Actor, Event, Ledger, files_of, make_message, read_events
from tests.store.crash.filler import fill

ROOT = Path(__file__).parents[3]
SIZE_LIMIT = 200_001


@pytest.mark.req("STORE-07", "STORE-06", "STORE-03")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_at_its_size_limit_refuses_messages_and_keeps_the_others(layout: str, tmp_path: Path) -> None:
    root = str(tmp_path / "store")
    command = [sys.executable, "-m", "tests.store.crash.filler", layout, root, str(SIZE_LIMIT)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    events = read_events(done.stdout)
    refused = [arguments for phase, verb, arguments in events if (phase, verb) == ("no", "append")]
    ledger = Ledger(events)
    assert len(refused) == 3 and len(ledger.acked) > 10
    store = LAYOUTS[layout](root)
    log = invariants.contents(files_of(store).log)
    assert len(log) <= SIZE_LIMIT and log.endswith(b"\n"), "the log was not truncated to its last good end"
    names = {message.content.partition("|")[0] for message in store.read(SESSION)}
    assert names == set(ledger.acked), "the log must hold what was acknowledged and nothing else"
    assert store.check(SESSION) == []
    invariants.check(layout, root, ledger)  # without the limit, the session can be continued


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """The folder of a file system of three megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command here; the test with RLIMIT_FSIZE still runs")
    if done.returncode:
        pytest.skip(f"mounting is not allowed here ({done.stderr.strip()}); the test with RLIMIT_FSIZE still runs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.req("STORE-07", "STORE-06", "STORE-03", "STORE-10")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_full_disk_refuses_every_change_and_loses_nothing(layout: str, tiny_disk: Path) -> None:
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(2_500_000))
    events: list[Event] = []
    actor = Actor(layout, str(tiny_disk / "store"), events.append)
    actor.create()
    fill(actor, 9000)
    with (tiny_disk / "rest").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space") as full:
        while True:
            filler.write(bytes(512))
    assert full.value.errno == errno.ENOSPC
    before = invariants.plain(actor.store.read(SESSION))
    with pytest.raises(WriteFailed, match="No space left"):
        actor.append("h-0", size=9000)
    with pytest.raises(WriteFailed, match="No space left"):
        actor.title("a longer title than before" * 200)
    assert invariants.plain(LAYOUTS[layout](actor.root).read(SESSION)) == before
    assert {message.content.partition("|")[0] for message in before} == set(Ledger(events).acked)
    ballast.unlink()
    (tiny_disk / "rest").unlink()
    actor.append("h-1", size=9000)
    assert make_message("h-1", 9000).content == actor.store.tail(SESSION, 1)[0].content
    invariants.check(layout, actor.root, Ledger(events))
