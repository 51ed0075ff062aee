"""Programs from Debian packages, unpacked into a folder without root; the machine itself does not change.

apt gets lists and caches of its own. Without apt, or without access to the archive, `NotToBeHad` says so.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.installing import refusal

_SECONDS = 300
_SOURCES = """\
Types: deb
URIs: http://deb.debian.org/debian
Suites: {}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


class NotToBeHad(RuntimeError):
    """The program cannot be installed here: no apt, or no access to the archive. The message says which."""


@contextmanager
def unpacked(folder: Path, packages: Sequence[str], *, with_missing: bool = False, release: str = "") -> Iterator[Path]:
    """Unpack packages into a temporary folder below `folder`; the caller renames it, what remains is deleted.

    `with_missing` adds the packages they depend on that this machine does not have. `release` is the name of a Debian
    release that they are taken from, by default this machine's.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise NotToBeHad(f"the tests fetch {packages[0]} with apt-get and dpkg-deb (Debian), which are missing")
    staging = Path(tempfile.mkdtemp(prefix=f".{packages[0]}-", dir=folder))
    try:
        root = staging / "root"
        root.mkdir()
        for package in _download(packages, staging, with_missing=with_missing, release=release):
            _run(["dpkg-deb", "-x", str(package), str(root)], staging)
        yield root
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _download(packages: Sequence[str], staging: Path, *, with_missing: bool, release: str) -> list[Path]:
    """Download the packages; apt's lists and cache are in the staging folder, so no root is needed."""
    for folder in ("lists/partial", "cache/archives/partial", "packages"):
        (staging / folder).mkdir(parents=True)
    apt = [
        "apt-get",
        "-q",
        f"-oDir::State::Lists={staging / 'lists'}",
        f"-oDir::Cache={staging / 'cache'}",
        "-oDebug::NoLocking=1",
        "-oAPT::Sandbox::User=root",  # otherwise apt as root downloads as a user who may not write here
        "-oAcquire::Retries=1",
        "-oAcquire::http::Timeout=20",
        "-oAcquire::https::Timeout=20",
        "-oAcquire::Languages=none",
    ]
    if release:
        (staging / "sources").mkdir()
        Path(staging, "sources", "one.sources").write_text(_SOURCES.format(release), encoding="utf-8")
        apt += ["-oDir::Etc::SourceList=/dev/null", f"-oDir::Etc::SourceParts={staging / 'sources'}"]
    _run([*apt, "update"], staging)
    if with_missing:
        _run([*apt, "install", "--download-only", "--no-install-recommends", "-y", *packages], staging)
    else:
        _run([*apt, "download", *packages], staging / "packages")
    return sorted([*(staging / "packages").glob("*.deb"), *(staging / "cache" / "archives").glob("*.deb")])


def _run(command: list[str], cwd: Path) -> None:
    said = refusal(command, cwd, _SECONDS, {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"})
    if said:
        raise NotToBeHad(f"{' '.join(command[:1] + command[-1:])} failed: is Debian's archive reachable?\n{said}")
