"""The same accidents as in the tests, for as long as it takes to believe them (about ten minutes on two cores).

python -m tests.postgres.long [kills] [cuts] [bots] [webhooks] [takeovers] [copy]    all of them where none is named
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.postgres.bots import serve
from tests.postgres.copies import interrupted
from tests.postgres.faults import accidents
from tests.postgres.proxy import Proxy
from tests.postgres.webhooks import serve as serve_webhooks
from tests.support.postgres import Postgres


def kills(server: Postgres) -> str:
    def crash() -> None:
        server.kill()
        server.start()

    scribes = accidents(server, server.url, crash, 50, writers=6, pause=0.3)
    told = sum(len(scribe.told) for scribe in scribes)
    return f"server killed 50 times, {told} messages acknowledged by 6 writers: each there once, in order"


def cuts(server: Postgres) -> str:
    proxy = Proxy(server.port)
    chance = random.Random(200)

    try:
        scribes = accidents(server, server.at(proxy.port), lambda: proxy.cut(chance), 200, writers=6, pause=0.05)
    finally:
        proxy.close()
    told = sum(len(scribe.told) for scribe in scribes)
    return f"lines cut {proxy.cuts} times, {told} messages acknowledged by 6 writers: each there once, in order"


def bots(server: Postgres) -> str:
    serve(server, workers=4, chats=50, messages=20, kills=20)
    return "4 workers × 50 chats × 20 messages, 20 workers killed: each answered once, in order"


def webhooks(server: Postgres) -> str:
    with tempfile.TemporaryDirectory() as folder:
        seed = random.randrange(1 << 30)
        found = serve_webhooks(server, Path(folder), workers=4, chats=50, messages=20, kills=20, seed=seed, crashes=5)
    told = ", ".join(f"{number} {name}" for name, number in found.items())
    return f"4 processes of `alfred telegram --webhook` × 50 chats × 20 messages, killed ({told}): each answered once"


def takeovers(server: Postgres) -> str:
    """A lease so short that the living lose their chats all the time, in the middle of everything."""
    with tempfile.TemporaryDirectory() as folder:
        seed = random.randrange(1 << 30)
        found = serve_webhooks(server, Path(folder), workers=4, chats=25, messages=4, kills=1, seed=seed, lease=0.15)
    assert found["taken over from the living"] > 50
    return f"{found['taken over from the living']} chats lost in the middle of an answer: each answered once"


def copy(server: Postgres) -> str:
    with tempfile.TemporaryDirectory() as folder:
        interrupted(server, Path(folder), sessions=20, each=5000, times=20, batch=500)
    return "copy of 100,000 messages killed 20 times: identical"


LONG: dict[str, Callable[[Postgres], str]] = {
    "kills": kills,
    "cuts": cuts,
    "bots": bots,
    "webhooks": webhooks,
    "takeovers": takeovers,
    "copy": copy,
}


def main(names: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped then too
    server = Postgres()
    try:
        for name in names or LONG:
            begin = time.monotonic()
            said = LONG[name](server)
            print(f"{said} ({time.monotonic() - begin:.0f} s)", flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
