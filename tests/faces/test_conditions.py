"""Every command of every face under every condition a shell can create: no traceback, a documented exit code."""

from __future__ import annotations

import itertools
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cortext.faces.cortext.main import COMMANDS, HIDDEN
from tests.support.cli import SCRIPTS, cortext

# Every command with arguments that make it do something; commands that delete come last.
WORDS: dict[str, tuple[str, ...]] = {
    "cortext": ("",),
    "new": ("new plan Größe der Straße", "new", "new nonsense"),
    "list": ("list", "list --json", "list --help", "list --here"),
    "show": ("show 002", "show 002 --json", "show nothing-like-it", "show"),
    "search": ("search medication", "search medication --json", "search zzzzqqq"),
    "similar": ("similar 002-brainstorm-api-design",),
    "why": ("why conversations", "why --commit HEAD", "why nothing.py:1", "why"),
    "touched": ("touched notes.md", "touched notes.md --json"),
    "browse": ("browse",),
    "stats": ("stats", "stats --json"),
    "cost": ("cost", "cost --by session --json", "cost --prices README.md"),
    "web": ("web --port 99999", "web --host localhost --no-open", "web --help"),
    "status": (),
    "resume": ("resume", "resume --list", "resume 002 --print", "resume 002 --dry-run --ai claude", "resume 002"),
    "title": ("title 002 → 日本",),
    "tag": ("tag 002 größe", "tag", "tag --type plan later --dry-run", "tag 002 a,b"),
    "star": ("star 002", "star", "star --tag größe --json"),
    "note": ("note 002 wartet auf Größe → 日本", "note 002", "note 002 --remove 7"),
    "archive": ("archive 002", "archive 002 --remove", "archive nothing-like-it"),
    "fork": ("fork 002 --at 2",),
    "prune": ("prune 002 --keep 4",),
    "share": ("share", "share 002", "share 002 --with ines"),
    "unshare": ("unshare 002 --with ines",),
    "export": ("export 002", "export 002 --format json"),
    "stop": ("stop",),
    "complete": ("complete",),
    "import": ("import",),
    "sync": ("sync",),
    "sweep": ("sweep",),
    "doctor": ("doctor", "doctor --json"),
    "store": ("store",),
    "repair": ("repair 002 --dry-run",),
    "index": ("index status", "index rebuild"),
    "init": (
        "init . --ai claude,codex",
        "init README.md",
        "init README.md/below",
        "init elsewhere --ai gemini,opencode",
    ),
    "upgrade": ("upgrade",),
    "type": ("type list", "type add größe"),
    "trust": ("trust",),
    "completion": ("completion bash",),
    "tools": ("tools",),
    "rescue": ("rescue -n",),
    "watch": ("watch --once", "watch --status"),
    "demo": ("demo another",),
    "hook": ("hook claude",),
    "mcp": ("mcp",),
    "merge-driver": ("merge-driver a b c",),
    "complete-words": ("complete-words resume 0",),
    "refresh": ("refresh", "refresh --search"),
    "help": ("help", "--version", "nonsense"),
    "delete": ("delete 003-plan-mvp",),
    "restore": ("restore",),
    "uninstall": ("uninstall",),
}
OTHERS = (
    "aur", "aur agents", "aur spawn --list-sessions", "aur spawn question", "aur spawn -i", "aur spawn --resume nobody",
    "aur spawn --delete-session nobody", "alfred --help", "alfred question", "alfred", "alfred memory list",
    "alfred memory add größer", "alfred worker --once", "alfred telegram",
)  # fmt: skip
EVERY_LINE = "CORTEXT_EVERY_LINE"  # set to 1 to run every command line under every condition
CODES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130}


def chosen(condition: Condition) -> list[list[str]]:
    """Return one command line of every command, each time another one; with EVERY_LINE, all of them."""
    commands = [[["cortext", *words.split()] for words in lines] for lines in WORDS.values() if lines]
    others = [line.split() for line in OTHERS]
    commands += [list(lines) for _, lines in itertools.groupby(others, key=lambda words: words[:2])]
    if os.environ.get(EVERY_LINE) == "1":
        return [words for lines in commands for words in lines]
    number = CONDITIONS.index(condition)
    return [lines[number % len(lines)] for lines in commands]


def test_every_command_line_is_run_under_some_condition() -> None:
    run = {" ".join(words) for condition in CONDITIONS for words in chosen(condition)}
    assert run == {f"cortext {words}".strip() for lines in WORDS.values() for words in lines} | set(OTHERS)


def test_every_command_is_covered() -> None:
    assert {name for _, commands in COMMANDS for name, _, _ in commands} | set(HIDDEN) <= set(WORDS)


def _is_bad(said: str) -> bool:
    return any(sign in said for sign in ("Traceback", "bug in cortext", "Error:", "Exception"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a HOME with the demo; every test gets a copy."""
    folder = tmp_path_factory.mktemp("conditions")
    assert cortext("demo", "demo", "--quiet", cwd=folder, env={"HOME": str(folder)}).code == 0
    (folder / "demo" / "README.md").write_text("a file\n", encoding="utf-8")
    return folder


def _closed(command: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return _run(["bash", "-c", 'exec "$@" >&-', "bash", *command], env, cwd)


def _full(command: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    with open("/dev/full", "wb") as full:
        return _run(command, env, cwd, stdout=full.fileno())


def _all_full(command: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return _run(["bash", "-c", 'exec "$@" >/dev/full 2>&1 <&-', "bash", *command], env, cwd)


def _reader_gone(command: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return _run(command, env, cwd, stdout=writing)
    finally:
        os.close(writing)


def _latin(command: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return _run(command, {**env, "PYTHONIOENCODING": "iso-8859-1", "LC_ALL": "de_DE.ISO-8859-1"}, cwd)


def _ascii(command: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return _run(command, {**env, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, cwd)


def _removed_folder(command: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return _run(["bash", "-c", 'd=$(mktemp -d) && cd "$d" && rmdir "$d" && exec "$@"', "bash", *command], env, cwd)


def _nothing_on_path(command: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return _run(command, {**env, "PATH": str(cwd / "nothing")}, cwd)


def _run(
    command: list[str], env: dict[str, str], cwd: Path, stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, timeout=120,
        check=False,
    )  # fmt: skip


Condition = Callable[[list[str], dict[str, str], Path], subprocess.CompletedProcess[bytes]]
CONDITIONS: tuple[Condition, ...] = (
    _closed, _full, _all_full, _reader_gone, _latin, _ascii, _removed_folder, _nothing_on_path,
)  # fmt: skip


@pytest.mark.req("LOOK-01")
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.__name__.strip("_"))
def test_no_traceback_whatever_the_shell_does(condition: Condition, made: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(made, home, symlinks=True)
    env = {**os.environ, "HOME": str(home)}

    def problem_of(words: list[str]) -> str:
        done = condition([str(SCRIPTS / words[0]), *words[1:]], env, home / "demo")
        said = done.stderr.decode("utf-8", "replace")
        bad = _is_bad(said) or done.returncode not in CODES
        return f"{' '.join(words)} ended with {done.returncode}:\n{said[-1500:]}" if bad else ""

    with ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(problem_of, chosen(condition)) if text]
    assert not wrong, "\n".join(wrong)


@pytest.mark.req("LOOK-01")
def test_output_failures_are_reported_and_json_is_always_utf_8(made: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(made, home, symlinks=True)
    env, here = {**os.environ, "HOME": str(home)}, home / "demo"
    name = str(SCRIPTS / "cortext")
    full = _full([name, "list"], env, here)
    assert (full.returncode, b"No space left on device" in full.stderr) == (5, True)
    assert _run([name, "title", "002", "→ 日本"], env, here).returncode == 0
    latin = _latin([name, "list"], env, here)
    assert latin.returncode == 0 and b"? ??" in latin.stdout
    assert "→ 日本" in _latin([name, "list", "--json"], env, here).stdout.decode("utf-8")
    gone = _removed_folder([name, "list"], env, here)
    assert gone.returncode == 1 and b"current folder no longer exists" in gone.stderr
    a_file = _run([name, "init", "README.md"], env, here)
    assert a_file.returncode == 2 and b"is a file" in a_file.stderr


@pytest.mark.req("LOOK-01")
@pytest.mark.parametrize(
    "words",
    [
        "cortext resume", "cortext resume {id} --ai claude", "cortext resume 001", "cortext browse",
        "aur spawn -i --agent nobody", "alfred",
    ],
)  # fmt: skip
def test_ctrl_d_answers_a_question(words: str, made: Path, tmp_path: Path) -> None:
    """On a terminal, with stubs of two tools on PATH and a completed conversation."""
    home = tmp_path / "home"
    shutil.copytree(made, home, symlinks=True)
    programs = home / "bin"
    programs.mkdir()
    for tool in ("claude", "gemini"):
        (programs / tool).write_text("#!/bin/sh\necho 2.1.150\n", encoding="utf-8")
        (programs / tool).chmod(0o755)
    env = {
        **os.environ, "HOME": str(home), "TERM": "xterm", "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "OLLAMA_HOST": "http://127.0.0.1:9", "CORTEXT_MODEL": "ollama/test-model",
    }  # fmt: skip
    done = cortext("list", "--status", "completed", "--json", cwd=home / "demo", env=env)
    name, *rest = words.format(id=done.json[0]["id"]).split()
    code, said = _at_a_terminal([str(SCRIPTS / name), *rest], env, home / "demo", b"\x04")
    assert code in CODES and not _is_bad(said), said


OWN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def _at_a_terminal(command: list[str], env: dict[str, str], cwd: Path, keys: bytes) -> tuple[int, str]:
    """Run a command on a terminal, pressing these keys repeatedly until it exits; return its code and output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, *command],
        env=env, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    deadline = time.monotonic() + 60
    pressed = 0.0
    try:
        while process.poll() is None:
            assert time.monotonic() < deadline, f"it waits for ever:\n{said.decode('utf-8', 'replace')}"
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    said += os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if b"\x1b[6n" in said:  # prompt_toolkit asks for the cursor position; answer as a terminal does
                    os.write(ours, b"\x1b[1;1R")
                    said = said.replace(b"\x1b[6n", b"")
            if said and time.monotonic() - pressed > 0.5:
                os.write(ours, keys)
                pressed = time.monotonic()
        return process.wait(30), said.decode("utf-8", "replace")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
