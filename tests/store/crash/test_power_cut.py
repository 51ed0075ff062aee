"""The power goes: data and names that were not flushed are gone, half there, or zeros, in any order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.store.crash import replay
from tests.store.crash.power import Op, after_power_cut
from tests.store.crash.talk import LAYOUTS, SCENARIOS, Actor

SEED = 20261115
SHOWN = 3


@pytest.mark.req("STORE-03", "STORE-06", "STORE-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_power_cut_at_any_place_loses_nothing_acknowledged(layout: str, scenario: str, tmp_path: Path) -> None:
    ops = replay.record(layout, scenario, str(tmp_path / "recorded"))
    states = list(replay.cuts(ops, 1, random.Random(SEED)))
    assert len(states) >= 80  # × 3 layouts × 2 scenarios: 480 of the 500 states; the tests below add theirs
    bad = [text for cut, style in states if (text := replay.check_cut(layout, ops, cut, style, SEED, str(tmp_path)))]
    assert not bad, f"{len(bad)} of {len(states)} states; the first:\n" + "\n".join(bad[:SHOWN])


@pytest.mark.req("STORE-03", "STORE-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_power_cut_after_somebody_was_killed_and_another_went_on(layout: str, scenario: str, tmp_path: Path) -> None:
    """A kill leaves names that nobody flushed; who goes on must not build on them as if somebody had."""
    calls = len(replay.record(layout, scenario, str(tmp_path / "whole")))
    chance = random.Random(SEED)
    bad = []
    for kill_at in sorted(chance.sample(range(1, calls), 12)):
        ops = replay.record(layout, scenario, str(tmp_path / f"{kill_at}"), kill_at=kill_at)
        cut, style = chance.choice(replay.after_the_change(ops)), chance.choice(("drop", "mixed"))
        if text := replay.check_cut(layout, ops, cut, style, SEED, str(tmp_path)):
            bad.append(f"killed at {kill_at}, {text}")
    assert not bad, f"{len(bad)} states; the first:\n" + "\n".join(bad[:SHOWN])


@pytest.mark.req("STORE-03", "STORE-07")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_power_cut_after_a_flush_that_failed(layout: str, scenario: str, tmp_path: Path) -> None:
    """What a failed flush left in memory never reaches the disk, whatever a later flush says."""
    whole = replay.record(layout, scenario, str(tmp_path / "whole"))
    chance = random.Random(SEED)
    bad = []
    for number in range(1, replay.flushes(whole) + 1, 2):
        ops = replay.record(layout, scenario, str(tmp_path / f"{number}"), fail_sync_at=number)
        assert any(op.kind == "sync failed" for op in ops)
        cut, style = chance.choice(replay.after_the_change(ops)), chance.choice(("drop", "mixed"))
        if text := replay.check_cut(layout, ops, cut, style, SEED, str(tmp_path)):
            bad.append(f"flush {number} failed, {text}")
    assert not bad, f"{len(bad)} states; the first:\n" + "\n".join(bad[:SHOWN])


@pytest.mark.req("STORE-03", "STORE-10")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_session_whose_creation_failed_or_was_killed_is_there_whole_or_not_at_all(
    layout: str, tmp_path: Path
) -> None:
    """Somebody else writes to what is there of it; then the power goes, while that is on its way."""
    whole = replay.record(layout, Actor.create, str(tmp_path / "whole"))
    chance = random.Random(SEED)
    bad = []
    for number in range(3, replay.flushes(whole) + 1):
        for how in ("fail_sync_at", "kill_at"):
            at = number if how == "fail_sync_at" else len(whole) - 2 * number
            ops = replay.record(layout, Actor.create, str(tmp_path / f"{how}{number}"), **{how: at})
            promised = replay.after_the_change(ops)[0]
            for cut in range(promised - 9, promised + 1):
                if text := replay.check_cut(layout, ops, cut, "mixed", chance.randrange(1 << 20), str(tmp_path)):
                    bad.append(f"{how} {at}, {text}")
    assert not bad, f"{len(bad)} states; the first:\n" + "\n".join(bad[:SHOWN])


# ── the model itself ─────────────────────────────────────────────────────────────────────────────────


def _disk(tmp_path: Path, ops: list[Op], style: str) -> dict[str, bytes]:
    target = tmp_path / f"{style}-{len(list(tmp_path.iterdir()))}"
    after_power_cut(ops, len(ops), random.Random(SEED), style, str(target))
    return {path.name: path.read_bytes() for path in target.iterdir()}


@pytest.mark.req("STORE-03")
def test_the_model_drops_a_name_without_a_flushed_folder_and_data_without_a_flushed_file(tmp_path: Path) -> None:
    made = [Op("file", 1, folder=0, name="log"), Op("write", 1, 0, b"hello")]
    flush_file, flush_folder = Op("sync", 1), Op("sync", 0)
    assert _disk(tmp_path, made, "drop") == {}
    assert _disk(tmp_path, [*made, flush_file], "drop") == {}
    assert _disk(tmp_path, [*made, flush_folder], "drop") == {"log": b""}
    assert _disk(tmp_path, [*made, flush_file, flush_folder], "drop") == {"log": b"hello"}
    assert _disk(tmp_path, made, "keep") == {"log": b"hello"}


@pytest.mark.req("STORE-07")
def test_the_model_does_not_let_a_second_flush_save_what_the_first_one_lost(tmp_path: Path) -> None:
    made = [Op("file", 1, folder=0, name="log"), Op("sync", 0), Op("write", 1, 0, b"hello")]
    assert _disk(tmp_path, [*made, Op("sync failed", 1), Op("sync", 1)], "drop") == {"log": b""}
    again = [Op("write", 1, 5, b"again"), Op("sync", 1)]
    assert _disk(tmp_path, [*made, Op("sync failed", 1), *again], "drop") == {"log": b"\0\0\0\0\0again"}


@pytest.mark.req("STORE-10")
def test_the_model_renames_whole_or_not_at_all(tmp_path: Path) -> None:
    made = [Op("file", 1, folder=0, name="old"), Op("write", 1, 0, b"1"), Op("sync", 1), Op("sync", 0)]
    rename = Op("rename", 1, folder=0, name="new", old_folder=0, old_name="old")
    assert _disk(tmp_path, [*made, rename], "drop") == {"old": b"1"}
    assert _disk(tmp_path, [*made, rename], "keep") == {"new": b"1"}
    assert _disk(tmp_path, [*made, rename, Op("sync", 0)], "drop") == {"new": b"1"}
