"""Power cuts in recordings: at every operation, in every style, checked by the invariants."""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable, Iterator

from cortext.errors import CortextError
from tests.store.crash import invariants
from tests.store.crash.actor import SCENARIOS, Actor, Ledger
from tests.store.crash.faults import Counting, Dead, installed
from tests.store.crash.power import STYLES, Op, Recorder, after_power_cut


def record(
    layout: str, scenario: str | Callable[[Actor], None], base: str, *, kill_at: int = 0, fail_sync_at: int = 0
) -> list[Op]:
    """Return the calls of a scenario. After a kill or a failure, another process continues the same session."""
    os.makedirs(base, mode=0o700)
    recorder = Recorder(base, kill_at=kill_at, fail_sync_at=fail_sync_at)
    actor = Actor(layout, os.path.join(base, "store"), recorder.mark)
    with installed(recorder):
        try:
            (SCENARIOS[scenario] if isinstance(scenario, str) else scenario)(actor)
        except (Dead, CortextError):
            recorder.dead = False
        if kill_at or fail_sync_at:
            _continue_session(actor)
    return recorder.ops


def _continue_session(actor: Actor) -> None:
    """Act as the next process: create or restore the session if needed, and append three messages."""
    actor.reopen()
    where = invariants.location(actor.store)
    if where == "absent":
        actor.create()
    elif where == "trash":
        actor.restore()
    actor.append("next-1")
    actor.append("next-2", "next-3", size=5000)
    actor.title("third")


def cuts(ops: list[Op], styles: int, chance: random.Random) -> Iterator[tuple[int, str]]:
    """Yield where to cut and in which style: `styles` of them after every operation that changes something."""
    start = next(number for number, op in enumerate(ops) if op.kind == "all safe") + 1
    for cut in range(start, len(ops) + 1):
        last = ops[cut - 1]
        # A flush only makes earlier operations safe, and an attempt changes nothing: cutting there adds no new state.
        if last.kind != "sync" and not (last.event is not None and last.event[0] == "try"):
            for style in chance.sample(STYLES, styles):
                yield cut, style


def flushes(ops: list[Op]) -> int:
    """Return how many flushes of the store a recording has; those of the simulated other program are not counted."""
    count, tearing = 0, False
    for op in ops:
        if op.event is not None:
            tearing = op.event[:2] == ("try", "tear")
        count += op.kind == "sync" and not tearing
    return count


def after_continuing(ops: list[Op]) -> list[int]:
    """Return the cuts after the first message acknowledged to the process that continued after a kill or a failure."""
    acks = [number for number, op in enumerate(ops) if op.event is not None and op.event[0] == "ack"]
    first = next(number for number in acks if "next-1" in str(ops[number].event))
    return list(range(first + 1, len(ops) + 1))


def check_cut(layout: str, ops: list[Op], cut: int, style: str, seed: int, folder: str) -> str:
    """Check one power cut; return an empty text if everything holds, else what is needed to reproduce the failure."""
    chance = random.Random(f"{seed} {cut} {style}")
    base = os.path.join(folder, "disk")
    ledger = Ledger(after_power_cut(ops, cut, chance, style, base))
    first = chance.choice(invariants.FIRST)
    try:
        with installed(Counting()):
            invariants.check(layout, os.path.join(base, "store"), ledger, first)
    except Exception:
        return f"{layout}: seed {seed}, cut after operation {cut}, {style}, then {first}:\n{traceback.format_exc()}"
    return ""
