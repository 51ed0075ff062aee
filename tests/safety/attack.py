"""Malicious repositories against every command: `python -m tests.safety.attack` (all), `--quick` (a sample).

Each command runs in its own process, forked from one that has everything imported, on a terminal, in a copy of the
repository, with a home of its own. Then the result is checked: did anything outside change or leak in, did it end in
time with a documented exit code and without a traceback, did it print a marker or a control sequence.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import hashlib
import importlib
import itertools
import json
import math
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import tty
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cortext.agents.alfred import main as alfred
from cortext.agents.aur import main as aur
from cortext.faces.cortext import main as cortext
from cortext.faces.mcp.tools import TOOLS as MCP_TOOLS
from cortext.faces.terminal.run import load_command
from tests.safety import repositories
from tests.safety.repositories import BEGIN, CANARY, END, FORGED, PLANTS, World, every_path, link_out

DEADLINE = 60.0  # seconds; a command takes a fraction of one
SLOW = 10.0  # seconds; reported
PARTS = 4  # of the quick version, for test workers
_limits = {"deadline": DEADLINE}
MEMORY = 3 << 30
CODES = {*range(10), 130}
ALL_TOOLS = "claude,gemini,opencode,codex"
# Sequences that only a stranger would print: not our own colours and progress line.
CONTROL = re.compile("\x1b[^\\[]|\x1b\\[31337|\x1b\\[2J|[\x07\x08\x0b\x0c\x0e-\x1a\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
UNFORESEEN = re.compile(r"^(?!cortext\.)(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b", re.MULTILINE)


class Case(NamedTuple):
    """One command line: the program, its arguments, and its standard input."""

    program: str
    words: tuple[str, ...]
    stdin: str = ""

    def __str__(self) -> str:
        return " ".join((self.program, *self.words))


class Finding(NamedTuple):
    """A violation."""

    plant: str
    command: str
    what: str
    said: str = ""


FIRST = "001-plan-first"

# The command lines of each command, in the order in which they run: destructive ones last.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "init": (("--ai", ALL_TOOLS), ("--ai", "claude", "--json")),
    "upgrade": (("--dry-run",), ()),
    "list": ((), ("--json",), ("--here",)),
    "status": ((),),
    "show": ((FIRST,), (FIRST, "--json")),
    "search": (("retry", "budget"), ("retry", "--json"), (FORGED,)),
    "similar": ((FIRST,),),
    "why": (("README.md:1",), ("--commit", "HEAD"), (".workspace/config.toml", "--json")),
    "touched": (("README.md",), ("src/pond.py", "--json")),
    "stats": ((), ("--json",)),
    "cost": ((), ("--by", "session", "--json")),
    "web": (("--port", "99999"), ("--host", "localhost", "--no-open")),
    "doctor": ((), ("--json",)),
    "type": (("list",), ("add", "own"), ("remove", "own"), ("remove", "x")),
    "tools": ((),),
    "rescue": (("--dry-run",), ("--yes", "--json")),
    "watch": (("--once",), ("--status",)),
    "trust": (("--yes",),),
    "new": (("plan", "A", "topic"), ("x", "A", "topic"), ("--", "-x", "A")),
    "resume": (
        ("--list",),
        (FIRST, "--print"),
        (FIRST, "--dry-run", "--ai", "claude"),
        (FIRST, "--ai", "claude"),
        (FIRST, "--ai", "gemini"),
        (FIRST, "--ai", "codex"),
        (FIRST, "--in-tool"),
        ("--in-tool",),
        (FIRST, "--json", "--dry-run", "--ai", "opencode"),
    ),
    "title": ((FIRST, "Another"),),
    "tag": ((), (FIRST, "billing"), ("--here", "all", "--dry-run")),
    "star": ((FIRST,),),
    "note": ((FIRST, "a", "note"), (FIRST,)),
    "archive": ((FIRST,), (FIRST, "--remove")),
    "fork": ((FIRST,), (FIRST, "--at", "1")),
    "share": ((), (FIRST,), (FIRST, "--with", "ines", "--write")),
    "unshare": ((FIRST,),),
    "export": ((FIRST,), (FIRST, "--json"), (FIRST, "--output", "made.md")),
    "stop": ((FIRST,), ()),
    "complete": ((FIRST,), ("002-debug-second",)),
    "prune": ((FIRST, "--keep", "1", "--dry-run"), (FIRST, "--keep", "1", "--yes")),
    "sweep": ((), ("--minutes", "0")),
    "import": ((),),
    "sync": ((),),
    "store": (("status",),),
    "index": (("status",), ("rebuild",), ("clear",)),
    "browse": ((),),
    "completion": (("bash",),),
    "complete-words": (("resume", ""), ("new", ""), ("show", "0")),
    "refresh": ((), ("--search",)),
    "merge-driver": (
        ("a", "b", "c", "session.json"),
        (".gitattributes", ".gitattributes", ".gitattributes", "x.jsonl"),
    ),
    "hook": tuple((tool,) for tool in ("claude", "gemini", "opencode", "codex", "--help", "../x", "")),
    "mcp": ((),),
    "repair": ((FIRST, "--dry-run"), (FIRST,)),
    "demo": (("../demo", "--quiet"),),
    "delete": ((FIRST,), ("--", "-rf")),
    "restore": ((), (FIRST,), ("000-plan-x",)),
    "uninstall": (("--dry-run",), ()),
}
OTHERS: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {
    "aur": {
        "agents": ((), ("--json",)),
        "spawn": (
            ("--list-sessions",),
            ("hello", "--agent", "own"),
            ("hello", "--agent", "two", "--model", "cli/none"),
        ),
    },
    "alfred": {
        "": (("hello",),),
        "memory": (("list",), ("add", "I like tea"), ("search", "tea")),
        "worker": (("--once",),),
        "telegram": ((),),
    },
}


def known_commands() -> dict[str, set[str]]:
    """Return every command of every program, as the programs list them: a new one must be in the tables above."""
    names = {name for _, group in cortext.COMMANDS for name, _, _ in group} | set(cortext.HIDDEN) | {"status"}
    return {"cortext": names, "aur": set(aur.COMMANDS), "alfred": {"", *alfred.COMMANDS}}


def cases() -> Iterator[Case]:
    """Yield every command line, in the order in which they run."""
    destroying = ("delete", "restore", "uninstall")
    for name, lines in COMMANDS.items():
        if name not in destroying:
            yield from _cases_of(name, lines)
    for program, commands in OTHERS.items():
        for name, lines in commands.items():
            for words in lines:
                yield Case(program, (*([name] if name else []), *words))
    for name in destroying:
        yield from _cases_of(name, COMMANDS[name])


def _cases_of(name: str, lines: Sequence[tuple[str, ...]]) -> Iterator[Case]:
    for words in lines:
        if name == "hook":
            for event in _hook_events(words[0]):
                yield Case("cortext", (name, *words), event)
        elif name == "mcp":
            yield from (Case("mcp", (tool,)) for tool in MCP_TOOLS)
        elif name == "status":
            yield Case("cortext", words)
        else:
            yield Case("cortext", (name, *words))


def _hook_events(tool: str) -> Iterator[str]:
    """Yield what a tool in this folder sends us, and what a stranger's settings, which call us, could send."""
    if tool not in ("claude", "gemini", "opencode", "codex"):
        yield json.dumps({"session_id": "x", "hook_event_name": "Stop", "cwd": "{cwd}"})
        return
    names = {"gemini": ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")}.get(
        tool, ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
    )
    prompts = (
        "hello",
        "/workspace.plan A topic",
        f"/workspace.resume {FIRST}",
        "/workspace.stop-conversation",
        "/workspace.x y",
    )
    key = "6e1f7b0c-0000-4000-8000-000000000001"
    for name in names:
        for prompt in prompts if name in ("UserPromptSubmit", "BeforeAgent") else prompts[:1]:
            command = f"<!-- cortext:command {prompt[1:].split(' ')[0]} -->x<!-- cortext:end -->"
            fields = {"session_id": key, "hook_event_name": name, "cwd": "{cwd}"}
            yield json.dumps({**fields, "prompt": command if tool == "gemini" and prompt[0] == "/" else prompt})
    yield json.dumps(
        {"session_id": key, "hook_event_name": names[-2], "cwd": "{cwd}", "transcript_path": "{outside}/messages.jsonl"}
    )
    yield json.dumps({"session_id": "../../x", "hook_event_name": names[1], "cwd": "{outside}", "prompt": "hello"})
    yield "[" * 100_000


# ── the world of one attack ──────────────────────────────────────────────────────────────────────────


class Arena:
    """Creates the worlds: an ordinary workspace and a home, copied for each attack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self._template = folder / "template"
        self.bin.mkdir(parents=True)
        for name, version in (
            ("claude", "2.1.325 (Claude Code)"),
            ("gemini", "0.1"),
            ("opencode", "1.0"),
            ("codex", "codex-cli 0.1"),
        ):
            program = self.bin / name
            # It prints its arguments, which are output of ours too.
            program.write_text(
                f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{version}"; exit 0; }}\nprintf "%s\\n" "$@" | cat -v\n'
            )
            program.chmod(0o755)
        world = self._world(self._template)
        world.repository.mkdir(parents=True)
        repositories.make_private(world.outside)
        repositories.make_home(world.home)
        ended = play(world, Case("cortext", ("init", "--ai", ALL_TOOLS)), self.bin)
        assert ended.code == 0, ended.said
        repositories.make_conversations(world.repository)
        for words in (("add", "-A"), ("commit", "-qm", "workspace")):
            subprocess.run(["git", "-C", world.repository, *words], check=True, env=environment(world, self.bin))
        shutil.rmtree(world.home)
        repositories.make_home(world.home)
        self.ordinary = tuple(every_path(world.repository))

    def _world(self, folder: Path) -> World:
        return World(folder / "repository", folder / "outside", folder / "home")

    def make(self, name: str) -> World:
        """Create a new world with this plant in it."""
        folder = self.folder / "world"
        if folder.exists():
            _remove(folder)
        shutil.copytree(self._template, folder, symlinks=True)
        world = self._world(folder)
        here = os.getcwd()
        if name.startswith("every "):
            _, way, path = name.split(" ", 2)
            link_out(path, way)(world)
        else:
            PLANTS[name](world)
        os.chdir(here)
        return world


def _remove(folder: Path) -> None:
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def environment(world: World, programs: Path) -> dict[str, str]:
    """Return the variables of a command: a home of its own, and no network beyond loopback."""
    return {
        "HOME": str(world.home),
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PAGER": "cat",
        "GIT_CONFIG_NOSYSTEM": "1",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
        "NO_PROXY": "127.0.0.1,localhost",
    }


class Ended(NamedTuple):
    """How a command ended: its exit code (negative: killed by a signal; None: it hung) and its output."""

    code: int | None
    said: str


def preload() -> None:
    """Import every command once, so that the forks have them."""
    hidden = map(cortext.value_of, (*cortext.HIDDEN.values(), "_listing:STATUS", "_resume_one"))
    for value in (*cortext.commands().values(), *hidden):
        load_command(value)
    for module in (
        "store.files.workspace",
        "services.library.search",
        "services.events.hooks",
        "services.resume.in_tool",
        "services.capture.capture",
    ):
        importlib.import_module(f"cortext.{module}")
    for tool in ("claude_code", "gemini_cli", "opencode", "codex"):
        importlib.import_module(f"cortext.tools.{tool}.adapter")
    for module in ("aur.main", "aur.open_session", "alfred.main", "alfred.commands"):
        importlib.import_module(f"cortext.agents.{module}")
    importlib.import_module("cortext.faces.mcp.context")


def play(world: World, case: Case, programs: Path) -> Ended:
    """Run one command on its own terminal."""
    leader, follower = pty.openpty()
    tty.setraw(follower)
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 500, 0, 0))
    with tempfile.TemporaryFile() as given:
        given.write(_filled_in(case.stdin, world))
        given.seek(0)
        child = os.fork()
        if child == 0:
            _become(world, case, programs, given.fileno(), follower)
    os.close(follower)
    said = bytearray()
    os.set_blocking(leader, False)
    deadline = time.monotonic() + _limits["deadline"]
    code: int | None = None
    ending = os.pidfd_open(child)
    watched = [ending, leader]
    while True:
        ready, _, _ = select.select(watched, [], [], max(0.0, deadline - time.monotonic()))
        if leader in ready and not _drain(leader, said):
            watched.remove(leader)  # the command has closed its terminal
        if ending in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
    os.close(ending)
    _drain(leader, said)
    os.close(leader)
    return Ended(code, said.decode("utf-8", "replace"))


def _filled_in(text: str, world: World) -> bytes:
    return text.replace("{cwd}", str(world.repository)).replace("{outside}", str(world.outside)).encode()


def _drain(leader: int, said: bytearray) -> bool:
    """Read what is there; return whether there may be more later."""
    while True:
        try:
            piece = os.read(leader, 1 << 16)
        except OSError as error:
            assert error.errno in (errno.EIO, errno.EAGAIN)
            return error.errno == errno.EAGAIN
        if not piece:
            return False
        said += piece


def _become(world: World, case: Case, programs: Path, given: int, terminal: int) -> None:
    """Run the command in the fork; never returns."""
    try:
        os.setsid()
        os.environ.clear()
        os.environ.update(environment(world, programs))
        os.chdir(world.repository)
        for number, descriptor in ((0, given), (1, terminal), (2, terminal)):
            os.dup2(descriptor, number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
        sys.executable = "/bin/true"  # background work is a separate command here
        sys.argv = [case.program, *case.words]
        if case.program == "mcp":
            _ask(case.words[0])
        from cortext.faces.terminal.run import run_process

        run_process({"cortext": cortext, "aur": aur, "alfred": alfred}[case.program].run)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(99)


def _ask(tool: str) -> None:
    """Call the MCP server once, as the server itself does."""
    from cortext.errors import CortextError
    from cortext.faces.mcp.context import Context as Served
    from cortext.faces.mcp.server import refusal
    from cortext.faces.mcp.tools import call

    given: dict[str, dict[str, Any]] = {
        "search_workspace": {"query": "retry budget"},
        "search_sessions": {"query": FORGED},
        "get_context": {"topic": "retry budget"},
        "get_decision_history": {"topic": "retry"},
        "get_session": {"session_id": FIRST},
        "why_line": {"file": "README.md", "line": 1},
        "touched_file": {"file": "README.md"},
        "save_session": {"session_id": FIRST, "summary": "where things stood"},
        "resume_session": {"session_id": FIRST},
    }
    try:
        answer = call(Served(os.getcwd(), lambda: None), tool, given.get(tool, {}))
        print(answer.text, json.dumps(answer.data, ensure_ascii=False))
    except CortextError as error:
        print(refusal(error))
    sys.stdout.flush()
    os._exit(0)


# ── judging ──────────────────────────────────────────────────────────────────────────────────────────


def fingerprint(world: World) -> str:
    """Hash everything that is the user's own: what is outside the repository, and private folders."""
    digest = hashlib.sha256()
    for top in (world.outside, world.home / ".ssh"):
        for path in sorted(top.rglob("*")):
            digest.update(f"{path} {path.lstat().st_mode}".encode())
            if path.is_file() and not path.is_symlink():
                digest.update(path.read_bytes())
    for folder in (".codex", ".claude", ".gemini", ".config/opencode"):
        for name in repositories.OWN:
            digest.update((world.home / folder / name).read_bytes())
    return digest.hexdigest()


def leaked_into(world: World) -> list[str]:
    """Return files of the repository, and of ours in the home, that contain private data."""
    found = []
    word = CANARY.encode()
    tops = [world.repository, *(world.home / name for name in (".local", ".cache", ".aurora"))]
    for top in tops:
        for folder, names, files in os.walk(top):
            names[:] = [name for name in names if not os.path.islink(os.path.join(folder, name))]
            for name in files:
                path = os.path.join(folder, name)
                if not os.path.islink(path) and os.path.isfile(path) and os.path.getsize(path) < 1 << 26:
                    with open(path, "rb") as file:
                        if word in file.read():
                            found.append(os.path.relpath(path, world.repository))
    return found


def is_packet(case: Case) -> bool:
    """Whether a model reads this command's output: only our own markers may work there."""
    words = case.words
    return case.program == "mcp" or "hook" in words[:1] or ("resume" in words[:1] and "--list" not in words)


def judge(name: str, case: Case, ended: Ended) -> Iterator[Finding]:
    """Yield what is wrong with how a command ended."""

    def finding(what: str) -> Finding:
        return Finding(name, str(case), what, ended.said[-2000:])

    if ended.code is None:
        yield finding(f"hangs: not done after {_limits['deadline']:g} s")
    elif ended.code not in CODES:
        yield finding(f"exits with {ended.code}")
    if "Traceback" in ended.said or "this is a bug in cortext" in " ".join(ended.said.split()):
        yield finding("crashes")
    if CANARY in ended.said:
        yield finding("prints private data")
    if case.words[:1] != ("hook",) and (found := CONTROL.search(ended.said)):  # a hook's output is JSON for a program
        yield finding(f"prints a control sequence: {found[0]!a}")
    if is_packet(case) and re.search(
        re.escape(END) + r"\s+" + FORGED + r"|" + FORGED + r"\s+" + re.escape(BEGIN), ended.said
    ):
        yield finding("prints a working marker")


def attack(arena: Arena, name: str, chosen: Sequence[Case]) -> list[Finding]:
    """Run these commands, one after the other, in a repository with this plant."""
    world = arena.make(name)
    before = fingerprint(world)
    found: list[Finding] = []
    log = world.home / ".local/state/cortext/hook.log"
    for case in chosen:
        began = time.monotonic()
        found += judge(name, case, play(world, case, arena.bin))
        if time.monotonic() - began > SLOW:
            print(f"slow: {name} | {case} | {time.monotonic() - began:.0f} s", flush=True)
        if fingerprint(world) != before:
            found.append(Finding(name, str(case), "changes files outside"))
            before = fingerprint(world)
        if case.words[:1] == ("hook",) and log.exists():
            last = log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
            if wrong := UNFORESEEN.match(last):
                found.append(
                    Finding(name, str(case), f"a hook crashes: {wrong[0]}", log.read_text(errors="replace")[-2000:])
                )
            log.unlink()
    found += [Finding(name, "any of them", f"stores private data: {path}") for path in leaked_into(world)]
    return found


def deal(names: Sequence[str], everything: Sequence[Case]) -> dict[str, list[Case]]:
    """Return two commands for each plant: always the same ones, and each command at least once."""
    mixed = sorted(everything, key=lambda case: zlib.crc32(f"{case}{case.stdin[:200]}".encode()))
    size = max(2, math.ceil(len(mixed) / max(1, len(names))))
    dealt = itertools.cycle(mixed)
    return {name: sorted(itertools.islice(dealt, size), key=everything.index) for name in names}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attack; return 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.safety.attack", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sample of the plants and of the commands")
    parser.add_argument("--part", type=int, metavar="N", help=f"with --quick: only the N-th of {PARTS} parts, from 0")
    parser.add_argument("--plant", default="", help="only plants with this in their name")
    parser.add_argument("--command", default="", help="only command lines that contain this")
    parser.add_argument("--verbose", action="store_true", help="also print the output")
    parser.add_argument("--deadline", type=float, default=DEADLINE, help="seconds that a command may take")
    options = parser.parse_args(arguments)
    _limits["deadline"] = options.deadline
    preload()
    started, runs, kept = time.monotonic(), 0, []
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        arena = Arena(Path(folder))
        everything = [case for case in cases() if options.command in str(case)]
        names = [*PLANTS, *_every(arena)]
        if options.quick:
            names = [name for name in names if is_quick(name)]
        dealt = deal(names, everything) if options.quick else dict.fromkeys(names, everything)
        names = [
            name for name in names[options.part :: PARTS if options.part is not None else 1] if options.plant in name
        ]
        for name in names:
            chosen = dealt[name]
            runs += len(chosen)
            for finding in attack(arena, name, chosen):
                kept.append(finding)
                print(f"FOUND: {finding.plant} | {finding.command} | {finding.what}", flush=True)
                if options.verbose and finding.said:
                    print("    " + ascii(finding.said[-1500:]), flush=True)
        _remove(Path(folder) / "world")
    print(f"{len(names)} repositories, {runs} commands, {len(kept)} findings, {time.monotonic() - started:.0f} s")
    return 1 if kept else 0


def _every(arena: Arena) -> Iterator[str]:
    for path in arena.ordinary:
        if path not in repositories.LINKED:
            yield f"every outside {path}"


def is_quick(name: str) -> bool:
    """Whether the quick version includes this one: every kind of plant, and each linked path in one way."""
    kind, _, path = name.partition(" ")
    if kind == "link":
        way, _, path = path.partition(" ")
        ways = ("outside", "home", "nothing", "itself", "zero")
        return way == ways[zlib.crc32(path.encode()) % 7 % 5] or (way == "outside" and "state" not in path)
    if kind in ("fifo", "folder", "socket", "unreadable"):
        return kind == ("fifo", "folder", "socket", "unreadable", "fifo")[zlib.crc32(path.encode()) % 5]
    return kind != "every"


if __name__ == "__main__":
    sys.exit(main())
