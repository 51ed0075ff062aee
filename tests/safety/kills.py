"""Kills every command that writes, each time at another of its writes, and checks what is left.

    python -m tests.safety.kills                      # 500 kills, shared among the commands
    python -m tests.safety.kills --landed 10000       # the long run
    python -m tests.safety.kills --only fork --at 17  # one of them again

Every kill lands at a call that changes a file (see `supervise`), half of the writes are torn in the middle. After each:
every message that was acknowledged is there (in the trash, where it was to go there), every file parses, the same
command succeeds, it leaves no temporary file and no session without a word, and `cortext doctor` finds no damage.
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
FAILURES = 5  # after so many it ends
UNAVAILABLE = 77  # the exit code where the kernel cannot do it
ASKED = "asked"  # what the model was asked
DOCTOR = 6  # after every so many kills, `doctor` is asked too

HOOK = {
    "hook_event_name": "Stop",
    "session_id": "00000003-1111-4111-8111-111111111111",
    "transcript_path": "",
    "cwd": "",
}


def cases(world: World) -> list[Case]:
    """Every command that writes."""
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
    """The world that this command is killed in."""
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
        """Kill it at its n-th call and check; AssertionError where something does not hold."""
        world, case = self.world, self.case
        world.restore("start")
        self.asked.write_bytes(b"")
        ended = supervise.run(world.command(case), number, tear=tear)
        if not ended.killed_at:
            return ended
        broken = world.broken()
        damaged = [path for path in broken if BOATS in path] if case.name == "repair" else []
        assert broken == damaged, f"does not parse: {broken}"
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
        assert not world.broken(), f"does not parse after it was run again: {world.broken()}"
        left = world.leftovers()
        assert not left, f"left behind: {left}"
        if self.killed % DOCTOR == 0:
            if case.begins:
                self._mend()
            world.do("doctor")
        self.killed += 1
        return ended

    def _mend(self) -> None:
        """The same command went on in another session: a line that the kill cut is mended as `doctor` says."""
        for store in self.world.stores():
            for session in store.sessions():
                if session.damage:
                    assert {item.kind for item in store.check(session.id)} == {TORN}, store.check(session.id)
                    self.world.do("repair", session.id)

    def _acknowledged(self, *, again: bool) -> None:
        """Every message that was there before is there; after the kill, and when the command was run again."""
        now = self.world.messages()
        for name, session in now.items():
            assert len(set(session)) == len(session), f"doubled in {name}: {session}"
        moved = self.case.moved_to.removeprefix(TRASH)
        for name, session in self.there.items():
            where = name
            if moved and name.removeprefix(TRASH) == moved:
                where = moved if moved in now else TRASH + moved
                assert not again or where == self.case.moved_to, f"{moved} is not where it was to go"
            assert now.get(where, [])[: len(session)] == session, f"{name} lost what was acknowledged"
        if self.case.whole_sessions:
            half = {name: ids for name, ids in now.items() if name not in self.there and len(ids) not in self.lengths}
            assert not half, f"a part of a session: {half}"
        questions = [json.loads(line) for line in self.asked.read_text().splitlines()]
        if any(QUESTION in question for question in questions) and not again:
            said = [m.content for store in self.world.stores() for s in store.sessions() for m in store.read(s.id)]
            assert QUESTION in said, "the model was asked what is not stored"
        self._without_a_word([name for name, session in now.items() if not session and name not in self.there], again)

    def _without_a_word(self, empty: list[str], again: bool) -> None:
        """No session without a word is left, but for what is meant to begin without one, and what goes on by itself."""
        case = self.case
        if case.name == "aur":
            # Its process is dead: it is in no list, and its file goes with the next talk.
            listed = self.world.do("list", "--json") if empty else ""
            assert not [name for name in empty if name in listed], f"a session without a word is listed: {empty}"
            return
        most = case.empty
        if not again and case.name.startswith("hook"):
            most = 1  # a transcript's session is created, then filled: the next hook goes on with it
        if not again and case.program == "alfred":
            most = 1  # the one that the chat is in: the next words go there
            assert not empty or empty == [self.world.current_chat()], f"in no chat: {empty}"
        assert len(empty) <= most, f"a session without a word: {empty}"


def warm_up() -> None:
    """Import all of ours once: a fork then has it at hand, and a kill costs milliseconds."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for module in pkgutil.walk_packages(cortext.__path__, "cortext."):
        if module.name.endswith((".build", ".__main__")) or ".telegram" in module.name or "postgres" in module.name:
            continue
        try:
            __import__(module.name)
        except ImportError:
            pass  # of a library that is not installed here
    for name in ("httpx", "numpy", "tantivy", "ollama"):
        __import__(name)


def memory() -> str | None:
    """Where the world lies: in memory where there is room for it, since its files are put back after every kill."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 1 << 27 else None


@contextmanager
def model_at(folder: str) -> Iterator[str]:
    """A model that answers in a process of its own; its address."""
    command = [sys.executable, "-m", "tests.safety.kill_model", os.path.join(folder, ASKED)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None and model.stdin is not None
        try:
            yield model.stdout.readline().strip()
        finally:
            model.stdin.close()


def places(count: int, wanted: int, chance: random.Random) -> Iterator[tuple[int, bool]]:
    """At which calls to kill: evenly spread, every one where there is room, then the same again, torn."""
    while wanted > 0:
        for tear in (True, False):
            take = min(wanted, count)
            yield from ((number, tear) for number in sorted(chance.sample(range(1, count + 1), take)))
            wanted -= take


class Tally:
    """What was done so far."""

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
    parser = argparse.ArgumentParser(description="Kill every command that writes, inside its writes.")
    parser.add_argument("--landed", type=int, default=500, help="how many kills must land (default 500)")
    parser.add_argument("--only", metavar="NAME", help="only this command")
    parser.add_argument("--at", type=int, help="only at this call, with --only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    options = parser.parse_args()
    if not supervise.available():
        print(
            "this system does not hand calls over: it takes Linux 5.6 on x86_64 or aarch64, and in a container a"
            " profile that allows seccomp's user notification",
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
        chance = random.Random(options.seed)
        weight = sum(case.share for case in chosen)
        began = time.monotonic()
        for case in chosen:
            killer = Killer(world, case, Path(folder, ASKED))
            share = math.ceil((options.landed - tally.landed.total()) * case.share / weight)
            weight -= case.share
            calls = len(killer.calls.calls)
            once = [(options.at, False), (options.at, True)] if options.at else []
            tally.kill(killer, once or places(calls, share, chance))
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
