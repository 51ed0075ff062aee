"""Power cuts: data and names that were not flushed are lost, partial or zeroed, in any order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.store.crash import replay
from tests.store.crash.actor import LAYOUTS, SCENARIOS, Actor
from tests.store.crash.power import Op, after_power_cut

SEED = 20261115
SHOWN = 3


@pytest.mark.req("STORE-03", "STORE-06", "STORE-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_power_cut_at_any_operation_loses_nothing_acknowledged(layout: str, scenario: str, tmp_path: Path) -> None:
    ops = replay.record(layout, scenario, str(tmp_path / "recorded"))
    states = list(replay.cuts(ops, 1, random.Random(SEED)))
    assert len(states) >= 80  # × 3 layouts × 2 scenarios: 480 of the 500 states; the tests below add the rest
    failures = [
        text for cut, style in states if (text := replay.check_cut(layout, ops, cut, style, SEED, str(tmp_path)))
    ]
    assert not failures, f"{len(failures)} of {len(states)} states; the first:\n" + "\n".join(failures[:SHOWN])


@pytest.mark.req("STORE-03", "STORE-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_power_cut_after_a_kill_and_a_takeover_loses_nothing(layout: str, scenario: str, tmp_path: Path) -> None:
    """A kill leaves names that were not flushed; the process that continues must not rely on them."""
    calls = len(replay.record(layout, scenario, str(tmp_path / "complete")))
    chance = random.Random(SEED)
    failures = []
    for kill_at in sorted(chance.sample(range(1, calls), 12)):
        ops = replay.record(layout, scenario, str(tmp_path / f"{kill_at}"), kill_at=kill_at)
        cut, style = chance.choice(replay.after_continuing(ops)), chance.choice(("drop", "mixed"))
        if text := replay.check_cut(layout, ops, cut, style, SEED, str(tmp_path)):
            failures.append(f"killed at {kill_at}, {text}")
    assert not failures, f"{len(failures)} states; the first:\n" + "\n".join(failures[:SHOWN])


@pytest.mark.req("STORE-03", "STORE-07")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_power_cut_after_a_failed_flush_loses_nothing_acknowledged(
    layout: str, scenario: str, tmp_path: Path
) -> None:
    """Data of a failed flush never reaches the disk, even if a later flush succeeds."""
    complete = replay.record(layout, scenario, str(tmp_path / "complete"))
    chance = random.Random(SEED)
    failures = []
    for number in range(1, replay.flushes(complete) + 1, 2):
        ops = replay.record(layout, scenario, str(tmp_path / f"{number}"), fail_sync_at=number)
        assert any(op.kind == "sync failed" for op in ops)
        cut, style = chance.choice(replay.after_continuing(ops)), chance.choice(("drop", "mixed"))
        if text := replay.check_cut(layout, ops, cut, style, SEED, str(tmp_path)):
            failures.append(f"flush {number} failed, {text}")
    assert not failures, f"{len(failures)} states; the first:\n" + "\n".join(failures[:SHOWN])


@pytest.mark.req("STORE-03", "STORE-10")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_interrupted_creation_leaves_a_complete_session_or_none(layout: str, tmp_path: Path) -> None:
    """Another process continues with what the creation left; then the power is cut during its writes."""
    complete = replay.record(layout, Actor.create, str(tmp_path / "complete"))
    chance = random.Random(SEED)
    failures = []
    for number in range(3, replay.flushes(complete) + 1):
        for how in ("fail_sync_at", "kill_at"):
            at = number if how == "fail_sync_at" else len(complete) - 2 * number
            ops = replay.record(layout, Actor.create, str(tmp_path / f"{how}{number}"), **{how: at})
            acknowledged = replay.after_continuing(ops)[0]
            for cut in range(acknowledged - 9, acknowledged + 1):
                if text := replay.check_cut(layout, ops, cut, "mixed", chance.randrange(1 << 20), str(tmp_path)):
                    failures.append(f"{how} {at}, {text}")
    assert not failures, f"{len(failures)} states; the first:\n" + "\n".join(failures[:SHOWN])


# ── tests of the model ───────────────────────────────────────────────────────────────────────────────


def _disk(tmp_path: Path, ops: list[Op], style: str) -> dict[str, bytes]:
    target = tmp_path / f"{style}-{len(list(tmp_path.iterdir()))}"
    after_power_cut(ops, len(ops), random.Random(SEED), style, str(target))
    return {path.name: path.read_bytes() for path in target.iterdir()}


@pytest.mark.req("STORE-03")
def test_the_model_drops_names_and_data_that_were_not_flushed(tmp_path: Path) -> None:
    created = [Op("file", 1, folder=0, name="log"), Op("write", 1, 0, b"hello")]
    flush_file, flush_folder = Op("sync", 1), Op("sync", 0)
    assert _disk(tmp_path, created, "drop") == {}
    assert _disk(tmp_path, [*created, flush_file], "drop") == {}
    assert _disk(tmp_path, [*created, flush_folder], "drop") == {"log": b""}
    assert _disk(tmp_path, [*created, flush_file, flush_folder], "drop") == {"log": b"hello"}
    assert _disk(tmp_path, created, "keep") == {"log": b"hello"}


@pytest.mark.req("STORE-07")
def test_in_the_model_a_later_flush_does_not_save_what_a_failed_one_lost(tmp_path: Path) -> None:
    created = [Op("file", 1, folder=0, name="log"), Op("sync", 0), Op("write", 1, 0, b"hello")]
    assert _disk(tmp_path, [*created, Op("sync failed", 1), Op("sync", 1)], "drop") == {"log": b""}
    again = [Op("write", 1, 5, b"again"), Op("sync", 1)]
    assert _disk(tmp_path, [*created, Op("sync failed", 1), *again], "drop") == {"log": b"\0\0\0\0\0again"}


@pytest.mark.req("STORE-10")
def test_in_the_model_a_rename_happens_completely_or_not_at_all(tmp_path: Path) -> None:
    created = [Op("file", 1, folder=0, name="old"), Op("write", 1, 0, b"1"), Op("sync", 1), Op("sync", 0)]
    rename = Op("rename", 1, folder=0, name="new", old_folder=0, old_name="old")
    assert _disk(tmp_path, [*created, rename], "drop") == {"old": b"1"}
    assert _disk(tmp_path, [*created, rename], "keep") == {"new": b"1"}
    assert _disk(tmp_path, [*created, rename, Op("sync", 0)], "drop") == {"new": b"1"}
