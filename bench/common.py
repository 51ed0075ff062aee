"""Shared by the benchmarks: interleaved rounds, medians with their spread, tables, environments, cold processes.

Absolute times say little on a shared machine. So everything is measured in short interleaved rounds, and reported as
the median over rounds of a ratio to something measured in the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import getdoc
from typing import Any, NamedTuple

from cortext.model.message import Message, Part
from cortext.model.session import Session

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(REPO, ".cache")
PEER_SESSIONS = os.path.join(REPO, "bench", "peer_sessions.py")
PEERS = ("openai-agents", "langgraph", "langgraph-checkpoint-sqlite", "google-adk")
# Percentiles of the length in bytes of 575 messages from three real coding sessions.
SIZES = ((0.05, 101), (0.10, 131), (0.25, 191), (0.50, 314), (0.75, 980), (0.90, 2_586), (0.95, 6_267), (0.99, 18_745))
LONGEST = 60_000
WORDS = re.findall(
    r"\S+",
    "the retry budget is per host, not request: three tries 250 ms apart, then we give up with a clear error. "
    'def check(path: str) -> None: if not os.path.exists(path): raise ValueError(f"no {path}") # see DESIGN.md',
)
FOREIGN = ("größer", "→", "—", "日本語")
FOREIGN_SHARE = 0.15  # of those messages had a character beyond ASCII
BARE = "python -c pass"
START = "2026-01-01T00:00:00Z"


class Spread(NamedTuple):
    """A median with the range around it."""

    median: float
    low: float
    high: float
    least: float
    most: float

    def show(self, form: str = "{:.2f}") -> str:
        """Format the median, the interquartile range and the full range."""
        median, low, high, least, most = (form.format(value) for value in self)
        return f"{median} ({low}–{high}; {least}..{most})"


def spread(values: Sequence[float]) -> Spread:
    """Return the median, quartiles, minimum and maximum."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return Spread(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter], ordered[0], ordered[-1])


def in_turns(contenders: Mapping[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds each contender reports for each round; the starting order rotates."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            seconds[name].append(contenders[name](number))
    return seconds


def ratios(seconds: Sequence[float], base: Sequence[float]) -> Spread:
    """Return the speed relative to the base, round by round: 1 is as fast, 0.5 takes twice the time."""
    return spread([theirs / ours for ours, theirs in zip(seconds, base, strict=True)])


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a markdown table; the first column is left-aligned, the others right-aligned."""
    table = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for number, row in enumerate(table):
        cells = [
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("| " + " | ".join(cells) + " |")
        if not number:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print()


def texts(count: int, seed: int = 1) -> list[str]:
    """Return reproducible texts with the lengths of real messages (median about 300 bytes, mean about 1.5 kB)."""
    generator = random.Random(seed)
    return [_text(generator, _length(generator.random(), generator)) for _ in range(count)]


def lengths(count: int, seed: int = 1) -> list[int]:
    """Return the lengths in bytes of so many real messages."""
    generator = random.Random(seed)
    return [_length(generator.random(), generator) for _ in range(count)]


def _length(share: float, generator: random.Random) -> int:
    before = (0.0, 40)
    for point in SIZES:
        if share <= point[0]:
            return round(before[1] + (point[1] - before[1]) * (share - before[0]) / (point[0] - before[0]))
        before = point
    return generator.randrange(before[1], LONGEST)


def _text(generator: random.Random, length: int) -> str:
    words = generator.choices(WORDS, k=length // 5 + 1)
    if generator.random() < FOREIGN_SHARE:
        words[:0] = FOREIGN
    return " ".join(words)[:length]


def role_of(number: int) -> str:
    """Return `user` and `assistant` alternately."""
    return "assistant" if number % 2 else "user"


def child_environment(**more: str) -> dict[str, str]:
    """Return our environment without developer settings, so that compiled modules are cached as for a user."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    return {**kept, **more}


def environment(name: str, *requirements: str, renew: bool = False) -> str:
    """Return the Python of a disposable environment in .cache, which pip creates if it is missing."""
    folder = os.path.join(CACHE, name)
    python = os.path.join(folder, "bin", "python")
    stamp = os.path.join(folder, "installed")
    wanted = "\n".join(requirements)
    if not renew and _read(stamp) == wanted:
        return python
    print(f"setting up .cache/{name} …", file=sys.stderr)
    if not os.path.exists(python):
        venv.create(folder, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    result = subprocess.run([*pip, *requirements], env=child_environment(), stderr=subprocess.PIPE, check=False)
    if result.returncode:
        raise SystemExit(result.stderr.decode("utf-8", "replace"))
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)
    return python


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def peers() -> str:
    """Return the Python that has the other frameworks' session stores installed."""
    return environment("bench-peers", *PEERS)


@contextmanager
def work_folder() -> Iterator[str]:
    """Create an empty folder on the repository's file system, and delete it afterwards."""
    os.makedirs(CACHE, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="bench-", dir=CACHE)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Worker:
    """A child process that answers one line of JSON with another, so that its rounds can be interleaved with ours."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            command, cwd=REPO, env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **question: Any) -> Any:
        """Send a request and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the peer exited with {self._process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        """Close its input and wait for it to exit."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def parser_of(run: Callable[[], object]) -> argparse.ArgumentParser:
    """Return the command line of a measurement: its docstring is the help."""
    name = run.__name__.removeprefix("run_")
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=f"python -m bench {name}", description=getdoc(run), formatter_class=form)


def arguments(run: Callable[[], None], **numbers: int) -> argparse.Namespace:
    """Parse the command line; each number becomes an option with that default."""
    parser = parser_of(run)
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    return parser.parse_args()


def installed() -> tuple[str, str]:
    """Return Python and `cortext` of an environment with this working tree, reinstalled each time and not editable."""
    python = environment("bench-faces", "--force-reinstall", "--no-deps", REPO, renew=True)
    environment("bench-faces", "msgspec", renew=True)
    return python, os.path.join(os.path.dirname(python), "cortext")


def home_environment(home: str) -> dict[str, str]:
    """Return the environment of a process whose home is this folder."""
    more = dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), "")
    kept = child_environment(HOME=home, **more)
    return {name: value for name, value in kept.items() if not name.startswith(("CORTEXT_", "CLAUDE_"))}


@contextmanager
def at_home(home: str) -> Iterator[None]:
    """Run this process with that home inside the `with` block."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(home_environment(home))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def cold(command: Sequence[str], folder: str, home: str, stdin: bytes = b"") -> Callable[[int], float]:
    """Return a contender that times a whole process in this folder."""
    env = home_environment(home)

    def run(_: int) -> float:
        begin = time.perf_counter()
        result = subprocess.run(command, cwd=folder, env=env, input=stdin, capture_output=True, check=False)
        seconds = time.perf_counter() - begin
        if result.returncode:
            raise SystemExit(f"{command} exited with {result.returncode}: {result.stderr.decode('utf-8', 'replace')}")
        return seconds

    return run


def rows_beyond(seconds: Mapping[str, Sequence[float]], target: str) -> list[tuple[str, str, str, str]]:
    """Return a row per command: the time of the whole process, and the time beyond the bare start of the same round."""
    rows = []
    for name, needed in seconds.items():
        beyond = spread([(ours - bare) * 1000 for ours, bare in zip(needed, seconds[BARE], strict=True)])
        whole = spread([value * 1000 for value in needed])
        own = name != BARE
        rows.append((name, whole.show("{:.0f}"), beyond.show("{:.0f}") if own else "", target if own else ""))
    return rows


def talk(count: int) -> list[Message]:
    """Return a coding conversation with real lengths: a question, a tool call, its result, an answer, and so on."""
    said = texts(count)
    messages = []
    for number, text in enumerate(said):
        stamp = f"2026-01-{1 + number // 1440 % 28:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"
        turn = number % 4
        if turn == 1:
            path = f"src/module_{number % 97}.py"
            call = Part(type="tool_call", name="Read", id=f"call_{number}", input={"file_path": path})
            messages.append(Message(role="assistant", content=text, timestamp=stamp, parts=[call]))
        elif turn == 2:
            result = Part(type="tool_result", call_id=f"call_{number - 1}", output=text)
            messages.append(Message(role="tool", content="", timestamp=stamp, parts=[result]))
        else:
            messages.append(Message(role=role_of(number), content=text, timestamp=stamp))
    return messages


def session(number: int, title: str = "") -> Session:
    """Return the metadata of a paused conversation."""
    return Session(
        id=f"{number:05}-brainstorm-topic-{number}",
        type="brainstorm",
        title=title or f"Topic {number}: retry budget and its limits",
        status="paused",
        created_at=START,
        last_active=START,
    )
