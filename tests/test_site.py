"""The documentation site builds, and every link and anchor in it resolves."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.mark.req("LIB-03")
def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    done = _build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.stem for path in (REPOSITORY / "docs").glob("*.md")}
    site = tmp_path / "build" / "site"
    for page in pages - {"index"}:
        assert (site / page / "index.html").is_file()
    assert "://" not in _loaded(site)


def test_a_broken_link_and_a_broken_anchor_fail_the_build(tmp_path: Path) -> None:
    for wrong in ("[there](no-such-page.md)", "[there](daily-use.md#no-such-heading)"):
        done = _build(tmp_path, wrong)
        assert done.returncode != 0, wrong


@pytest.mark.req("LIB-03")
def test_every_page_is_in_the_navigation() -> None:
    navigation = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    assert set(re.findall(r"[\w-]+\.md", navigation)) == {path.name for path in (REPOSITORY / "docs").glob("*.md")}


def _build(folder: Path, extra: str = "") -> subprocess.CompletedProcess[str]:
    """Build a copy of the site with extra text on its first page."""
    shutil.copytree(REPOSITORY / "docs", folder / "docs", dirs_exist_ok=True)
    shutil.copy(REPOSITORY / "mkdocs.yml", folder)
    index = folder / "docs" / "index.md"
    index.write_text(f"{index.read_text(encoding='utf-8')}\n{extra}\n", encoding="utf-8")
    program = Path(sys.executable).parent / "zensical"
    command = [str(program), "build", "--strict", "--clean", "-f", "mkdocs.yml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def _loaded(site: Path) -> str:
    """Return the scripts and style sheets that the first page loads."""
    text = (site / "index.html").read_text(encoding="utf-8")
    return " ".join(re.findall(r'<(?:script|link rel="stylesheet")[^>]*(?:src|href)="([^"]+)"', text))
