"""What the benchmarks share: rounds that take turns, medians with their spread, tables, and the peers' environment.

Absolute times say little on a shared machine. So everything is measured in short rounds that take turns, and told as
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
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(REPO, ".cache")
PEERS = ("openai-agents", "langgraph", "langgraph-checkpoint-sqlite", "google-adk")

# How long real messages are: these shares of 575 messages of three coding sessions are at most so many bytes.
SIZES = ((0.05, 101), (0.10, 131), (0.25, 191), (0.50, 314), (0.75, 980), (0.90, 2_586), (0.95, 6_267), (0.99, 18_745))
LONGEST = 60_000
WORDS = re.findall(
    r"\S+",
    "the retry budget is per host, not request: three tries 250 ms apart, then we give up with a clear error. "
    'def check(path: str) -> None: if not os.path.exists(path): raise ValueError(f"no {path}") # see DESIGN.md',
)
FOREIGN = ("größer", "→", "—", "日本語")
FOREIGN_SHARE = 0.15  # of those messages had a character beyond ASCII


class Spread(NamedTuple):
    """A median with the range around it."""

    median: float
    low: float
    high: float
    least: float
    most: float

    def show(self, form: str = "{:.2f}") -> str:
        """The median, the middle half of the rounds, and the range of all of them."""
        median, low, high, least, most = (form.format(value) for value in self)
        return f"{median} ({low}–{high}; {least}..{most})"


def spread(values: Sequence[float]) -> Spread:
    """Median, quartiles, least and most."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return Spread(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter], ordered[0], ordered[-1])


def in_turns(contenders: Mapping[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    """The seconds that each contender says it needed, round by round; who begins changes with the round."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            seconds[name].append(contenders[name](number))
    return seconds


def ratios(seconds: Sequence[float], base: Sequence[float]) -> Spread:
    """How fast something was beside its base: 1 is as fast, 0.5 takes twice the time. Round by round."""
    return spread([theirs / ours for ours, theirs in zip(seconds, base, strict=True)])


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns, the first to the left, as markdown."""
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
    """Texts as long as real messages are (median about 300 bytes, mean about 1.5 kB); always the same ones."""
    chance = random.Random(seed)
    return [_text(chance, _length(chance.random(), chance)) for _ in range(count)]


def _length(share: float, chance: random.Random) -> int:
    before = (0.0, 40)
    for point in SIZES:
        if share <= point[0]:
            return round(before[1] + (point[1] - before[1]) * (share - before[0]) / (point[0] - before[0]))
        before = point
    return chance.randrange(before[1], LONGEST)


def _text(chance: random.Random, length: int) -> str:
    words = chance.choices(WORDS, k=length // 5 + 1)
    if chance.random() < FOREIGN_SHARE:
        words[:0] = FOREIGN
    return " ".join(words)[:length]


def role_of(number: int) -> str:
    """The two sides take turns."""
    return "assistant" if number % 2 else "user"


def child_environment(**more: str) -> dict[str, str]:
    """Our environment without what a user would not have: compiled modules are cached, as on their machine."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    return {**kept, **more}


def environment(name: str, *requirements: str, renew: bool = False) -> str:
    """The Python of a throw-away environment in .cache, made with pip when it is not there."""
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
    """The Python that has the other programs' session stores."""
    return environment("bench-peers", *PEERS)


@contextmanager
def work_folder() -> Iterator[str]:
    """An empty folder on the file system of the repo, taken away afterwards."""
    os.makedirs(CACHE, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="bench-", dir=CACHE)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Worker:
    """A program that answers a line of JSON with a line of JSON, so that it can take turns with us."""

    def __init__(self, python: str, script: str, *words: str) -> None:
        path = os.path.join(REPO, "bench", script)
        self._process = subprocess.Popen(
            [python, path, *words], env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **question: Any) -> Any:
        """Send a question, wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the peer ended with {self._process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def arguments(about: str, **numbers: int) -> argparse.Namespace:
    """The command line: every number can be changed."""
    parser = argparse.ArgumentParser(description=about)
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    return parser.parse_args()
