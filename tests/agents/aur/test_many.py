"""Eight users at the same time. A longer run: python -m tests.agents.aur.many 30"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.aur.many import run


@pytest.mark.req("SPAWN-03", "SPAWN-05", "SPAWN-07", "STORE-05")
def test_no_acknowledged_turn_is_lost_with_eight_processes(tmp_path: Path) -> None:
    summary = run(tmp_path, 4.0, 8)
    assert "acknowledged turns are stored" in summary
