"""The agents on the command line and on Telegram: a turn, a list, and what `aur` adds to a reply."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from unittest import mock

from bench.common import (
    BARE,
    REPO,
    arguments,
    cold,
    environment,
    home_environment,
    in_turns,
    print_table,
    role_of,
    spread,
    texts,
    work_folder,
)
from cortext.agents.assistant.build import build_assistant, build_worker
from cortext.agents.assistant.turn import Assistant
from cortext.agents.choosing import MaskingModel
from cortext.agents.llm.base import Event, Request
from cortext.agents.llm.conversation import turns_of_request
from cortext.agents.talk.context import View
from cortext.agents.talk.turn import Talk
from cortext.model.answer import AnswerText, Done
from cortext.model.message import USER, Message
from cortext.model.session import Session
from cortext.services.library.backfill import embed_many, without_vector
from cortext.store.files.lines import encode_message
from cortext.store.files.log import complete
from cortext.store.files.spawn import SpawnStore
from cortext.wiring.stores import Stores
from cortext.wiring.stores import embedder as static_embedder

FEW_TARGET, MANY_TARGET, PROMPT_TARGET, TURN_TARGET = "≤ 4", "≤ 12", "≤ 250 ms beyond", "< 20 ms"


class Instant:
    """A model that answers at once and records when it was asked."""

    name, context, takes_tools = "bench/instant", 200_000, True

    def __init__(self) -> None:
        self.asked = 0.0
        self.answered = 0.0

    def stream(self, request: Request) -> Iterator[Event]:
        self.asked = time.perf_counter()
        yield AnswerText("That is a good question. " * 20)
        self.answered = time.perf_counter()
        yield Done()

    def cancel(self) -> None: ...

    def warm(self) -> None: ...


class History:
    """An assistant with a history of sessions."""

    def __init__(self, folder: str, sessions: int, messages: int) -> None:
        # Written directly as files: the store would produce the same ones, but take an hour.
        self.root = os.path.join(folder, "data", "alfred", "sessions")
        words = texts(997)
        for number in range(sessions):
            path = os.path.join(self.root, f"sess_{number:06d}")
            os.makedirs(path, mode=0o700)
            timestamp = f"2026-{1 + number % 9:02d}-{1 + number % 28:02d}T10:00:00.000Z"
            with open(os.path.join(path, "meta.json"), "w", encoding="utf-8") as file:
                times = f'"created_at": "{timestamp}", "last_active": "{timestamp}"'
                file.write(f'{{"session_id": "sess_{number:06d}", {times}}}\n')
            with open(os.path.join(path, "current.jsonl"), "wb") as log:
                for seq in range(messages):
                    text = words[(number * messages + seq) % len(words)]
                    message = complete(Message(role=role_of(seq), content=text, timestamp=timestamp), seq)
                    log.write(encode_message(message, b'"idx": %d, ' % seq))
        self.folder = folder
        self.enter()
        self.stores = Stores(folder)
        self.assistant: Assistant = build_assistant(self.stores)
        self.sessions, self.messages = sessions, messages
        self.model = Instant()
        for number in range(40):
            self.assistant.memory.remember(f"fact number {number}: the retry budget of service {number} is {number} s")

    def enter(self) -> None:
        """Point the XDG variables at this assistant's files."""
        for name in ("DATA", "CACHE", "STATE", "CONFIG"):
            os.environ[f"XDG_{name}_HOME"] = os.path.join(self.folder, name.lower())

    def turn(self, number: int) -> tuple[float, float]:
        """Run one turn; return the seconds until the model is asked, and from its answer until that is stored."""
        chat = f"tg_{number % 50}"
        began = time.perf_counter()
        session_id, _ = self.assistant.sessions.ensure(chat)
        talk = self.assistant.talk(session_id, self.model)
        self.assistant.say(talk, Message(role=USER, content=f"question {number}: what about the retry budget?"))
        for _ in talk.answer():
            pass
        return self.model.asked - began, time.perf_counter() - self.model.answered

    def activate_sessions(self) -> None:
        """Make a session of the history the active one of every chat."""
        for number in range(50):
            self.assistant.sessions.chats.activate(f"tg_{number}", f"sess_{number * self.sessions // 50:06d}")


def run_alfred() -> None:
    """The assistant: the overhead of a turn, the cost of the worker, and the rate at which vectors are made.

    `python -m bench alfred [--sessions 10000] [--messages 50] [--turns 60]` creates a history of 100 sessions and a
    large one under .cache, and alternates between the two. A turn is measured in two parts: from the user's message to
    the request to the model, and from the model's reply until it is stored; the model itself answers at once.
    """
    given = arguments(run_alfred, sessions=10_000, messages=50, turns=60, rounds=5)
    with work_folder() as small_folder, work_folder() as large_folder:
        histories = {}
        for name, folder, sessions in (
            ("100", small_folder, 100),
            (f"{given.sessions:,}", large_folder, given.sessions),
        ):
            began = time.perf_counter()
            histories[name] = History(folder, sessions, given.messages)
            histories[name].activate_sessions()
            print(f"{sessions:,} sessions of {given.messages} messages written in {time.perf_counter() - began:.0f} s")
        _turns(histories, given.turns, given.rounds)
        _backfill(histories, given.rounds)
        _worker(histories, given.rounds)


def _turns(histories: dict[str, History], turns: int, rounds: int) -> None:
    measured: dict[str, list[float]] = {name: [] for name in histories}

    def contender(name: str, history: History, _: int) -> float:
        history.enter()
        seconds = 0.0
        for number in range(turns):
            before, after = history.turn(number)
            measured[name].append(1000 * (before + after))
            seconds += before + after
        return seconds

    in_turns({name: partial(contender, name, history) for name, history in histories.items()}, rounds)
    rows = []
    for name, values in measured.items():
        ordered = sorted(values)
        rows.append(
            [name, *(f"{ordered[int(len(ordered) * share)]:.2f}" for share in (0.5, 0.95, 0.99)), f"{ordered[-1]:.2f}"]
        )
    rows.append(_floor(turns * rounds))
    print("\nCost of a turn without the model, ms (a turn stores two messages, each flushed)")
    print_table(["sessions", "p50", "p95", "p99", "max"], rows)


def _floor(count: int) -> list[str]:
    """Time two bare writes with a flush each: the lower bound of a turn on this disk."""
    values = []
    with work_folder() as folder, open(os.path.join(folder, "log"), "ab", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            for _ in range(2):
                file.write(b"x" * 600)
                os.fsync(file.fileno())
            values.append(1000 * (time.perf_counter() - began))
    values.sort()
    return [
        "two bare flushes",
        *(f"{values[int(count * share)]:.2f}" for share in (0.5, 0.95, 0.99)),
        f"{values[-1]:.2f}",
    ]


def _backfill(histories: dict[str, History], rounds: int) -> None:
    history = list(histories.values())[-1]
    history.enter()
    embedder = static_embedder()
    embedder.embed(["warm"] * 10)
    store = history.assistant.store
    rates, cpu_rates = [], []
    for number in range(rounds):
        names = [f"sess_{number * 60 + index + 1:06d}" for index in range(60)]
        began, cpu = time.perf_counter(), time.process_time()
        done = 0
        for start in range(0, 60, 10):
            batch = {name: without_vector(store, name, embedder.name) for name in names[start : start + 10]}
            done += embed_many(store, embedder, batch)
        rates.append(done / (time.perf_counter() - began))
        cpu_rates.append(done / (time.process_time() - cpu))
    print("Vectors made and stored, messages per second")
    rows = [["wall clock", spread(rates).show("{:,.0f}")], ["CPU time", spread(cpu_rates).show("{:,.0f}")]]
    print_table(["", "per second"], rows)


def _worker(histories: dict[str, History], rounds: int) -> None:
    rows = []
    for name, history in histories.items():
        history.enter()
        worker = build_worker(history.stores, history.assistant)
        began = time.perf_counter()
        worker._listing.refresh()
        for chore in ("embed", "summarise"):
            for due in worker._jobs.due(chore):
                worker._jobs.settled(chore, due)  # as if no session were due
        print(f"{name} sessions: the list was built in {time.perf_counter() - began:.1f} s")
        passes = []
        for _ in range(rounds * 4):
            began = time.perf_counter()
            done = worker.run()
            passes.append(1000 * (time.perf_counter() - began))
            assert not done.embedded
            assert not done.summarised
        rows.append([name, spread(passes).show("{:.1f}")])
    print("A pass of the worker with nothing to do, ms")
    print_table(["sessions", "per pass"], rows)


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


class InstantModel:
    """A model without cost: it converts the request to a provider's format and answers at once."""

    name, context, takes_tools = "test/instant", 1_000_000, False

    def stream(self, request: Request) -> Iterator[Event]:
        """Answer in one piece."""
        turns_of_request(request)
        yield AnswerText("Three tries, then a clear error.")
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
            talk = Talk(writer, view, MaskingModel(InstantModel()))

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


def run_aur() -> None:
    """`aur`: the list, the first prompt, and the overhead of a turn.

        python -m bench aur [--rounds 15] [--few 100] [--many 10000] [--turns 5000]

    List and prompt are cold processes, compared with a bare `python -c pass` of the same round. The prompt is read from
    a pty. A turn is measured in this process: the message is stored, the context is built, masked and converted to a
    provider's format, an instant answer arrives in one piece and is stored; compared with two bare appends with fsync.
    """
    options = arguments(run_aur, rounds=15, few=100, many=10_000, turns=5_000)
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
