"""`aur`: the list, the first prompt, and the overhead of a turn.

    python -m bench.aur [--rounds 15] [--few 100] [--many 10000] [--turns 5000]

List and prompt are cold processes, compared with a bare `python -c pass` of the same round. The prompt is read from a
pty. A turn is measured in this process: the message is stored, the context is built, masked and converted to a
provider's format, an instant answer arrives in one piece and is stored; compared with two bare appends with fsync.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Callable, Iterator
from unittest import mock

from bench.common import (
    REPO,
    arguments,
    environment,
    in_turns,
    print_table,
    role_of,
    spread,
    texts,
    work_folder,
)
from bench.faces import BARE, cold, home_environment
from cortext.agents.choosing import Masked
from cortext.agents.llm.base import Done, Event, Request, Text
from cortext.agents.llm.conversation import turns
from cortext.agents.talk.context import View
from cortext.agents.talk.turn import Talk
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.store.files.spawn import SpawnStore

FEW_TARGET, MANY_TARGET, PROMPT_TARGET, TURN_TARGET = "≤ 4", "≤ 12", "≤ 250 ms beyond", "< 20 ms"


def installed() -> tuple[str, str]:
    """Return Python and `aur` of an environment with this working tree, reinstalled each time and not editable."""
    python = environment("bench-aur", "--force-reinstall", "--no-deps", REPO, renew=True)
    environment("bench-aur", "msgspec", "prompt_toolkit", "ollama", renew=True)
    return python, os.path.join(os.path.dirname(python), "aur")


def store_of(home: str) -> SpawnStore:
    """Return the store of the user with this home."""
    return SpawnStore(os.path.join(home, ".aurora", "spawn", "sessions"))


def fill(home: str, count: int) -> None:
    """Create sessions of two turns over many days; most completed, some interrupted."""
    store = store_of(home)
    with mock.patch("os.fsync"), mock.patch("cortext.io.durable.Calls.fsync", staticmethod(lambda _: None)):
        for number in range(count):
            day = f"20{24 + number // 336 % 3}-{1 + number // 28 % 12:02}-{1 + number % 28:02}T10:00:00Z"
            status = "active" if number % 10 == 0 else "completed"
            agent = ("qa-test", "architect", "writer")[number % 3]
            store.create(Session(id=f"session-{number:06}", agent=agent, status=status, created_at=day))
            said = (("user", f"What about topic {number}?"), ("assistant", "Three tries, then a clear error."))
            store.append(
                f"session-{number:06}", *(Message(role=role, content=text, timestamp=day) for role, text in said)
            )


def prompt(command: list[str], folder: str, home: str, label: bytes) -> Callable[[int], float]:
    """Return a contender that times a process from its start until the prompt is on its terminal."""
    env = {**home_environment(home), "TERM": "xterm-256color", "CORTEXT_MODEL": "ollama/none"}

    def run(_: int) -> float:
        begin = time.perf_counter()
        pid, terminal = pty.fork()
        if not pid:
            os.chdir(folder)
            os.execve(command[0], command, env)
        try:
            seen = b""
            while label not in seen:
                if not select.select([terminal], [], [], 20)[0]:
                    raise SystemExit(f"no prompt within 20 s: {seen!r}")
                seen += os.read(terminal, 65536)
            return time.perf_counter() - begin
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)

    return run


class Instant:
    """A model without cost: it converts the request to a provider's format and answers at once."""

    name, context, takes_tools = "test/instant", 1_000_000, False

    def stream(self, request: Request) -> Iterator[Event]:
        """Answer in one piece."""
        turns(request)
        yield Text("Three tries, then a clear error.")
        yield Done()

    def cancel(self) -> None:
        """Do nothing: no request is ever in progress."""

    def warm(self) -> None:
        """Do nothing: there is nothing to import."""


def turn_costs(folder: str, count: int, rounds: int) -> list[tuple[str, ...]]:
    """Compare a turn early and at turn `count` with two bare durable appends."""
    store = SpawnStore(os.path.join(folder, "sessions"))
    real = texts(2 * count)
    short = [text[:340] for text in real]  # about 60 tokens on average, so many more of them fit the context
    rows: list[tuple[str, ...]] = []
    kinds = (("turn 10", 20, real), (f"turn {count:,}", 2 * count, real), (f"turn {count:,}, short", 2 * count, short))
    for number, (name, before, said) in enumerate(kinds):
        session_id = f"long-{number}"
        store.create(Session(id=session_id, agent="qa-test"))
        messages = [Message(role=role_of(index), content=text) for index, text in enumerate(said[:before])]
        store.append(session_id, *messages)
        with store.open(session_id) as writer, open(os.path.join(folder, "bare"), "ab") as bare:
            view = View()
            begin = time.perf_counter()
            view.load(store.read(session_id))
            loaded = (time.perf_counter() - begin) * 1000
            talk = Talk(writer, view, Masked(Instant()))

            def one(number: int, talk: Talk = talk, said: list[str] = said) -> float:
                begin = time.perf_counter()
                talk.say(said[number % len(said)])
                for _ in talk.answer():
                    pass
                return time.perf_counter() - begin

            def two_appends(number: int, bare: object = bare) -> float:
                assert hasattr(bare, "fileno")
                begin = time.perf_counter()
                for _ in range(2):
                    os.write(bare.fileno(), b"x" * 400)
                    os.fsync(bare.fileno())
                return time.perf_counter() - begin

            one(0)  # not measured: the first request of a resumed session masks the whole context
            seconds = in_turns({"turn": one, "bare": two_appends}, rounds)
        costs = sorted(value * 1000 for value in seconds["turn"])
        beside = [ours / base for ours, base in zip(seconds["turn"], seconds["bare"], strict=True)]
        rows.append(
            (
                name,
                spread(costs).show(),
                f"{costs[int(len(costs) * 0.95)]:.2f}",
                spread(beside).show("{:.1f}"),
                f"{view.turns} ({view.percent} %)",
                f"{loaded:.0f}",
                TURN_TARGET,
            )
        )
    return rows


def main() -> None:
    options = arguments(__doc__ or "", rounds=15, few=100, many=10_000, turns=5_000)
    python, script = installed()
    rows = []
    with work_folder() as base:
        for count, target in ((options.few, FEW_TARGET), (options.many, MANY_TARGET)):
            home = os.path.join(base, f"home-{count}")
            fill(home, count)
            contenders = {
                BARE: cold([python, "-c", "pass"], base, home),
                "list": cold([script, "spawn", "--list-sessions"], base, home),
            }
            if count == options.few:
                # Each prompt creates a session: use another home, so that the list above stays unchanged.
                other = os.path.join(base, "home-prompt")
                fill(other, count)
                contenders["prompt"] = prompt([script, "spawn", "-i"], base, other, b"assistant>")
                contenders["list, one new session"] = cold([script, "spawn", "--list-sessions"], base, other)
            for contend in contenders.values():
                contend(0)  # write the compiled files and build the list once
            seconds = in_turns(contenders, options.rounds)
            for name in list(contenders)[1:]:
                pairs = list(zip(seconds[name], seconds[BARE], strict=True))
                rows.append(
                    (
                        f"{count:,} sessions: {name}",
                        spread([value * 1000 for value in seconds[name]]).show("{:.0f}"),
                        spread([ours / bare for ours, bare in pairs]).show(),
                        spread([(ours - bare) * 1000 for ours, bare in pairs]).show("{:.0f}"),
                        {"list": target, "prompt": PROMPT_TARGET}.get(name, ""),
                    )
                )
        costs = turn_costs(base, options.turns, max(options.rounds, 40))
    print(f"\nWhole processes, {options.rounds} interleaved rounds: median (middle half; all rounds).\n")
    print_table(("command", "ms", "times the bare start", "ms beyond it", "target"), rows)
    heads = ("overhead of a turn", "ms", "p95", "times two bare appends", "turns in context", "load, ms", "target")
    print_table(heads, costs)


if __name__ == "__main__":
    main()
