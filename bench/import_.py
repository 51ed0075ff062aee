"""Importing transcripts: speed compared with `json.loads` over the same lines, memory, a second import, two peers.

python -m bench.import_ DIR… [--megabytes 60] [--big 60] [--rounds 5]

The data: the Claude Code transcripts (`.jsonl`) below DIR, copied until there are about `--megabytes` of them; each
copy gets new session and record ids (every UUID in it is replaced consistently).

Reported both as wall-clock time and as CPU time of all processes, because an import uses several CPUs. Every round
starts with an empty home. The previous one is moved aside, not deleted: a file system is busy for a while after very
many deletions, and no real first import follows one.
"""

from __future__ import annotations

import argparse
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
from typing import NamedTuple

from bench.common import environment, in_turns, print_table, ratios, spread, work_folder
from bench.faces import at_home, home_environment, installed
from cortext.services.capture.capture import ToolReport
from cortext.services.capture.importing import capture_all
from cortext.services.capture.transcripts import work_for
from cortext.tools import registry
from cortext.wiring.stores import Stores

UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


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


def run_import(home: str, tool: str = "claude") -> tuple[Times, ToolReport]:
    """Time an import of everything that a tool has in this home."""
    with at_home(home):
        adapter = registry.load(tool)
        watch = Watch()
        stores = Stores(home)
        work = work_for([adapter])
        capture = stores.capture()
        capture.remember_all()
        reports: dict[str, ToolReport] = {}
        for _ in capture_all(capture, work, reports):
            pass
        return watch.elapsed(), reports[tool]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
            elapsed, report = run_import(home)
            if report.failed or report.created != len(paths):
                raise SystemExit(f"the import was incomplete: {report.failed[:3]}")
            again.append(run_import(home)[0].clock * 1000 / len(paths))
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
    print(f"of bench/import_.py); {options.rounds} interleaved rounds: median (middle half; all rounds).\n")
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


if __name__ == "__main__":
    main()
