"""Commands as cold processes, minus the bare start of the same Python: short ones, hooks, lists, a long packet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable
from unittest import mock

from bench.common import (
    BARE,
    arguments,
    at_home,
    cold,
    home_environment,
    in_turns,
    installed,
    print_table,
    role_of,
    rows_beyond,
    session,
    spread,
    talk,
    texts,
    work_folder,
)
from cortext.model.message import Message
from cortext.model.session import Origin
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.registry import BUILT_IN
from cortext.wiring.stores import Stores

CONVERSATIONS = 20
MESSAGES = 40
COMMAND_BUDGET = 120  # ms beyond the bare start
HOOK_BUDGET = 100  # ms in all
HOOK = "hook claude (UserPromptSubmit)"
TARGETS = (4, 8)


def run_startup() -> None:
    """The short commands and a hook on a small store, as cold processes, against their time budgets.

    python -m bench startup [--rounds 20]

    A short command may take 120 ms beyond a bare `python -c pass`, a hook 100 ms in all. Exits with 1 if a median
    exceeds its budget.
    """
    options = arguments(run_startup, rounds=20)
    python, script = installed()
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        fill(folder, CONVERSATIONS)
        key = str(uuid.uuid4())
        talk = Transcript(os.path.join(home, ".claude", "projects", "p", f"{key}.jsonl"), key, folder)
        talk.say(texts(MESSAGES))
        prepare(folder, home, talk, number=CONVERSATIONS + 1)
        event = {"session_id": key, "transcript_path": talk.path, "cwd": folder}
        prompt = payload({**event, "prompt": "And what about the retry budget?"}, "UserPromptSubmit")
        contenders: dict[str, Callable[[int], float]] = {
            BARE: cold([python, "-c", "pass"], folder, home),
            "cortext --help": cold([script, "--help"], folder, home),
            "cortext doctor": cold([script, "doctor"], folder, home),
            "cortext list": cold([script, "list"], folder, home),
            "cortext resume ID --print": cold([script, "resume", f"{CONVERSATIONS + 1:05}", "--print"], folder, home),
            HOOK: cold([script, "hook", "claude"], folder, home, prompt),
        }
        for contend in contenders.values():
            contend(0)  # write the compiled files and build the index
        seconds = in_turns(contenders, options.rounds)
    rows, missed = [], False
    for name, needed in seconds.items():
        whole = spread([value * 1000 for value in needed])
        beyond = spread([(ours - bare) * 1000 for ours, bare in zip(needed, seconds[BARE], strict=True)])
        if name == BARE:
            rows.append((name, whole.show("{:.0f}"), "", ""))
            continue
        over = whole.median > HOOK_BUDGET if name == HOOK else beyond.median > COMMAND_BUDGET
        budget = f"≤ {HOOK_BUDGET} in all" if name == HOOK else f"≤ {COMMAND_BUDGET} beyond"
        rows.append((name, whole.show("{:.0f}"), beyond.show("{:.0f}"), budget + (": MISSED" if over else "")))
        missed |= over
    print(f"\nWhole processes, {CONVERSATIONS + 1} conversations, {options.rounds} interleaved rounds:")
    print("median (middle half; all rounds), ms.\n")
    print_table(("command", "whole", "beyond the bare start", "budget"), rows)
    raise SystemExit(1 if missed else 0)


class Transcript:
    """A Claude Code transcript that grows turn by turn."""

    def __init__(self, path: str, key: str, project: str) -> None:
        self.path, self.key, self.project, self._last, self._count = path, key, project, "", 0
        os.makedirs(os.path.dirname(path), exist_ok=True)

    def say(self, said: list[str]) -> None:
        """Append these messages, user and assistant alternately."""
        lines = []
        for text in said:
            role, record_id, minute = role_of(self._count), str(uuid.uuid4()), self._count
            message = {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]}
            record = {
                "parentUuid": self._last or None,
                "isSidechain": False,
                "cwd": self.project,
                "sessionId": self.key,
                "type": role,
                "message": message,
                "uuid": record_id,
                "timestamp": f"2026-01-{1 + minute // 1440 % 28:02}T{minute // 60 % 24:02}:{minute % 60:02}:00.000Z",
            }
            lines.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")
            self._last, self._count = record_id, self._count + 1
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(lines)


def run_hook() -> None:
    """What `cortext hook claude` adds to a turn: the whole time of a cold process.

    python -m bench hook [--messages 2000] [--rounds 15]

    The session belongs to a workspace, so messages are masked when they are captured; each Stop finds one new turn.
    """
    options = arguments(run_hook, messages=2_000, rounds=15)
    python, script = installed()
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        os.makedirs(os.path.join(folder, ".workspace"))
        key = str(uuid.uuid4())
        talk = Transcript(os.path.join(home, ".claude", "projects", "p", f"{key}.jsonl"), key, folder)
        talk.say(texts(options.messages))
        read = prepare(folder, home, talk)
        event = {"session_id": key, "transcript_path": talk.path, "cwd": folder}
        stop = cold([script, "hook", "claude"], folder, home, payload(event, "Stop"))
        more = iter(texts(4 * options.rounds + 8, seed=7))

        def stopped(number: int) -> float:
            talk.say([next(more), next(more)])
            return stop(number)

        prompt = payload({**event, "prompt": "And what about the retry budget?"}, "UserPromptSubmit")
        contenders: dict[str, Callable[[int], float]] = {
            BARE: cold([python, "-c", "pass"], folder, home),
            "hook claude: Stop, one new turn": stopped,
            "hook claude: UserPromptSubmit": cold([script, "hook", "claude"], folder, home, prompt),
        }
        for contend in contenders.values():
            contend(0)
        seconds = in_turns(contenders, options.rounds)
        kept = sum(1 for _ in read())
        log = os.path.join(home, ".local", "state", "cortext", "hook.log")
        failed = os.path.exists(log)
    expected = options.messages + 2 * (options.rounds + 1)
    print(f"\nA session of {options.messages} messages in a workspace; {options.rounds} interleaved rounds:")
    print("median (middle half; all rounds), ms. The turn waits for the whole process.")
    print(
        f"Afterwards the session holds {kept} of {expected} messages; errors logged: {'YES' if failed else 'none'}.\n"
    )
    print_table(("event", "whole", "beyond the bare start", "target"), rows_beyond(seconds, "< 100"))


def prepare(folder: str, home: str, talk: Transcript, number: int = 1) -> Callable[[], Iterable[object]]:
    """Create the workspace conversation that the transcript belongs to and capture it once; return its reader."""
    with at_home(home):
        stores = Stores(folder)
        named_store = stores.workspace_store()
        made = session(number)
        made.status, made.origin = "active", Origin(tool="claude", session_id=talk.key)
        made = named_store.store.create(made)
        capture = stores.capture()
        capture.attach(named_store, made.id, "claude", talk.key)
        tool = ClaudeCode()
        transcript = tool.transcript_at(talk.path)
        assert transcript is not None
        capture.capture(tool, transcript)
    return lambda: named_store.store.read(made.id)


def payload(event: dict[str, str], name: str) -> bytes:
    """Return an event as the tool sends it."""
    return json.dumps({**event, "hook_event_name": name}).encode()


def run_list() -> None:
    """The lists as cold processes, compared with a bare `python -c pass`: with the index, and after deleting it.

    python -m bench list [--few 100] [--many 10000] [--rounds 15]
    """
    options = arguments(run_list, few=100, many=10_000, rounds=15)
    python, script = installed()
    rows: list[tuple[str, ...]] = []
    with work_folder() as base:
        for count, target in zip((options.few, options.many), TARGETS, strict=True):
            folder, home = os.path.join(base, f"folder-{count}"), os.path.join(base, f"home-{count}")
            os.mkdir(home)
            fill(folder, count)
            contenders = {
                BARE: cold([python, "-c", "pass"], folder, home),
                "cortext list": cold([script, "list"], folder, home),
                "cortext resume --list": cold([script, "resume", "--list"], folder, home),
            }
            for contend in contenders.values():
                contend(0)
                contend(0)
            seconds = in_turns(contenders, options.rounds)
            for name, needed in seconds.items():
                ratio = spread([ours / bare for ours, bare in zip(needed, seconds[BARE], strict=True)])
                whole = spread([value * 1000 for value in needed]).show("{:.0f}")
                rows.append((f"{count:,}: {name}", whole, ratio.show(), "" if name == BARE else f"≤ {target}"))
            rows.append((f"{count:,}: index deleted, rebuilt", *rebuilt(script, folder, home, count), ""))
    print(f"\nWhole processes, {options.rounds} interleaved rounds: median (middle half; all rounds).\n")
    print_table(("conversations: command", "ms", "times the bare start", "target"), rows)


def fill(folder: str, count: int) -> None:
    """Create a workspace with `count` conversations of two messages each, over many days."""
    os.makedirs(os.path.join(folder, ".workspace"))
    store = WorkspaceStore(folder)
    # Used for this run only, so it need not survive a power cut.
    with mock.patch("cortext.io.durable.Calls.fsync", staticmethod(lambda _: None)):
        _fill(store, count)


def _fill(store: WorkspaceStore, count: int) -> None:
    for number in range(count):
        day = f"20{24 + number // 336 % 3}-{1 + number // 28 % 12:02}-{1 + number % 28:02}T10:00:00Z"
        made = session(number)
        made.created_at = made.last_active = day
        store.create(made)
        said = (("user", f"What about topic {number}?"), ("assistant", "Three tries, then a clear error."))
        store.append(made.id, *(Message(role=role, content=text, timestamp=day) for role, text in said))


def rebuilt(script: str, folder: str, home: str, count: int) -> tuple[str, str]:
    """Delete the index, list again and compare; return the milliseconds and the result."""
    before = _listed(script, folder, home)
    shutil.rmtree(os.path.join(home, ".cache"))
    begin = time.perf_counter()
    after = _listed(script, folder, home)
    seconds = time.perf_counter() - begin
    same = before == after and len(after) == count
    return f"{seconds * 1000:.0f}", "same list" if same else "DIFFERENT LIST"


def _listed(script: str, folder: str, home: str) -> list[dict[str, object]]:
    command = [script, "list", "--json"]
    done = subprocess.run(command, cwd=folder, env=home_environment(home), capture_output=True, check=True)
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def run_packet_time() -> None:
    """The packet and the dry runs of a long session: cold processes, minus the bare start of the same Python.

    python -m bench packet_time [--messages 10000] [--rounds 15]
    """
    options = arguments(run_packet_time, messages=10_000, rounds=15)
    python, script = installed()
    with work_folder() as base:
        folder, home = os.path.join(base, "folder"), os.path.join(base, "home")
        os.makedirs(os.path.join(folder, ".workspace"))
        os.mkdir(home)
        store = WorkspaceStore(folder)
        made = store.create(session(1))
        store.append(made.id, *talk(options.messages))
        size = os.path.getsize(os.path.join(made.path, ".session", "messages.jsonl")) / 1e6
        contenders = {
            BARE: cold([python, "-c", "pass"], folder, home),
            "resume ID --print": cold([script, "resume", made.id, "--print"], folder, home),
        }
        for tool in BUILT_IN:
            command = [script, "resume", made.id, "--dry-run", "--ai", tool]
            contenders[f"resume ID --dry-run --ai {tool}"] = cold(command, folder, home)
        for contend in contenders.values():
            contend(0)  # write the compiled files and build the index
        seconds = in_turns(contenders, options.rounds)
    print(f"\nA session of {options.messages} messages ({size:.1f} MB); {options.rounds} interleaved rounds:")
    print("median (middle half; all rounds), ms.\n")
    print_table(("command", "whole", "beyond the bare start", "target"), rows_beyond(seconds, "< 100"))
