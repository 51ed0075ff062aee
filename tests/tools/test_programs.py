"""Where a tool's program is: what `shutil.which` says, without importing it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cortext.tools.shared.programs import program_on


@pytest.mark.req("TOOL-01")
def test_it_is_found_as_which_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    (tmp_path / "one/claude").write_text("not to be run", encoding="utf-8")
    (tmp_path / "two/claude").mkdir()
    (tmp_path / "three/claude").write_text("#!/bin/sh", encoding="utf-8")
    (tmp_path / "three/claude").chmod(0o755)
    (tmp_path / "linked").symlink_to(tmp_path / "three")
    monkeypatch.chdir(tmp_path / "three")
    found = []
    for names in ("", "one", "one:two", "nowhere", "one:two:three:linked", "linked", ":", "three:", "/:."):
        parts = [str(tmp_path / part) if part.isalpha() else part for part in names.split(":")]
        path = os.pathsep.join(parts)
        found.append(program_on(path, "claude"))
        assert found[-1] == shutil.which("claude", path=path), path
    assert found.count(str(tmp_path / "three/claude")) == 2
