"""A copy that is killed again and again, and must end identical."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from cortext.model.session import Session
from cortext.store.files.chat import ChatStore
from cortext.store.postgres.store import PostgresStore
from tests.postgres.said import plains
from tests.store.crash.talk import message_of
from tests.support.postgres import Postgres, new_space


def fill(folder: Path, sessions: int, each: int) -> ChatStore:
    """So many sessions with so many messages each."""
    source = ChatStore(str(folder))
    for number in range(sessions):
        name = f"talk-{number}"
        source.create(Session(id=name, title=f"title {number}", summary="short", summary_covers=2))
        for begin in range(0, each, 1000):
            lot = range(begin, min(each, begin + 1000))
            source.append(name, *(message_of(f"{name}-{place}", 40 + place % 200) for place in lot))
    source.annotate("talk-0", {"type": "note", "message_id": "x", "n": 1})
    return source


def interrupted(server: Postgres, folder: Path, *, sessions: int, each: int, times: int, batch: int) -> None:
    """Copy, kill the copy at a random step, copy again; at the end both stores say the same."""
    source = fill(folder, sessions, each)
    space = new_space()
    words = [sys.executable, "-m", "tests.postgres.copier", str(folder), server.url, space, str(batch)]
    chance = random.Random(20)
    killed = 0
    steps = sessions * each // batch // times - 1  # between two kills at most: then there is enough for all of them
    while True:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None and process.stdout is not None
        left = chance.randrange(1, steps) if killed < times else -1
        said = ""
        for line in process.stdout:
            said = line
            left -= line == f"{batch}\n"
            if not line.startswith("copied"):
                process.stdin.write("go on\n")
                process.stdin.flush()
            if left == 0:
                time.sleep(chance.uniform(0, 0.02))  # it is now somewhere in the next step
                process.kill()
                killed += 1
                break
        code = process.wait(120)
        process.stdout.close()
        process.stdin.close()
        if code == 0:
            assert said == f"copied {_left(said)} there {sessions * each - _left(said)} failed 0\n", said
            assert killed == times, "too few were killed to say anything"
            break
    target = PostgresStore(server.url, space)
    same(source, target)
    target.close()


def _left(said: str) -> int:
    return int(said.split()[1])


def same(source: ChatStore, target: PostgresStore) -> None:
    """Every session, message and record of one is in the other."""
    here = {session.id: session for session in source.sessions()}
    there = {session.id: session for session in target.sessions()}
    assert here.keys() == there.keys()
    for name, session in here.items():
        assert plains(source.read(name)) == plains(target.read(name))
        assert list(source.annotations(name)) == list(target.annotations(name))
        assert target.check(name) == []
        for field in ("title", "summary", "summary_covers", "status", "message_count", "token_count", "created_at"):
            assert getattr(session, field) == getattr(there[name], field), (name, field)
