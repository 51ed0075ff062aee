"""Many processes that start, continue, list, clean and delete sessions at the same time.

    python -m tests.agents.aur.many [SECONDS [PROCESSES]]          (default: 30 seconds and 8 processes)

Each process is a user with sessions of its own; one session is shared by all. At the end every acknowledged turn is
stored exactly once, in the order of its writer, and no process failed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from cortext.agents.aur import sessions
from cortext.agents.talk.agents import Agent
from cortext.agents.talk.context import CLEAR, View, marker
from cortext.agents.talk.sessions import activate, begin, clean, complete, fork
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.store.files.spawn import SpawnStore
from cortext.wiring.stores import Stores

SHARED = "shared"
AGENT = Agent(name="qa-test", prompt="You test.")


def work(name: str, seconds: float) -> dict[str, object]:
    """Act as one user; return the acknowledged texts by session, and what else was done."""
    chance = random.Random(name)
    stores = Stores()
    store = stores.spawn_store(timeout=20.0).store
    acknowledged: dict[str, list[str]] = {}
    deleted: list[str] = []
    counts = dict.fromkeys(("begin", "talk", "shared", "list", "clean", "delete", "fork"), 0)
    own_sessions: list[str] = []
    deadline = time.monotonic() + seconds
    number = 0
    while time.monotonic() < deadline or number < 12:
        number += 1
        action = chance.choice(["begin", "talk", "talk", "talk", "shared", "shared", "list", "clean", "delete", "fork"])
        counts[action] += 1
        if action == "begin" or (not own_sessions and action in ("talk", "delete", "fork")):
            session_id, text = begin(store, AGENT, "test/x", f"{name}-{number}").id, f"{name}/{number} begins"
            store.append(session_id, Message(role="user", content=text))  # an empty session is in no list
            acknowledged[session_id] = [text]
            own_sessions.append(session_id)
        elif action == "talk":
            session_id = chance.choice(own_sessions)
            with store.open(session_id) as writer:
                activate(writer)
                view = View(2000)
                view.load(store.read(session_id))
                for turn in range(chance.randint(1, 4)):
                    text = f"{name}/{number}/{turn} " + "x" * chance.choice([10, 2000, 40_000])
                    for message in writer.append(Message(role="user", content=text)):
                        view.add(message)
                        acknowledged.setdefault(session_id, []).append(text)
                if chance.random() < 0.3:
                    view.add(writer.append(marker(CLEAR, "cleared"))[0])
                complete(store, writer)
        elif action == "shared":
            text = f"{name}/{number}"
            store.append(SHARED, Message(role="user", content=text))
            acknowledged.setdefault(SHARED, []).append(text)
        elif action == "list":
            rows = sessions.fresh_listing(stores).rows(Query(order="created_at"))
            assert any(row.id == SHARED for row in rows), "the shared session is missing from a list"
            known = {row.id for row in rows}
            assert set(own_sessions) <= known, f"not in the list: {set(own_sessions) - known}"
        elif action == "clean":
            clean(sessions.fresh_listing(stores), stores.spawn_store(timeout=0.0).store, 30)
        elif action == "delete" and len(own_sessions) > 1:
            session_id = own_sessions.pop(chance.randrange(len(own_sessions)))
            trashed = store.delete(session_id)
            if chance.random() < 0.5:
                own_sessions.append(store.restore(trashed.key).id)
            else:
                deleted.append(session_id)
        elif action == "fork":
            made = fork(store, store.get(chance.choice(own_sessions)))
            own_sessions.append(made.id)
    return {"acknowledged": acknowledged, "deleted": deleted, "own_sessions": own_sessions, "counts": counts}


def check(root: str, reports: list[dict[str, object]]) -> str:
    """Assert that every acknowledged turn is stored; return a summary."""
    store = SpawnStore(root)
    total = 0
    for report in [SimpleNamespace(**fields) for fields in reports]:
        for session_id, texts in report.acknowledged.items():
            if session_id in report.deleted:
                continue
            stored = [message.content for message in store.read(session_id) if not message.aside]
            own = [text for text in stored if text in set(texts)]
            assert own == texts, f"{session_id}: {len(own)} of {len(texts)} turns, or in another order"
            total += len(texts)
        for session_id in report.own_sessions:
            assert store.check(session_id) == [], session_id
    shared = list(store.read(SHARED))
    assert [message.seq for message in shared] == list(range(len(shared))) and store.check(SHARED) == []
    remaining = [path.name for path in Path(root).glob("old-*.jsonl")]
    assert remaining == [], "old sessions were not cleaned"
    counts: dict[str, int] = {}
    for fields in reports:
        for name, count in SimpleNamespace(**fields).counts.items():
            counts[name] = counts.get(name, 0) + count
    return f"{total} acknowledged turns are stored, {len(shared)} of them in one session; {counts}"


def run(folder: Path, seconds: float, processes: int) -> str:
    """Run the processes in a folder and check the result; return the summary."""
    environ = {**os.environ, "HOME": str(folder)}
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "AUR_SESSIONS_DIR"):
        environ.pop(name, None)
    root = folder / ".aurora" / "spawn" / "sessions"
    store = SpawnStore(str(root))
    store.create(Session(id=SHARED, agent="qa-test"))
    for number in range(20):
        store.create(Session(id=f"old-{number}", agent="qa-test", created_at="2020-01-01T00:00:00Z"))
    command = [sys.executable, "-m", "tests.agents.aur.many", "--user"]
    users = [
        subprocess.Popen(
            [*command, f"u{number}", str(seconds)], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(processes)
    ]
    reports = []
    failures = []
    for user in users:
        out, err = user.communicate(timeout=seconds * 4 + 120)
        if user.returncode:
            failures.append(err.decode("utf-8", "replace"))
        else:
            reports.append(json.loads(out))
    assert not failures, "\n".join(failures)
    return check(str(root), reports)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--user"]:
        json.dump(work(arguments[1], float(arguments[2])), sys.stdout)
        return
    seconds, processes = float(arguments[0]) if arguments else 30.0, int(arguments[1]) if arguments[1:] else 8
    with tempfile.TemporaryDirectory() as folder:
        started = clock.now()
        print(f"{processes} processes, {seconds:g} s, from {started}: {run(Path(folder), seconds, processes)}")


if __name__ == "__main__":
    main(sys.argv[1:])
