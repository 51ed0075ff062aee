"""Kill every command that writes, each time at another of its writes, and check what is left.

    python -m tests.safety.kills                      # 500 kills, shared among the commands
    python -m tests.safety.kills --landed 10000       # the long run
    python -m tests.safety.kills --only fork --at 17  # repeat one of them

Every kill lands at a system call that changes a file (see `supervise`); half of the writes are torn. After each kill:
every acknowledged message is there (or in the trash, if it was to go there), every file parses, the same command
succeeds, leaves no temporary file and no empty session, and `cortext doctor` finds no damage.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pkgutil
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cortext
from cortext.store.base import TORN
from tests.safety import supervise
from tests.safety.kill_world import BOATS, HERONS, QUESTION, TRASH, Case, World

ROOT = Path(__file__).parents[2]
FAILURES = 5  # stop after this many
UNAVAILABLE = 77  # the exit code if the kernel does not support it
ASKED = "asked"  # the file with the questions that the model was asked
DOCTOR = 6  # run `doctor` after every this many kills

HOOK = {
    "hook_event_name": "Stop",
    "session_id": "00000003-1111-4111-8111-111111111111",
    "transcript_path": "",
    "cwd": "",
}


def cases(world: World) -> list[Case]:
    """Return every command that writes."""
    hook = json.dumps({**HOOK, "cwd": str(world.work), "transcript_path": f"{world.claude}/{HOOK['session_id']}.jsonl"})
    begun = {"hook_event_name": "UserPromptSubmit", "prompt": "/workspace.brainstorm Which net"}
    begin = json.dumps({**json.loads(hook), **begun})
    log = f"conversations/*/{BOATS}/.session/messages.jsonl"
    go_on = ("spawn", "-i", "--resume", next(world.spawned().sessions()).id)
    return [
        Case("new", ("new", "brainstorm", "Nets"), empty=2),
        Case("hook: answer", ("hook", "claude"), stdin=hook),
        Case("hook: command", ("hook", "claude"), stdin=begin, empty=1),
        Case("stop", ("stop", HERONS), share=0.5),
        Case("complete", ("complete", HERONS), share=0.5),
        Case("title", ("title", BOATS, "Boats and nets")),
        Case("fork", ("fork", BOATS, "--at", "7"), whole_sessions=True),
        Case("delete", ("delete", BOATS), fine=(0, 1), moved_to=TRASH + BOATS),
        Case("restore", ("restore", BOATS), before=(("delete", BOATS),), fine=(0, 1), moved_to=BOATS),
        Case("prune", ("prune", BOATS, "--keep", "3")),
        Case("repair", ("repair", BOATS), before=(("damage", log),)),
        Case("import", ("import",), before=(("forget",),)),
        Case("sync", ("sync",)),
        Case("sweep", ("sweep", "--minutes", "0"), share=0.5),
        Case("index rebuild", ("index", "rebuild"), share=0.6),
        Case("search", ("search", "question"), before=(("index", "clear"),), share=0.6),
        Case("list", ("list",)),
        Case("export", ("export", BOATS, "--format", "native", "--ai", "claude")),
        Case("init", ("init", "--ai", "gemini"), whole=True),
        Case("upgrade", ("upgrade",), before=(("older",),), whole=True),
        Case("uninstall", ("uninstall",), fine=(0, 1), whole=True),
        Case("type add", ("type", "add", "heron"), whole=True),
        Case("trust", ("trust", "--yes"), before=(("settings",),)),
        Case("aur", ("spawn", QUESTION), program="aur", begins=True, share=0.5),
        Case("aur: /fork", go_on, program="aur", stdin="/fork\n/exit\n", whole_sessions=True, share=0.5),
        Case("alfred", (QUESTION,), program="alfred", share=0.5),
        Case("alfred --new", ("--new", QUESTION), program="alfred", begins=True, share=0.5),
    ]


def prepare(world: World, case: Case) -> None:
    """Create the world that this command is killed in."""
    world.restore("base")
    for words in case.before:
        if words[0] == "damage":
            [log] = world.work.glob(words[1])
            lines = log.read_bytes().splitlines(keepends=True)
            log.write_bytes(b"".join([*lines[:4], b'{"role": "us\xff\n', *lines[4:]]))
        elif words[0] == "forget":
            for folder in (".local/share/cortext/home", ".cache/cortext"):
                subprocess.run(["rm", "-r", str(world.home / folder)], check=True)
        elif words[0] == "older":
            for path in sorted((world.work / ".claude" / "commands").rglob("*.md"))[:2]:
                path.unlink()
            world.do("commit", "-qam", "without", program="git")
        elif words[0] == "settings":
            (world.work / ".workspace" / "config.toml").write_text('[models]\ndefault = "ollama/other"\n')
        else:
            world.do(*words)
    world.keep("start")


class Killer:
    """Kills one command again and again."""

    def __init__(self, world: World, case: Case, asked: Path) -> None:
        self.world, self.case, self.asked = world, case, asked
        prepare(world, case)
        self.start, self.there = world.files(), world.messages()
        self.killed = 0
        self.calls = supervise.run(world.command(case))
        said = world.said.read_text(errors="replace")
        assert self.calls.status == 0, f"{case.name} fails by itself with {self.calls.status}: {said}"
        self.end = world.files()
        new = world.messages().keys() - self.there.keys()
        self.lengths = {len(ids) for name, ids in world.messages().items() if name in new}

    def kill(self, number: int, *, tear: bool) -> supervise.Ended:
        """Kill it at its n-th call and check the result; raise AssertionError if something is wrong."""
        world, case = self.world, self.case
        world.restore("start")
        self.asked.write_bytes(b"")
        ended = supervise.run(world.command(case), number, tear=tear)
        if not ended.killed_at:
            return ended
        broken = world.broken()
        damaged = [path for path in broken if BOATS in path] if case.name == "repair" else []
        assert broken == damaged, f"files that do not parse: {broken}"
        if case.whole:
            now = world.files()
            between = [
                name for name, data in now.items()
                if not name.endswith(".tmp") and data not in (self.start.get(name), self.end.get(name))
            ]  # fmt: skip
            assert not between, f"neither as before nor as after: {between}"
        self._acknowledged(again=False)
        world.do(*case.words, program=case.program, stdin=case.stdin, codes=case.fine)
        self._acknowledged(again=True)
        assert not world.broken(), f"files that do not parse after the second run: {world.broken()}"
        left = world.leftovers()
        if left and all(f"{os.sep}copies{os.sep}" in path for path in left):
            # A copy is written after its session: if nothing was left to do, the next change of a session tidies up.
            world.do("new", "plan", "what comes next")
            left = world.leftovers()
        assert not left, f"left behind: {left}"
        if self.killed % DOCTOR == 0:
            if case.begins:
                self._repair()
            world.do("doctor")
        self.killed += 1
        return ended

    def _repair(self) -> None:
        """Repair a torn line as `doctor` suggests: the same command continued in another session."""
        for store in self.world.stores():
            for session in store.sessions():
                if session.damage:
                    assert {item.kind for item in store.check(session.id)} == {TORN}, store.check(session.id)
                    self.world.do("repair", session.id)

    def _acknowledged(self, *, again: bool) -> None:
        """Check that every earlier message is still there, after the kill and after the second run."""
        now = self.world.messages()
        for name, session in now.items():
            assert len(set(session)) == len(session), f"duplicates in {name}: {session}"
        moved = self.case.moved_to.removeprefix(TRASH)
        for name, session in self.there.items():
            where = name
            if moved and name.removeprefix(TRASH) == moved:
                where = moved if moved in now else TRASH + moved
                assert not again or where == self.case.moved_to, f"{moved} was not moved"
            assert now.get(where, [])[: len(session)] == session, f"{name} lost acknowledged messages"
        if self.case.whole_sessions:
            half = {name: ids for name, ids in now.items() if name not in self.there and len(ids) not in self.lengths}
            assert not half, f"incomplete sessions: {half}"
        questions = [json.loads(line) for line in self.asked.read_text().splitlines()]
        if any(QUESTION in question for question in questions) and not again:
            said = [m.content for store in self.world.stores() for s in store.sessions() for m in store.read(s.id)]
            assert QUESTION in said, "the model was asked something that is not stored"
        self._check_empty([name for name, session in now.items() if not session and name not in self.there], again)

    def _check_empty(self, empty: list[str], again: bool) -> None:
        """Check that no empty session is left, except those that begin empty and those that are continued later."""
        case = self.case
        if case.name == "aur":
            # Its process is dead: it is not listed, and the next session removes its file.
            listed = self.world.do("list", "--json") if empty else ""
            assert not [name for name in empty if name in listed], f"an empty session is listed: {empty}"
            return
        most = case.empty
        if not again and case.name.startswith("hook"):
            most = 1  # a transcript's session is created, then filled: the next hook continues it
        if not again and case.program == "alfred":
            most = 1  # the one that the chat is in: the next words go there
            assert not empty or empty == [self.world.current_chat()], f"in no chat: {empty}"
        assert len(empty) <= most, f"a session without a word: {empty}"


def warm_up() -> None:
    """Import all of our modules once, so that a fork has them and a kill costs milliseconds."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for module in pkgutil.walk_packages(cortext.__path__, "cortext."):
        if module.name.endswith((".build", ".__main__")) or ".telegram" in module.name or "postgres" in module.name:
            continue
        try:
            __import__(module.name)
        except ImportError:
            pass  # needs a library that is not installed
    for name in ("httpx", "numpy", "tantivy", "ollama"):
        __import__(name)


def memory() -> str | None:
    """Return a folder in memory if there is room: the world is restored after every kill."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 1 << 27 else None


@contextmanager
def model_at(folder: str) -> Iterator[str]:
    """Run a model in its own process; yield its address."""
    command = [sys.executable, "-m", "tests.safety.kill_model", os.path.join(folder, ASKED)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None and model.stdin is not None
        try:
            yield model.stdout.readline().strip()
        finally:
            model.stdin.close()


def kill_points(count: int, wanted: int, rng: random.Random) -> Iterator[tuple[int, bool]]:
    """Yield the calls to kill at: random ones, or all of them if there are enough kills, alternately torn and not."""
    while wanted > 0:
        for tear in (True, False):
            take = min(wanted, count)
            yield from ((number, tear) for number in sorted(rng.sample(range(1, count + 1), take)))
            wanted -= take


class Tally:
    """What has been done so far."""

    def __init__(self) -> None:
        self.landed: Counter[str] = Counter()
        self.at: Counter[str] = Counter()
        self.torn = 0
        self.failures: list[str] = []

    def kill(self, killer: Killer, todo: Iterable[tuple[int, bool]]) -> None:
        """Kill one command at these calls."""
        for number, tear in todo:
            try:
                ended = killer.kill(number, tear=tear)
            except AssertionError as error:
                self.failures.append(f"{killer.case.name}, call {number}{', torn' if tear else ''}: {error}")
                print(self.failures[-1], file=sys.stderr, flush=True)  # a long run may be stopped before its report
                if len(self.failures) >= FAILURES:
                    return
                continue
            if ended.killed_at:
                self.landed[killer.case.name] += 1
                self.at[ended.killed_at] += 1
                self.torn += ended.torn


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill every command that writes, during its writes.")
    parser.add_argument("--landed", type=int, default=500, help="how many kills must land (default 500)")
    parser.add_argument("--only", metavar="NAME", help="only this command")
    parser.add_argument("--at", type=int, help="only at this call, with --only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args()
    if not supervise.available():
        print(
            "system calls cannot be intercepted here: this needs Linux 5.6 on x86_64 or aarch64 and, in a container,"
            " a profile that allows seccomp user notification",
            file=sys.stderr,
        )
        return UNAVAILABLE
    warm_up()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="cortext-kills-", dir=memory()) as folder, model_at(folder) as address:
        world = World(Path(folder), address)
        world.build()
        world.keep("base")
        chosen = [case for case in cases(world) if options.only in (None, case.name)]
        rng = random.Random(options.seed)
        weight = sum(case.share for case in chosen)
        began = time.monotonic()
        for case in chosen:
            killer = Killer(world, case, Path(folder, ASKED))
            share = math.ceil((options.landed - tally.landed.total()) * case.share / weight)
            weight -= case.share
            calls = len(killer.calls.calls)
            once = [(options.at, False), (options.at, True)] if options.at else []
            tally.kill(killer, once or kill_points(calls, share, rng))
            if not options.json:
                spent = f"{time.monotonic() - began:6.0f} s"
                print(f"{spent}  {case.name}: {tally.landed[case.name]} kills at {calls} calls", flush=True)
            if len(tally.failures) >= FAILURES:
                break
    report = {
        "landed": tally.landed.total(), "torn": tally.torn, "commands": tally.landed, "at": tally.at,
        "failures": tally.failures,
    }  # fmt: skip
    print(json.dumps(report, indent=None if options.json else 1))
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
