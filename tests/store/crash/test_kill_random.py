"""`kill -9` at random moments. For 5,000 kills: `python -m tests.store.crash.long --kills 5000`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.crash.actor import LAYOUTS
from tests.store.crash.kills import kill_repeatedly

# Message size to number of kills; times 3 layouts: 51 kills.
KILLS = {2_000: 8, 64_000: 7, 1_000_000: 2}


@pytest.mark.req("STORE-03", "STORE-05", "STORE-06")
@pytest.mark.parametrize("size", KILLS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_killed_at_random_loses_nothing_acknowledged(layout: str, size: int, tmp_path: Path) -> None:
    assert kill_repeatedly(layout, size, str(tmp_path), seed=1, kills=KILLS[size]) > 0
