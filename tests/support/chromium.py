"""A real browser for the tests: Debian's Chromium, driven by Playwright, which brings no browser of its own here.

`python -m tests.support.chromium` installs it with apt-get if it is missing and this user is root. Without it, the
tests in a browser are skipped and say so. The build without windows is preferred: the tests take half the time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.ai_programs import npm_install
from tests.support.installing import one_at_a_time, refusal
from tests.support.shells import NotToBeHad

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGES = ("chromium-headless-shell", "chromium")  # the first that the archive has
FONTS = "fonts-dejavu-core"
AXE = "4.14.0"
_SECONDS = 600


def program() -> str | None:
    """Return the path of a browser; None if none is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def ensure() -> str:
    """Return the path of a browser, installing it first if needed. Raises NotToBeHad."""
    found = program()
    if found is not None:
        return found
    if not _may_install():
        raise NotToBeHad("the tests in a browser need Chromium: as root on Debian, apt-get install chromium")
    said = _install()
    found = program()
    if found is None:
        raise NotToBeHad(f"apt-get failed: is Debian's archive reachable?\n{said}")
    return found


def _may_install() -> bool:
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def _install() -> str:
    """Install the first package that the archive has; return what apt-get said if there is none."""
    said = _apt_get("update")
    for package in PACKAGES:
        said = _apt_get("install", "-y", "--no-install-recommends", package, FONTS)
        if not said:
            break
    return said


def _apt_get(*words: str) -> str:
    return refusal(["apt-get", "-q", *words], Path("/"), _SECONDS, {**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def axe() -> Path:
    """Return the script of axe-core, which checks a page for accessibility; from npm, into the cache folder."""
    folder = Path(__file__).resolve().parents[2] / ".cache" / "browser"
    script = folder / "axe" / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        with one_at_a_time(folder, "axe"):
            if not script.exists():
                (folder / "axe").mkdir(parents=True, exist_ok=True)
                npm_install(f"axe-core@{AXE}", folder / "axe")
    return script


@cache
def version() -> str:
    """Return what the browser says about itself."""
    done = subprocess.run([ensure(), "--version"], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


def main() -> int:
    """Install it and print a line; a machine without it can run every other test."""
    try:
        if not shutil.which(NAMES[0]) and _may_install():
            _apt_get("install", "-y", "--no-install-recommends", PACKAGES[0])  # if it fails, the other browser will do
        sys.stdout.write(f"{'chromium':12} {version():28} {ensure()}\n")
        sys.stdout.write(f"{'axe-core':12} {AXE:28} {axe()}\n")
    except (NotToBeHad, RuntimeError) as error:
        sys.stdout.write(f"{'chromium':12} not available here: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
