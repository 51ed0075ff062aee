"""Real shells for the tests: zsh and fish from Debian packages, unpacked into the cache folder without root.

`ensure("zsh")` returns the shell and installs it if it is missing, with the machine's apt but separate lists and
caches, so that the machine itself does not change. A shell installed on the machine is never used. Without apt, or
without access to the archive, the tests with these shells are skipped and say so.
`python -m tests.support.shells` installs both and prints the version each reports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support import debian
from tests.support.debian import NotToBeHad
from tests.support.installing import one_at_a_time

__all__ = ["NotToBeHad", "Shell", "ensure", "shells_folder", "version"]

_REPOSITORY = Path(__file__).resolve().parents[2]

# Each shell with the packages it needs, by their Debian and Ubuntu names.
PACKAGES = {
    "zsh": ("zsh", "zsh-common", "libcap2", "libtinfo6"),
    "fish": ("fish", "fish-common", "libpcre2-32-0", "libtinfo6", "libstdc++6", "libgcc-s1"),
}


@dataclass(frozen=True)
class Shell:
    """One unpacked shell."""

    name: str
    folder: Path

    @property
    def program(self) -> Path | None:
        """The executable, or None if it is missing."""
        return next((path for path in self._all(f"bin/{self.name}") if os.access(path, os.X_OK)), None)

    @property
    def libraries(self) -> str:
        """The LD_LIBRARY_PATH it needs."""
        return os.pathsep.join(str(path) for path in self._all("lib/*-linux-gnu*"))

    def _all(self, pattern: str) -> list[Path]:
        return [*self.folder.glob(f"usr/{pattern}"), *self.folder.glob(pattern)]

    def zshenv(self) -> str:
        """Return a .zshenv with the paths of zsh's modules and functions: it was built for /usr."""
        modules = next(iter(self.folder.glob("usr/lib/*/zsh/*")))
        functions = self.folder / "usr" / "share" / "zsh" / "functions"
        return f"module_path=('{modules}')\nfpath=('{functions}' '{functions}'/**/*(/N))\n"


def shells_folder() -> Path:
    """Return .cache/shells in the repository."""
    return _REPOSITORY / ".cache" / "shells"


def ensure(name: str) -> Shell:
    """Return the shell, installing it first if needed. Safe to call from many processes."""
    shell = Shell(name, shells_folder() / name)
    if shell.program is None:
        with one_at_a_time(shells_folder(), name):
            if shell.program is None:
                _install(shell)
    return shell


def version(name: str) -> str:
    """Return the version that the installed shell reports."""
    shell = ensure(name)
    environ = {"PATH": os.defpath, "LD_LIBRARY_PATH": shell.libraries}
    done = subprocess.run(
        [str(shell.program), "--version"], env=environ, capture_output=True, text=True, encoding="utf-8", check=True
    )
    return done.stdout.strip()


def _install(shell: Shell) -> None:
    """Unpack into a temporary folder and rename it, so that a partial installation is never visible."""
    with debian.unpacked(shells_folder(), PACKAGES[shell.name]) as root:
        # fish uses the files beside its executable only if both share/ and etc/ are there.
        (root / "usr" / "etc").symlink_to("../etc")
        if Shell(shell.name, root).program is None:
            raise RuntimeError(f"the packages {', '.join(PACKAGES[shell.name])} contain no {shell.name}")
        shutil.rmtree(shell.folder, ignore_errors=True)
        root.rename(shell.folder)


def main() -> int:
    """Install both and print a line for each; a machine without them can run every other test."""
    for name in PACKAGES:
        try:
            sys.stdout.write(f"{name:12} {version(name):28} {ensure(name).folder}\n")
        except NotToBeHad as error:
            sys.stdout.write(f"{name:12} not available here: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
