"""Real shells for the tests: zsh and fish as Debian packages, unpacked into a folder of our own; no root is needed.

`ensure("zsh")` gives the shell and installs it when it is missing, through the machine's own apt with lists and files
of our own, so that nothing of the machine changes. A shell that the machine happens to have is never used. On a machine
without apt (or without a way to the archive) the tests with these shells are left out, and say so.
`python -m tests.support.shells` installs both and prints what each says its version is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.installing import one_at_a_time, refusal

_REPOSITORY = Path(__file__).resolve().parents[2]
_SECONDS = 300

# Each shell with what it needs to run, as Debian and Ubuntu call it.
PACKAGES = {
    "zsh": ("zsh", "zsh-common", "libcap2", "libtinfo6"),
    "fish": ("fish", "fish-common", "libpcre2-32-0", "libtinfo6", "libstdc++6", "libgcc-s1"),
}


class NotToBeHad(RuntimeError):
    """This machine has no way to the shell: no apt, or no archive within reach. The text says which."""


@dataclass(frozen=True)
class Shell:
    """One shell, unpacked."""

    name: str
    folder: Path

    @property
    def program(self) -> Path | None:
        """The executable, or None where it is not there."""
        return next((path for path in self._all(f"bin/{self.name}") if os.access(path, os.X_OK)), None)

    @property
    def libraries(self) -> str:
        """LD_LIBRARY_PATH for it."""
        return os.pathsep.join(str(path) for path in self._all("lib/*-linux-gnu*"))

    def _all(self, pattern: str) -> list[Path]:
        return [*self.folder.glob(f"usr/{pattern}"), *self.folder.glob(pattern)]

    def zshenv(self) -> str:
        """What tells zsh where its modules and functions are: it was built for /usr."""
        modules = next(iter(self.folder.glob("usr/lib/*/zsh/*")))
        functions = self.folder / "usr" / "share" / "zsh" / "functions"
        return f"module_path=('{modules}')\nfpath=('{functions}' '{functions}'/**/*(/N))\n"


def shells_folder() -> Path:
    """Where they live: .cache/shells in the repository."""
    return _REPOSITORY / ".cache" / "shells"


def ensure(name: str) -> Shell:
    """The shell, installed first when needed. Many processes may call it."""
    shell = Shell(name, shells_folder() / name)
    if shell.program is None:
        with one_at_a_time(shells_folder(), name):
            if shell.program is None:
                _install(shell)
    return shell


def version(name: str) -> str:
    """What the installed shell itself says its version is."""
    shell = ensure(name)
    environ = {"PATH": os.defpath, "LD_LIBRARY_PATH": shell.libraries}
    done = subprocess.run(
        [str(shell.program), "--version"], env=environ, capture_output=True, text=True, encoding="utf-8", check=True
    )
    return done.stdout.strip()


def _install(shell: Shell) -> None:
    """Unpack beside the final folder and rename, so that half an install is never seen as a whole one."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise NotToBeHad(f"the tests fetch {shell.name} with apt-get and dpkg-deb (Debian, Ubuntu): they are not here")
    staging = Path(tempfile.mkdtemp(prefix=f".{shell.name}-", dir=shells_folder()))
    try:
        root = staging / "root"
        root.mkdir()
        for package in _download(shell.name, staging):
            _run(["dpkg-deb", "-x", str(package), str(root)], staging)
        # fish looks for its own files beside itself where it finds both of them.
        (root / "usr" / "etc").symlink_to("../etc")
        if Shell(shell.name, root).program is None:
            raise RuntimeError(f"the packages {', '.join(PACKAGES[shell.name])} hold no {shell.name}")
        shutil.rmtree(shell.folder, ignore_errors=True)
        root.rename(shell.folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _download(name: str, staging: Path) -> list[Path]:
    """The packages, with apt's lists and cache in our own folder: an ordinary user may do that."""
    for folder in ("lists/partial", "cache/archives/partial", "packages"):
        (staging / folder).mkdir(parents=True)
    apt = [
        "apt-get",
        "-q",
        f"-oDir::State::Lists={staging / 'lists'}",
        f"-oDir::Cache={staging / 'cache'}",
        "-oDebug::NoLocking=1",
        "-oAPT::Sandbox::User=root",  # else apt as root fetches as a user who may not write here
        "-oAcquire::Retries=1",
        "-oAcquire::http::Timeout=20",
        "-oAcquire::https::Timeout=20",
        "-oAcquire::Languages=none",
    ]
    _run([*apt, "update"], staging)
    _run([*apt, "download", *PACKAGES[name]], staging / "packages")
    return sorted((staging / "packages").glob("*.deb"))


def _run(command: list[str], cwd: Path) -> None:
    said = refusal(command, cwd, _SECONDS, {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"})
    if said:
        raise NotToBeHad(f"{' '.join(command[:1] + command[-1:])} failed: is Debian's archive reachable?\n{said}")


def main() -> int:
    """Install both and print one line for each. A machine without a way to them can run every other test."""
    for name in PACKAGES:
        try:
            sys.stdout.write(f"{name:12} {version(name):28} {ensure(name).folder}\n")
        except NotToBeHad as error:
            sys.stdout.write(f"{name:12} not to be had here: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
