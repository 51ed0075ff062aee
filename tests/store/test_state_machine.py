"""Random operations on a session by two processes, some of which are killed, compared with a plain list of messages.

Each backend is one state machine. The processes are two store objects, so that the caches of one are stale after an
operation of the other. A kill is a system call (faults.KillAt), or a call to the server, that never returns.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cortext.errors import TransitionRefused
from cortext.store.base import TORN, UNREADABLE
from tests.store.crash import invariants
from tests.store.crash.faults import Counting, Dead, KillAt, installed
from tests.store.crash.talk import COMPACTING, LAYOUTS, SESSION, Actor, Ledger
from tests.support import postgres
from tests.support.postgres_faults import DieAt, ServerActor

# The call at which the process is killed (0: none), and whether that is in the middle of a write.
kills = st.tuples(st.sampled_from([0, 3, 0, 4, 2, 6, 0, 5, 8, 12, 20]), st.booleans())
actors = st.integers(0, 1)
JUNK = (b'{"role": "user", "content": "torn \xc3', b"\0" * 50, b"no json\n", b'{"a": 1}\n{"b', b"\n\n")


class SessionMachine(RuleBasedStateMachine):
    """The rules; each layout is a subclass."""

    layout = ""
    survived = 0
    killed = 0

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="cortext-machine-")
        self.ledger = Ledger()
        self.actors = [self.new_actor() for _ in range(2)]
        self.location = "absent"
        self.written = 0
        self.torn = False

    def new_actor(self) -> Actor:
        return Actor(self.layout, self.root, self.ledger.add, lock_timeout=0)

    def new_store(self) -> Any:
        """Return the store as a new process opens it."""
        return LAYOUTS[self.layout](self.root)

    def killing(self, kill: tuple[int, bool]) -> AbstractContextManager[object]:
        return installed(KillAt(kill[0], half=kill[1]))

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def do(self, actor: int, kill: tuple[int, bool], act: Callable[[Actor], None]) -> bool:
        """Run a step and return whether the process survived it. What a killed one left becomes the expected state."""
        survived = True
        try:
            with self.killing(kill):
                act(self.actors[actor])
        except Dead:
            survived = False
            self.actors[actor].reopen()
        type(self).survived += survived
        type(self).killed += not survived
        with installed(Counting()):
            self.settle()
        return survived

    def settle(self) -> None:
        """Compare the store with the ledger; what was stored without acknowledgement is expected from now on."""
        store = self.new_store()
        self.location = invariants.place(store)
        assert self.location in self.ledger.places
        self.ledger.places = {self.location}
        if self.location != "here":
            return
        session = store.get(SESSION)
        assert session.status in self.ledger.statuses and session.title in self.ledger.titles
        self.ledger.statuses, self.ledger.titles = {session.status}, {session.title}
        messages = invariants.plain(store.read(SESSION))
        invariants.check_messages(messages, self.ledger)
        names = [message.content.partition("|")[0] for message in messages]
        self.ledger.tried = names  # a message that is missing now must never appear later
        self.ledger.acked = {name: (m.id, m.seq) for name, m in zip(names, messages, strict=True)}

    def names(self, count: int) -> list[str]:
        self.written += count
        return [f"m-{number}" for number in range(self.written - count, self.written)]

    @initialize()
    def begin(self) -> None:
        self.do(0, (0, False), Actor.create)

    @precondition(lambda self: self.location == "absent")
    @rule(actor=actors, kill=kills)
    def create(self, actor: int, kill: tuple[int, bool]) -> None:
        self.do(actor, kill, Actor.create)

    @precondition(lambda self: self.location == "here")
    @rule(actor=actors, kill=kills, count=st.integers(1, 4), size=st.sampled_from([20, 300, 9000]))
    def append(self, actor: int, kill: tuple[int, bool], count: int, size: int) -> None:
        names = self.names(count)
        before = list(self.ledger.acked)
        if self.do(actor, kill, lambda it: it.append(*names, size=size)):
            assert list(self.ledger.acked) == before + names
            self.torn = False

    @precondition(lambda self: self.location == "here")
    @rule(actor=actors, kill=kills, status=st.sampled_from(["active", "paused", "interrupted"]))
    def change_status(self, actor: int, kill: tuple[int, bool], status: str) -> None:
        def change(it: Actor) -> None:
            try:
                it.status(status)
            except TransitionRefused:
                self.ledger.statuses -= {status} - before

        before = set(self.ledger.statuses)
        self.do(actor, kill, change)

    @precondition(lambda self: self.location == "here")
    @rule(actor=actors, kill=kills, title=st.text(max_size=12))
    def change_title(self, actor: int, kill: tuple[int, bool], title: str) -> None:
        if self.do(actor, kill, lambda it: it.title(title)):
            assert self.ledger.titles == {title}

    @precondition(lambda self: self.location == "here" and self.layout in (*COMPACTING, "postgres"))
    @rule(actor=actors, kill=kills, keep=st.integers(0, 6))
    def compact(self, actor: int, kill: tuple[int, bool], keep: int) -> None:
        numbers = [seq for _, seq in self.ledger.acked.values()]
        before = numbers[-keep] if 0 < keep <= len(numbers) else (numbers[-1] + 1 if numbers and not keep else 0)
        store = self.new_store()
        if UNREADABLE not in [item.kind for item in store.check(SESSION)]:
            self.do(actor, kill, lambda it: it.compact(before))

    @precondition(lambda self: self.location == "here")
    @rule(actor=actors, kill=kills)
    def rewrite(self, actor: int, kill: tuple[int, bool]) -> None:
        self.do(actor, kill, Actor.rewrite)

    @precondition(lambda self: self.location == "here")
    @rule(actor=actors, kill=kills)
    def delete(self, actor: int, kill: tuple[int, bool]) -> None:
        self.do(actor, kill, Actor.delete)

    @precondition(lambda self: self.location == "trash")
    @rule(actor=actors, kill=kills)
    def restore(self, actor: int, kill: tuple[int, bool]) -> None:
        if self.do(actor, kill, Actor.restore):
            assert self.location == "here"

    @precondition(lambda self: self.location == "here" and self.layout in LAYOUTS)
    @rule(junk=st.sampled_from(JUNK))
    def another_program_writes_junk(self, junk: bytes) -> None:
        self.do(0, (0, False), lambda it: it.tear(junk))
        self.torn = True

    @precondition(lambda self: self.location == "here")
    @rule(actor=actors, kill=kills)
    def repair(self, actor: int, kill: tuple[int, bool]) -> None:
        if self.do(actor, kill, Actor.repair):
            store = self.new_store()
            assert store.check(SESSION) == []
            assert self.layout not in LAYOUTS or invariants.unreadable(store) == []
            self.torn = False

    @rule(actor=actors)
    def reopen(self, actor: int) -> None:
        self.actors[actor].reopen()

    @precondition(lambda self: self.location == "here")
    @invariant()
    def all_agree(self) -> None:
        """Every process reads the same; the only damage is torn or unreadable lines, and it is reported."""
        for actor in self.actors:
            messages = invariants.whole_reading(actor.store)
            assert {m.content.partition("|")[0]: (m.id, m.seq) for m in messages} == self.ledger.acked
            damage = actor.store.check(SESSION)
            if self.layout not in LAYOUTS:
                assert damage == []
                continue
            assert {item.kind for item in damage} <= {TORN, UNREADABLE}, damage
            invariants.check_reported(invariants.unreadable(actor.store), damage)
            if not damage:
                invariants.check_indexes(actor.store)


SETTINGS = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


class WorkspaceMachine(SessionMachine):
    layout = "workspace"


class SpawnMachine(SessionMachine):
    layout = "spawn"


class ChatMachine(SessionMachine):
    layout = "chat"


class PostgresMachine(SessionMachine):
    layout = "postgres"

    def __init__(self) -> None:
        self.space = postgres.new_space()
        self.watcher = postgres.store_of(self.space, lease=0.1)
        super().__init__()

    def new_actor(self) -> Actor:
        return ServerActor(self.space, self.ledger.add)

    def new_store(self) -> Any:
        return self.watcher  # it caches nothing but the connection

    def teardown(self) -> None:
        for actor in self.actors:
            assert isinstance(actor, ServerActor)
            actor.server.close()
        self.watcher.close()
        super().teardown()

    def killing(self, kill: tuple[int, bool]) -> AbstractContextManager[object]:
        return DieAt(kill[0], after=kill[1])


@pytest.mark.req("STORE-01", "STORE-03", "STORE-06", "STORE-08", "STORE-10")
@pytest.mark.parametrize("machine", [WorkspaceMachine, SpawnMachine, ChatMachine, PostgresMachine])
def test_random_operations_and_kills_lose_no_acknowledged_message(machine: type[SessionMachine]) -> None:
    machine.survived = machine.killed = 0
    # A server takes longer for each step, and fewer things can go wrong in it.
    few = machine is PostgresMachine
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=20) if few else SETTINGS)
    assert machine.survived > 150 and machine.killed > 50, "too few steps to be meaningful"
