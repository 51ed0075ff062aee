"""The real AI programs that the tests drive, installed by exact version into the cache folder.

`ensure("claude-code")` returns the path of the program and installs it if it is missing;
`python -m tests.support.ai_programs` installs all four and prints the version each reports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.installing import one_at_a_time, refusal

_REPOSITORY = Path(__file__).resolve().parents[2]
_INSTALL_SECONDS = 900
_VERSION_SECONDS = 60


@dataclass(frozen=True)
class Program:
    """One npm package at one version, and where its executable is once unpacked."""

    name: str
    package: str
    version: str
    # Globs below node_modules, best first. They name the native binaries: the packages' own launchers only work
    # after their install scripts ran, and those are disabled (see _npm_install).
    executables: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The folder this version is installed in."""
        return programs_folder() / f"{self.name}-{self.version}"

    def find(self, folder: Path) -> Path | None:
        """Return the executable below an installed folder, or None."""
        for pattern in self.executables:
            for path in sorted((folder / "node_modules").glob(pattern)):
                if path.is_file() and os.access(path, os.X_OK):
                    return path
        return None


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program("claude-code", "@anthropic-ai/claude-code", "2.1.325", ("@anthropic-ai/claude-code-*/claude",)),
        Program("gemini-cli", "@google/gemini-cli", "0.61.0", (".bin/gemini",)),
        # On x64 npm fetches two builds; the baseline one runs on every CPU.
        Program(
            "opencode",
            "opencode-ai",
            "1.18.18",
            ("opencode-*-baseline/bin/opencode", "opencode-*/bin/opencode"),
        ),
        Program("codex", "@openai/codex", "0.166.0", ("@openai/codex-*/vendor/*/bin/codex",)),
    )
}


def programs_folder() -> Path:
    """Return CORTEXT_AI_PROGRAMS_DIR, or .cache/ai-programs in the repository."""
    chosen = os.environ.get("CORTEXT_AI_PROGRAMS_DIR")
    return Path(chosen).resolve() if chosen else _REPOSITORY / ".cache" / "ai-programs"


def ensure(name: str) -> str:
    """Return the path of the executable, installing it first if needed. Safe to call from many processes."""
    program = PROGRAMS[name]
    found = program.find(program.folder)
    if found is None:
        with one_at_a_time(programs_folder(), f"{program.name}-{program.version}"):
            # Another process may have installed it meanwhile.
            found = program.find(program.folder) or _install(program)
    return str(found)


def version(name: str) -> str:
    """Return the version that the installed program reports."""
    with tempfile.TemporaryDirectory(prefix="version-") as home:
        done = subprocess.run(
            [ensure(name), "--version"],
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=_VERSION_SECONDS,
            check=True,
        )
    return done.stdout.strip()


def _install(program: Program) -> Path:
    """Install into a temporary folder and rename it, so that a partial installation is never visible."""
    staging = Path(tempfile.mkdtemp(prefix=f".{program.name}-", dir=programs_folder()))
    try:
        _npm_install(program, staging)
        shutil.rmtree(staging / "npm-cache", ignore_errors=True)
        # npm's lock file may name the registry; nothing needs it.
        (staging / "node_modules" / ".package-lock.json").unlink(missing_ok=True)
        if program.find(staging) is None:
            raise RuntimeError(f"{program.package}@{program.version} has no executable for this machine")
        # We hold the lock and found no executable there, so an existing folder is broken.
        shutil.rmtree(program.folder, ignore_errors=True)
        staging.rename(program.folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    installed = program.find(program.folder)
    assert installed is not None
    return installed


def _npm_install(program: Program, prefix: Path) -> None:
    command = [
        "npm",
        "install",
        f"--prefix={prefix}",
        # By default the cache is in the real HOME; this one is deleted afterwards.
        f"--cache={prefix / 'npm-cache'}",
        "--no-save",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        # The scripts only link a binary that is called directly here, and no code should run at install time.
        "--ignore-scripts",
        # Claude Code requires node 22, although its native binary needs no node at all.
        "--engine-strict=false",
        "--loglevel=error",
        f"{program.package}@{program.version}",
    ]
    said = refusal(command, prefix, _INSTALL_SECONDS)
    if said:
        raise RuntimeError(f"npm could not install {program.package}@{program.version}:\n{said}")


def main() -> int:
    """Install all programs and print a line for each."""
    for name, program in PROGRAMS.items():
        started = time.monotonic()
        ensure(name)
        seconds = time.monotonic() - started
        size = sum(path.lstat().st_size for path in program.folder.rglob("*") if path.is_file()) / 1e6
        sys.stdout.write(f"{name:12} {version(name):28} {size:5.0f} MB  {seconds:5.1f} s  {program.folder}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
