"""`cortext import`: compared with json.loads, from each tool, and with other programs."""

from __future__ import annotations

import glob
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from bench.common import (
    arguments,
    at_home,
    environment,
    home_environment,
    in_turns,
    installed,
    parser_of,
    print_table,
    ratios,
    spread,
    talk,
    work_folder,
)
from cortext.errors import NotFound
from cortext.model.message import Message
from cortext.services.capture.importing import ImportReport, ToolReport, capture_all
from cortext.services.capture.transcripts import work_for
from cortext.tools import registry
from cortext.tools.base import NativeWriter
from cortext.wiring.stores import Stores

UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# What an import writes. Our histories of Aider are in the data folder, too, and are what is imported.
OURS = (".local/share/cortext/home", ".local/state/cortext", ".cache/cortext")
MOST = 1.5  # times Claude Code's time for the same number of bytes
WRITTEN = (".local/share/cortext/home", ".local/state", ".cache", ".agentsview", ".config")


def renamed(raw: bytes, number: int, session: str, new: str) -> bytes:
    """Return a transcript with new ids."""
    made = {session.encode(): new.encode()}

    def replacement(match: re.Match[bytes]) -> bytes:
        old = match[0]
        if old not in made:
            made[old] = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{number} {old.decode()}")).encode()
        return made[old]

    return UUID.sub(replacement, raw)


def copies(sources: list[str], folder: str, size: int) -> list[str]:
    """Write copies with new ids, about `size` bytes in total, into a project folder; return their paths."""
    os.makedirs(folder)
    paths: list[str] = []
    while size > 0:
        source = sources[len(paths) % len(sources)]
        key = str(uuid.uuid4())
        raw = renamed(_read(source), len(paths), os.path.basename(source).removesuffix(".jsonl"), key)
        paths.append(os.path.join(folder, f"{key}.jsonl"))
        _write(paths[-1], raw)
        size -= len(raw)
    return paths


def one_big(source: str, folder: str, size: int) -> None:
    """Write one transcript that repeats another, with new record ids each time."""
    os.makedirs(folder)
    key = str(uuid.uuid4())
    raw, number = _read(source), 0
    with open(os.path.join(folder, f"{key}.jsonl"), "wb") as file:
        while file.tell() < size or not number:
            file.write(renamed(raw, number, os.path.basename(source).removesuffix(".jsonl"), key))
            number += 1


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, raw: bytes) -> None:
    with open(path, "wb") as file:
        file.write(raw)


class Times(NamedTuple):
    """Wall-clock and CPU seconds."""

    clock: float
    processor: float


class Watch:
    """Measures this process and the child processes it has waited for, since the watch was created."""

    def __init__(self) -> None:
        self._begin, self._used = time.perf_counter(), self._processor()

    def elapsed(self) -> Times:
        return Times(time.perf_counter() - self._begin, self._processor() - self._used)

    @staticmethod
    def _processor() -> float:
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in both)


def json_loads(paths: list[str]) -> Times:
    """Time `json.loads` over every line."""
    watch = Watch()
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                try:
                    json.loads(line)
                except ValueError:
                    continue
    return watch.elapsed()


def timed_import(home: str, tool: str = "claude") -> tuple[Times, ToolReport]:
    """Time an import of everything that a tool has in this home."""
    with at_home(home):
        adapter = registry.load(tool)
        watch = Watch()
        stores = Stores(home)
        work = work_for([adapter])
        capture = stores.capture()
        capture.remember_all()
        reports = ImportReport()
        for _ in capture_all(capture, work, reports):
            pass
        return watch.elapsed(), reports.tools[tool]


def start_over(home: str, names: Sequence[str] = (".local", ".cache", ".config", ".agentsview")) -> None:
    """Move everything imported so far aside, and flush it to disk."""
    aside = tempfile.mkdtemp(dir=os.path.dirname(home), prefix="aside-")
    for number, name in enumerate(names):
        if os.path.exists(os.path.join(home, name)):
            os.rename(os.path.join(home, name), os.path.join(aside, str(number)))
    os.sync()


def peak(command: list[str], home: str) -> float:
    """Return the peak memory of a process in MB."""
    process = subprocess.Popen(command, cwd=home, env=home_environment(home), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} exited with {status}")
    return usage.ru_maxrss / 1024


def peer(command: list[str], home: str) -> tuple[str, str]:
    """Return seconds and peak memory of another program's first import in this home, or why it could not run."""
    start_over(home)
    environ = {
        **home_environment(home),
        "AGENTSVIEW_NO_DAEMON": "1",
    }  # otherwise a server does the work and keeps running
    begin = time.perf_counter()
    try:
        process = subprocess.Popen(command, cwd=home, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        return f"cannot run here: {error}", ""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        return f"cannot run here: status {status}", ""
    return f"{time.perf_counter() - begin:.2f}", f"{usage.ru_maxrss / 1024:.0f}"


def run_import() -> None:
    """Importing transcripts: speed compared with `json.loads` over the same lines, memory, a second import, two peers.

    python -m bench import DIR… [--megabytes 60] [--big 60] [--rounds 5]

    The data: the Claude Code transcripts (`.jsonl`) below DIR, copied until there are about `--megabytes` of them; each
    copy gets new session and record ids (every UUID in it is replaced consistently).

    Reported both as wall-clock time and as CPU time of all processes, because an import uses several CPUs. Every round
    starts with an empty home. The previous one is moved aside, not deleted: a file system is busy for a while after
    very many deletions, and no real first import follows one.
    """
    parser = parser_of(run_import)
    parser.add_argument("folders", nargs="+", metavar="DIR")
    for name, value in (("megabytes", 60), ("big", 60), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    found = (glob.glob(os.path.join(folder, "**", "*.jsonl"), recursive=True) for folder in options.folders)
    sources = sorted(path for paths in found for path in paths)
    if not sources:
        sys.exit("no .jsonl transcripts below these folders")
    _, script = installed()
    with work_folder() as base:
        home, small, big = (os.path.join(base, name) for name in ("home", "small", "big"))
        paths = copies(sources, os.path.join(home, ".claude", "projects", "p"), options.megabytes << 20)
        size = sum(map(os.path.getsize, paths)) / 1e6
        again: list[float] = []
        used: dict[str, list[float]] = {"json.loads": [], "cortext import": []}

        def theirs(_: int) -> float:
            elapsed = json_loads(paths)
            used["json.loads"].append(elapsed.processor)
            return elapsed.clock

        def ours(_: int) -> float:
            start_over(home)
            elapsed, report = timed_import(home)
            if report.failed or report.created != len(paths):
                raise SystemExit(f"the import was incomplete: {report.failed[:3]}")
            again.append(timed_import(home)[0].clock * 1000 / len(paths))
            used["cortext import"].append(elapsed.processor)
            return elapsed.clock

        seconds = in_turns({"json.loads": theirs, "cortext import": ours}, options.rounds)
        one_big(sources[0], os.path.join(small, ".claude", "projects", "p"), 0)
        one_big(sources[0], os.path.join(big, ".claude", "projects", "p"), options.big << 20)
        peaks = {name: peak([script, "import", "--from", "claude"], where) for name, where in
                  (("small", small), ("big", big))}  # fmt: skip
        bin_folder = os.path.dirname(environment("bench-importers", "fast-resume", "agentsview"))
        peers = {
            "fast-resume --rebuild --list": peer([os.path.join(bin_folder, "fr"), "--rebuild", "--list"], home),
            "agentsview sync": peer([os.path.join(bin_folder, "agentsview"), "sync"], home),
        }
    print(f"\n{len(paths)} transcripts, {size:.0f} MB, copied from {len(sources)} with new ids (see the head")
    print(f"of bench/imports.py); {options.rounds} interleaved rounds: median (middle half; all rounds).\n")
    rows = [
        (
            name,
            spread(elapsed).show(),
            ratios(elapsed, seconds["json.loads"]).show(),
            "≥ 2" if "c" in name[:1] else "",
            f"{spread(used[name]).median:.2f}",
            ratios(used[name], used["json.loads"]).show(),
            "",
        )
        for name, elapsed in seconds.items()
    ]
    rows += [(name, elapsed, "", "", "", "", memory) for name, (elapsed, memory) in peers.items()]
    heads = ("first import", "s", "speed vs json.loads", "target", "CPU s", "speed by CPU", "peak MB")
    print_table(heads, rows)
    print(f"a second import of unchanged files: {spread(again).show()} ms per file (target < 1)")
    print(f"peak memory: one file of {os.path.getsize(sources[0]) / 1e6:.1f} MB {peaks['small']:.0f} MB, ", end="")
    print(f"one of {options.big} MiB {peaks['big']:.0f} MB")


def corpus(name: str, home: str, conversations: list[list[Message]]) -> float:
    """Write the conversations into the store of a tool; return how many megabytes that takes."""
    project = os.path.join(home, "work")
    os.makedirs(project)
    with at_home(home):
        tool = registry.load(name)
        if not isinstance(tool, NativeWriter):
            raise SystemExit(f"{name} cannot be written")
        for number, messages in enumerate(conversations):
            tool.write(messages, project=project, title=f"Conversation {number}")
        return sum(transcript.size for transcript in tool.transcripts()) / 1e6


def with_new_ids(messages: list[Message]) -> list[Message]:
    return [replace(message, id=str(uuid.uuid4())) for message in messages]


def run_import_tools() -> None:
    """Importing the same conversations from each tool that they can be written for, compared with Claude Code.

    python -m bench import_tools [--sessions 40] [--messages 200] [--rounds 5]

    Each tool gets the same conversations, of real lengths, from cortext's own writers, in a home of its own. What is
    timed is the whole import: finding, reading, copying and storing. Files differ in size for the same words, so both
    are reported: the CPU time for the same words, and for the same number of bytes.
    """
    options = arguments(run_import_tools, sessions=40, messages=200, rounds=5)
    said = talk(options.messages)
    conversations = [with_new_ids(said) for _ in range(options.sessions)]
    with work_folder() as base:
        homes = {name: os.path.join(base, name, "home") for name in registry.BUILT_IN}
        sizes = {}
        for name, home in list(homes.items()):
            try:
                sizes[name] = corpus(name, home, conversations)
            except NotFound as error:  # OpenCode's store is written by the program itself
                print(f"left out: {error.message}", file=sys.stderr)
                del homes[name]

        def importing(name: str, home: str, _: int) -> float:
            start_over(home, OURS)
            elapsed, report = timed_import(home, name)
            if report.failed or report.created != options.sessions:
                raise SystemExit(f"{name}: {report.created} of {options.sessions} sessions: {report.failed[:3]}")
            return elapsed.processor

        used = in_turns({name: partial(importing, name, home) for name, home in homes.items()}, options.rounds)
    rows = []
    for name, seconds in used.items():
        by_bytes = [value / sizes[name] for value in seconds]
        claude = [value / sizes["claude"] for value in used["claude"]]
        times = ratios(claude, by_bytes)
        missed = ": **missed**" if times.median > MOST else ""
        rows.append(
            (
                registry.title_of(name),
                f"{sizes[name]:.1f}",
                spread(seconds).show(),
                ratios(used["claude"], seconds).show(),
                times.show() + missed,
            )
        )
    print(f"\n{options.sessions} conversations of {options.messages} messages; median (middle half; all rounds)\n")
    print_table(("tool", "MB", "CPU s", "times Claude Code, same words", f"by bytes (target ≤ {MOST})"), rows)


def timed(command: list[str], home: str) -> tuple[float, str]:
    """Return the seconds of a cold process in this home, and its output."""
    environ = {**home_environment(home), "AGENTSVIEW_NO_DAEMON": "1"}  # else a server does the work and keeps running
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{command} exited with {done.returncode}: {done.stderr}")
    return seconds, done.stdout


def run_import_peers() -> None:
    """Importing the same conversations with cortext, fast-resume and agentsview: every tool that one of the two reads.

    python -m bench import_peers [--sessions 30] [--messages 200] [--rounds 5]

    The corpus is that of `bench import_tools`. Each program runs as a cold process in a home with one tool's
    conversations, in turns; what it imported before is moved aside. A program that lists none of them does not read
    that tool. agentsview and cortext store the messages; fast-resume builds a search index of part of the text,
    cortext's is built at the first search.
    """
    options = arguments(run_import_peers, sessions=30, messages=200, rounds=5)
    _, cortext = installed()
    folder = os.path.dirname(environment("bench-importers", "fast-resume", "agentsview"))
    programs = {
        "cortext": [cortext, "import", "--from", "NAME"],
        "fast-resume": [os.path.join(folder, "fr"), "--rebuild", "--list"],
        "agentsview": [os.path.join(folder, "agentsview"), "sync"],
    }
    conversations = [with_new_ids(talk(options.messages)) for _ in range(options.sessions)]
    found = {
        "cortext": re.compile(rf"\b{options.sessions}\b"),
        "fast-resume": re.compile(rf"of {options.sessions} sessions"),
        "agentsview": re.compile(rf"Database: {options.sessions} sessions"),
    }

    def importing(program: str, name: str, home: str, reads: dict[str, bool], _: int) -> float:
        start_over(home, WRITTEN)
        seconds, printed = timed([name if word == "NAME" else word for word in programs[program]], home)
        reads[program] = found[program].search(printed) is not None
        return seconds

    rows = []
    with work_folder() as base:
        for name in registry.BUILT_IN:
            home = os.path.join(base, name, "home")
            try:
                corpus(name, home, conversations)
            except NotFound:  # OpenCode's store is written by the program itself
                continue
            reads: dict[str, bool] = {}

            seconds = in_turns(
                {program: partial(importing, program, name, home, reads) for program in programs}, options.rounds
            )
            shown = [
                f"{spread(seconds[peer]).median:.2f}; {ratios(seconds['cortext'], seconds[peer]).show()}"
                if reads[peer]
                else "does not read it"
                for peer in ("fast-resume", "agentsview")
            ]
            if not reads["cortext"]:
                raise SystemExit(f"{name}: the import was incomplete")
            rows.append((registry.title_of(name), f"{spread(seconds['cortext']).median:.2f}", *shown))
    print(
        f"\n{options.sessions} conversations of {options.messages} messages, {options.rounds} rounds: seconds; ", end=""
    )
    print("times as long as cortext (middle half; all rounds)\n")
    print_table(("tool", "cortext, s", "fast-resume", "agentsview"), rows)
