"""Shared by the benchmarks of the `cortext` program: the installed program, a private home, cold processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from bench.common import REPO, child_environment, environment, role_of, spread, texts
from cortext.model.message import Message, Part
from cortext.model.session import Session

BARE = "python -c pass"
START = "2026-01-01T00:00:00Z"


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
