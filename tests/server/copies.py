"""A copy that is killed repeatedly and must still end up identical to its source."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from cortext.model.session import Session
from cortext.server.store import PostgresStore
from cortext.store.files.chat import ChatStore
from tests.server.messages import as_dicts
from tests.store.crash.actor import make_message
from tests.support.postgres import Postgres, new_space
from tests.support.waiting import strike_after


def fill(folder: Path, sessions: int, each: int) -> ChatStore:
    """Return a store with `sessions` sessions of `each` messages."""
    source = ChatStore(str(folder))
    for number in range(sessions):
        name = f"talk-{number}"
        source.create(Session(id=name, title=f"title {number}", summary="short", summary_covers=2))
        for begin in range(0, each, 1000):
            batch = range(begin, min(each, begin + 1000))
            source.append(name, *(make_message(f"{name}-{index}", 40 + index % 200) for index in batch))
    source.annotate("talk-0", {"type": "note", "message_id": "x", "n": 1})
    return source


def copy_with_kills(server: Postgres, folder: Path, *, sessions: int, each: int, times: int, batch: int) -> None:
    """Copy, kill the copy at a random step, and repeat until it finishes; then both stores must be identical."""
    source = fill(folder, sessions, each)
    space = new_space()
    command = [sys.executable, "-m", "tests.server.copier", str(folder), server.url, space, str(batch)]
    chance = random.Random(20)
    killed = 0
    most_steps = sessions * each // batch // times - 1  # between two kills: leaves enough work for the later kills
    while True:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None and process.stdout is not None
        steps_left = chance.randrange(1, most_steps) if killed < times else -1
        last_line = ""
        for line in process.stdout:
            last_line = line
            steps_left -= line == f"{batch}\n"
            if not line.startswith("copied"):
                process.stdin.write("continue\n")
                process.stdin.flush()
            if steps_left == 0:
                strike_after(chance.uniform(0, 0.02))  # the kill hits somewhere in the next step
                process.kill()
                killed += 1
                break
        code = process.wait(120)
        process.stdout.close()
        process.stdin.close()
        if code == 0:
            copied = int(last_line.split()[1])
            assert last_line == f"copied {copied} there {sessions * each - copied} failed 0\n", last_line
            assert killed == times, "too few kills for the test to mean anything"
            break
    target = PostgresStore(server.url, space)
    assert_same(source, target)
    target.close()


def assert_same(source: ChatStore, target: PostgresStore) -> None:
    """Assert that both stores hold the same sessions, messages and records."""
    expected = {session.id: session for session in source.sessions()}
    actual = {session.id: session for session in target.sessions()}
    assert expected.keys() == actual.keys()
    for name, session in expected.items():
        assert as_dicts(source.read(name)) == as_dicts(target.read(name))
        assert list(source.annotations(name)) == list(target.annotations(name))
        assert target.check(name) == []
        for field in ("title", "summary", "summary_covers", "status", "message_count", "token_count", "created_at"):
            assert getattr(session, field) == getattr(actual[name], field), (name, field)
