"""Eight users at once: nothing raises, nothing is lost. The long version: python -m tests.aur.many 30"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aur.many import run


@pytest.mark.req("SPAWN-03", "SPAWN-05", "SPAWN-07", "STORE-05")
def test_eight_processes_begin_continue_list_clean_and_delete_at_once(tmp_path: Path) -> None:
    told = run(tmp_path, 4.0, 8)
    assert "acknowledged turns are there" in told
