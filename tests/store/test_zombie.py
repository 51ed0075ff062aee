"""A lock holder that has ended but is never reaped, as in a container whose first process is not an init."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cortext.model.session import Session
from cortext.store.files.spawn import SpawnStore


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only /proc shows whether a process is a zombie")
@pytest.mark.req("STORE-05", "SPAWN-06")
def test_a_zombie_process_holds_no_lock(tmp_path: Path) -> None:
    store = SpawnStore(str(tmp_path))
    store.create(Session(id="left", agent="qa-test"))
    child = os.fork()
    if not child:
        store.open("left").__enter__()
        os._exit(0)
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has ended, but stays in the process table
        assert store.get("left").shown_status == "interrupted"
        with store.open("left", timeout=0.0):
            assert store.get("left").shown_status == "active"
    finally:
        os.waitpid(child, 0)
