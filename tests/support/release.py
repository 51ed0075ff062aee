"""Builds the package and checks that a release is ready: `bin/release-check`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from cortext.services.cost.prices import Prices, Source

REPOSITORY = Path(__file__).resolve().parents[2]
PRICES_VALID = timedelta(days=60)  # vendors change prices every few months


def build(target: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it, without a network; return their paths."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(REPOSITORY)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    (sdist,) = target.glob("*.tar.gz")
    (wheel,) = target.glob("*.whl")
    return sdist, wheel


def project() -> dict[str, Any]:
    """Return the `[project]` table."""
    table: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def problems(version: str, changelog: str, urls: dict[str, str]) -> list[str]:
    """Return what is not ready for a release of this version."""
    found = []
    headings = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    if headings[:1] != ["Unreleased"]:
        found.append("CHANGELOG.md does not begin with an Unreleased section")
    if not any(re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading) for heading in headings):
        found.append(f"CHANGELOG.md has no section '{version} (YYYY-MM-DD)'")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"the version {version!r} is not X.Y.Z")
    found += [
        f"[project.urls] {name} is a placeholder: {url}"
        for name, url in urls.items()
        if re.match(r"https?://[^/]*\.example(/|$)", url)
    ]
    return found


def old_prices(sources: list[Source], today: date) -> list[str]:
    """Return the vendors whose prices are too old for a release."""
    oldest = (today - PRICES_VALID).isoformat()
    return [
        f"the prices of {source.vendor} are of {source.as_of}: compare them with {source.source}"
        for source in sources
        if source.as_of < oldest
    ]


def main() -> int:
    """Build into dist/ and report."""
    from cortext import __version__

    shutil.rmtree(REPOSITORY / "dist", ignore_errors=True)
    for path in build(REPOSITORY / "dist"):
        print(f"built {path.relative_to(REPOSITORY)}")
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    found = problems(__version__, changelog, project()["urls"])
    found += old_prices(Prices().sources, date.today())
    for problem in found:
        print(f"not ready: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
