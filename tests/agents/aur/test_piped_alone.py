"""Text that is piped into `aur spawn` without a question: nothing is asked, and the reason is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.cli import SCRIPTS


@pytest.mark.parametrize(
    ("piped", "said"),
    [
        (b"hi \xff", "standard input is not UTF-8: byte 0xff in line 1"),
        (b"one\ntwo \xc3", "standard input is not UTF-8: byte 0xc3 in line 2"),
        (b"hi", "aur spawn -"),
        (("\u00e4" * 40_000).encode(), "aur spawn -"),
        (b"", "pass -i or a question"),
    ],
)
def test_piped_text_without_a_question_is_not_asked(piped: bytes, said: str, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": str(SCRIPTS), "LANG": "C.UTF-8"}
    command = [str(SCRIPTS / "aur"), "spawn"]
    done = subprocess.run(command, input=piped, env=env, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()
