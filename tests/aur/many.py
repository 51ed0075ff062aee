"""Many processes that begin, continue, list, clean and delete sessions at once, for so many seconds.

    python -m tests.aur.many [SECONDS [PROCESSES]]          (30 seconds and 8 processes if not said)

Each process is a user with his own sessions, and one that all of them write to. At the end every turn that was
acknowledged is there, once, in the order in which its writer said it; nothing raised what it should not.
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

from cortext.faces.aur import sessions
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.talk.agents import Agent
from cortext.services.talk.context import CLEAR, View, mark
from cortext.services.talk.expiry import clean
from cortext.services.talk.sessions import activate, begin, complete, fork
from cortext.store.files.spawn import SpawnStore
from cortext.wiring.stores import Stores

SHARED = "shared"
AGENT = Agent(name="qa-test", prompt="You test.")


def work(name: str, seconds: float) -> dict[str, object]:
    """What one user does; what was acknowledged to him, by session."""
    chance = random.Random(name)
    stores = Stores()
    store = stores.spawn_store(timeout=20.0).store
    acked: dict[str, list[str]] = {}
    deleted: list[str] = []
    counts = dict.fromkeys(("begin", "talk", "shared", "list", "clean", "delete", "fork"), 0)
    mine: list[str] = []
    deadline = time.monotonic() + seconds
    number = 0
    while time.monotonic() < deadline or number < 12:
        number += 1
        what = chance.choice(["begin", "talk", "talk", "talk", "shared", "shared", "list", "clean", "delete", "fork"])
        counts[what] += 1
        if what == "begin" or (not mine and what in ("talk", "delete", "fork")):
            session_id, text = begin(store, AGENT, "test/x", f"{name}-{number}").id, f"{name}/{number} begins"
            store.append(session_id, Message(role="user", content=text))  # without a word it is in no list
            acked[session_id] = [text]
            mine.append(session_id)
        elif what == "talk":
            session_id = chance.choice(mine)
            with store.open(session_id) as writer:
                activate(writer)
                view = View(2000)
                view.load(store.read(session_id))
                for turn in range(chance.randint(1, 4)):
                    text = f"{name}/{number}/{turn} " + "x" * chance.choice([10, 2000, 40_000])
                    for message in writer.append(Message(role="user", content=text)):
                        view.add(message)
                        acked.setdefault(session_id, []).append(text)
                if chance.random() < 0.3:
                    view.add(writer.append(marker(CLEAR, "cleared"))[0])
                complete(store, writer)
        elif what == "shared":
            text = f"{name}/{number}"
            store.append(SHARED, Message(role="user", content=text))
            acked.setdefault(SHARED, []).append(text)
        elif what == "list":
            rows = sessions.fresh(stores).rows(order="created_at")
            assert any(row.id == SHARED for row in rows), "a list without a session that is always there"
            known = {row.id for row in rows}
            assert set(mine) <= known, f"not in the list: {set(mine) - known}"
        elif what == "clean":
            clean(sessions.fresh(stores), stores.spawn_store(timeout=0.0).store, 30)
        elif what == "delete" and len(mine) > 1:
            session_id = mine.pop(chance.randrange(len(mine)))
            trashed = store.delete(session_id)
            if chance.random() < 0.5:
                mine.append(store.restore(trashed.key).id)
            else:
                deleted.append(session_id)
        elif what == "fork":
            made = fork(store, store.get(chance.choice(mine)))
            mine.append(made.id)
    return {"acked": acked, "deleted": deleted, "mine": mine, "counts": counts}


def check(root: str, reports: list[dict[str, object]]) -> str:
    """Whether everything that was promised is there; a line about it."""
    store = SpawnStore(root)
    total = 0
    for report in [SimpleNamespace(**fields) for fields in reports]:
        for session_id, texts in report.acked.items():
            if session_id in report.deleted:
                continue
            there = [message.content for message in store.read(session_id) if not message.aside]
            ours = [text for text in there if text in set(texts)]
            assert ours == texts, f"{session_id}: {len(ours)} of {len(texts)} turns, or another order"
            total += len(texts)
        for session_id in report.mine:
            assert store.check(session_id) == [], session_id
    shared = list(store.read(SHARED))
    assert [message.seq for message in shared] == list(range(len(shared))) and store.check(SHARED) == []
    left = [path.name for path in Path(root).glob("old-*.jsonl")]
    assert left == [], "old sessions were to be cleaned"
    counts: dict[str, int] = {}
    for fields in reports:
        for name, count in SimpleNamespace(**fields).counts.items():
            counts[name] = counts.get(name, 0) + count
    return f"{total} acknowledged turns are there, {len(shared)} of them in one session; {counts}"


def run(folder: Path, seconds: float, processes: int) -> str:
    """The whole thing in a folder; what came of it, or an AssertionError."""
    environ = {**os.environ, "HOME": str(folder)}
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "AUR_SESSIONS_DIR"):
        environ.pop(name, None)
    root = folder / ".aurora" / "spawn" / "sessions"
    store = SpawnStore(str(root))
    store.create(Session(id=SHARED, agent="qa-test"))
    for number in range(20):
        store.create(Session(id=f"old-{number}", agent="qa-test", created_at="2020-01-01T00:00:00Z"))
    command = [sys.executable, "-m", "tests.aur.many", "--user"]
    users = [
        subprocess.Popen(
            [*command, f"u{place}", str(seconds)], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for place in range(processes)
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


def main(words: list[str]) -> None:
    if words[:1] == ["--user"]:
        json.dump(work(words[1], float(words[2])), sys.stdout)
        return
    seconds, processes = float(words[0]) if words else 30.0, int(words[1]) if words[1:] else 8
    with tempfile.TemporaryDirectory() as folder:
        begun = clock.now()
        print(f"{processes} processes, {seconds:g} s, from {begun}: {run(Path(folder), seconds, processes)}")


if __name__ == "__main__":
    main(sys.argv[1:])
