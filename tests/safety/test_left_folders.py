"""What a killed process left beside the folder that it was writing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cortext.io import new_files

WRITER = """
import sys
from cortext.io import new_files
with new_files.whole_folder(sys.argv[1]) as building:
    print(building, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_writer_left_goes_although_it_was_not_waited_for(tmp_path: Path) -> None:
    target = tmp_path / "site"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdin=pipe, stdout=pipe, text=True) as writer:
        assert writer.stdout is not None
        left = Path(writer.stdout.readline().strip())
        with new_files.whole_folder(str(tmp_path / "site")):
            assert left.is_dir(), "its process runs"
        os.rmdir(target)
        writer.kill()
        os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number is still taken
        assert left.is_dir()
        with new_files.whole_folder(str(target)):
            pass
        assert [entry.name for entry in tmp_path.iterdir()] == ["site"]
