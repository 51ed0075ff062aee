"""Single operations on a session, each with a prepared state that is copied for every fault."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from cortext.errors import CortextError, NotFound, SessionExists
from tests.store.crash import invariants, trees
from tests.store.crash.actor import COMPACTING, LAYOUTS, Actor, Event, Ledger, files_of
from tests.store.crash.faults import Counting, FailAt, installed

TORN = b'{"role": "user", "content": "torn \xc3'


class Step(msgspec.Struct, frozen=True):
    """An operation and the preparation it needs."""

    name: str
    prepare: Callable[[Actor], None]
    act: Callable[[Actor], None]
    layouts: tuple[str, ...] = tuple(LAYOUTS)


def _nothing(actor: Actor) -> None:
    pass


def _filled(actor: Actor) -> None:
    actor.create()
    actor.append("a-0", "a-1", "a-2")
    actor.append("a-3", size=9000)


def _fully_archived(actor: Actor) -> None:
    _filled(actor)
    actor.compact(9)


def _torn(actor: Actor) -> None:
    _filled(actor)
    actor.tear(TORN)


def _damaged(actor: Actor) -> None:
    _filled(actor)
    actor.tear(b"no json\n" + b"\0" * 300 + b"\n" + TORN)


def _archived(actor: Actor) -> None:
    _filled(actor)
    actor.compact(2)
    actor.append("a-4", "a-5")


def _quarantined(actor: Actor) -> None:
    _torn(actor)
    actor.append("a-4")


def _deleted(actor: Actor) -> None:
    _quarantined(actor)
    actor.delete()


STEPS = (
    Step("create", _nothing, Actor.create),
    Step("first append", Actor.create, lambda actor: actor.append("b-0")),
    Step("append", _filled, lambda actor: actor.append("b-0", "b-1", size=5000)),
    Step("append after a torn line", _torn, lambda actor: actor.append("b-0")),
    Step("append to an emptied log", _fully_archived, lambda actor: actor.append("b-0"), COMPACTING),
    Step("status", _filled, lambda actor: actor.status("paused")),
    Step("title", _torn, lambda actor: actor.title("second")),
    Step("first compaction", _filled, lambda actor: actor.compact(2), COMPACTING),
    Step("compaction", _archived, lambda actor: actor.compact(5), COMPACTING),
    Step("compaction after a torn line", _torn, lambda actor: actor.compact(2), COMPACTING),
    Step("rewrite", _filled, Actor.rewrite),
    Step("repair", _damaged, Actor.repair),
    Step("delete", _quarantined, Actor.delete),
    Step("restore", _deleted, Actor.restore),
)


class Prepared:
    """The state before a step, created once and copied for every fault."""

    def __init__(self, step: Step, layout: str, folder: str) -> None:
        self.step = step
        self.layout = layout
        self.folder = folder
        self.events: list[Event] = []
        os.makedirs(folder, mode=0o700)
        before = os.path.join(folder, "before")
        with installed(Counting()):
            step.prepare(Actor(layout, before, self.events.append))
        self._before = trees.read(before)

    def fresh(self) -> tuple[Actor, list[Event]]:
        """Return an actor on a copy of the prepared state, and its list of events."""
        root = os.path.join(self.folder, "now")
        trees.write(root, self._before)
        events = list(self.events)
        return Actor(self.layout, root, events.append), events

    def calls(self) -> FailAt:
        """Return the calls that the step makes without a fault."""
        actor, _ = self.fresh()
        calls = FailAt(0, 0)
        with installed(calls):
            self.step.act(actor)
        return calls


def fail(prepared: Prepared, faults: FailAt, *, thorough: bool = True) -> str:
    """Do the step while one call fails, then again without faults; return the call that was reported as failed.

    A failure must raise one of our errors, leave everything as it was, and not prevent a retry.
    """
    actor, events = prepared.fresh()
    before = messages_of(actor)
    refused: CortextError | None = None
    with installed(faults):
        try:
            prepared.step.act(actor)
        except CortextError as error:
            refused = error
    with installed(Counting()):
        if refused is not None:
            rollback_failed = len(faults.failed) > 1
            if not rollback_failed and prepared.step.name not in ("delete", "restore"):
                after = messages_of(actor)
                assert after == before, f"refused, but the messages changed from {before} to {after}"
            retry(actor, prepared.step)
        check = invariants.check if thorough else invariants.check_lightly
        check(prepared.layout, actor.root, Ledger(events))
    return faults.failed[0] if refused is not None else ""


def retry(actor: Actor, step: Step) -> None:
    """Repeat the step with the same store; the first attempt may have done everything except the flush."""
    try:
        step.act(actor)
    except SessionExists:
        assert step.name in ("create", "restore") and invariants.location(actor.store) == "here"
    except NotFound:
        assert step.name in ("delete", "restore")


def messages_of(actor: Actor) -> list[str]:
    """Return the ids of the messages as a new process sees them; empty if the session does not exist."""
    store = LAYOUTS[actor.layout](actor.root)
    try:
        files_of(store)
    except AssertionError:
        return []
    return [message.id for message in store.read("talk")]
