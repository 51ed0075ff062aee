"""The long versions of the fault tests (about twenty minutes on two cores).

python -m tests.server.long [suite] [kills] [cuts] [nodes] [bots] [webhooks] [takeovers] [copy] [recall]
    (default: all but suite and nodes)

With CORTEXT_TEST_URL=postgresql://user:password@host/database they use that server, which is not stopped: a Citus or
Patroni cluster, a managed one. `suite` runs the conformance suite, the state machine and tests/server there. Its role
must be allowed to create databases and roles; use a server that has nothing else on it. `nodes` needs a Citus cluster.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.server.bots import serve
from tests.server.copies import copy_with_kills
from tests.server.faults import run_with_faults
from tests.server.million import recall as recall_of
from tests.server.nodes import through_proxies
from tests.server.proxy import Proxy
from tests.server.webhooks import serve as serve_webhooks
from tests.support.postgres import Postgres, Remote


def kills(server: Postgres) -> str:
    def crash() -> None:
        server.kill()
        server.start()

    writers = run_with_faults(server, server.url, crash, 50, writer_count=6, pause=0.3)
    total = sum(len(writer.acknowledged) for writer in writers)
    return f"server killed 50 times, {total} messages acknowledged by 6 writers: each stored once, in order"


def suite(server: Postgres) -> str:
    """Run every test of a store on a server; those that start servers of their own still do."""
    paths = ["tests/store/test_conformance.py", "tests/store/test_state_machine.py", "tests/server"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "postgres", *paths]
    done = subprocess.run(command, env={**os.environ, "CORTEXT_TEST_URL": server.url}, check=False)
    assert done.returncode == 0, "see above"
    version = server.sql("SELECT version()")[0][0]
    return f"the suite passed on {version}"


def cuts(server: Postgres) -> str:
    proxy = Proxy(server.port, server.host)
    chance = random.Random(200)

    try:
        writers = run_with_faults(
            server, server.at(proxy.port), lambda: proxy.cut(chance), 200, writer_count=6, pause=0.05
        )
    finally:
        proxy.close()
    total = sum(len(writer.acknowledged) for writer in writers)
    return f"connections cut {proxy.cuts} times, {total} messages acknowledged by 6 writers: each stored once, in order"


def nodes(server: Postgres) -> str:
    """Cut the connections between the coordinator of Citus and its nodes."""
    url = server.database()
    proxies = through_proxies(url)
    assert proxies, "this server has no nodes: name the coordinator of a Citus cluster in CORTEXT_TEST_URL"
    chance = random.Random(100)
    cut = itertools.cycle(proxies.values())
    try:
        writers = run_with_faults(url, url, lambda: next(cut).cut(chance), 50, writer_count=6, pause=0.5)
    finally:
        for proxy in proxies.values():
            proxy.close()
    total = sum(len(writer.acknowledged) for writer in writers)
    return f"connections to the nodes cut 50 times, {total} messages acknowledged by 6 writers: each stored once"


def bots(server: Postgres) -> str:
    serve(server, workers=4, chats=50, messages=20, kills=20)
    return "4 workers × 50 chats × 20 messages, 20 workers killed: each answered once, in order"


def webhooks(server: Postgres) -> str:
    with tempfile.TemporaryDirectory() as folder:
        seed = random.randrange(1 << 30)
        counts = serve_webhooks(server, Path(folder), workers=4, chats=50, messages=20, kills=20, seed=seed, crashes=5)
    events = ", ".join(f"{number} {name}" for name, number in counts.items())
    return f"4 processes of `alfred telegram --webhook` × 50 chats × 20 messages, killed ({events}): each answered once"


def takeovers(server: Postgres) -> str:
    """Use a lease so short that live processes keep losing their chats while answering."""
    with tempfile.TemporaryDirectory() as folder:
        seed = random.randrange(1 << 30)
        counts = serve_webhooks(server, Path(folder), workers=4, chats=25, messages=4, kills=1, seed=seed, lease=0.15)
    taken_over = counts["taken over from live processes"]
    assert taken_over > 50
    return f"{taken_over} chats lost in the middle of an answer: each answered once"


def copy(server: Postgres) -> str:
    with tempfile.TemporaryDirectory() as folder:
        copy_with_kills(server, Path(folder), sessions=20, each=5000, times=20, batch=500)
    return "copy of 100,000 messages killed 20 times: identical"


def recall(server: Postgres) -> str:
    return recall_of(server, 1_000_000)


LONG: dict[str, Callable[[Postgres], str]] = {
    "suite": suite,
    "kills": kills,
    "cuts": cuts,
    "nodes": nodes,
    "bots": bots,
    "webhooks": webhooks,
    "takeovers": takeovers,
    "copy": copy,
    "recall": recall,
}


def main(names: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(LONG))
    names = parser.parse_args(names).names
    if unknown := set(names) - set(LONG):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped as well
    url = os.environ.get("CORTEXT_TEST_URL", "")
    server = Remote(url) if url else Postgres()
    # A server of somebody else is not killed.
    not_chosen = ("suite", "nodes", *(("kills", "webhooks") if url else ()))
    chosen = names or [name for name in LONG if name not in not_chosen]
    try:
        for name in chosen:
            begin = time.monotonic()
            result = LONG[name](server)
            print(f"{result} ({time.monotonic() - begin:.0f} s)", flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
