"""`kill -9` at random moments. 5,000 of them: `python -m tests.store.crash.long --kills 5000`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.crash.kills import kill_often
from tests.store.crash.talk import LAYOUTS

# × 3 layouts: 51 kills.
KILLS = {2_000: 8, 64_000: 7, 1_000_000: 2}


@pytest.mark.req("STORE-03", "STORE-05", "STORE-06")
@pytest.mark.parametrize("size", KILLS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_killed_at_a_random_moment_loses_nothing_that_it_was_promised(
    layout: str, size: int, tmp_path: Path
) -> None:
    assert kill_often(layout, size, str(tmp_path), seed=1, kills=KILLS[size]) > 0
