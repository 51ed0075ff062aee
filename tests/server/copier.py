"""A process that copies one store into the server and can be killed: it prints each step, then waits for a line.

Arguments: a folder, a server address, a space, and how many messages are written at once.
"""

from __future__ import annotations

import sys

from cortext.server import copying
from cortext.server.store import PostgresStore
from cortext.store.files.chat import ChatStore


def main(folder: str, url: str, space: str, batch: str) -> None:
    copying.BATCH_MESSAGES = int(batch)
    target = PostgresStore(url, space)
    report = copying.copy_store(ChatStore(folder), target, step)
    print(f"copied {report.copied} there {report.there} failed {len(report.failed)}", flush=True)
    target.close()


def step(done: int) -> None:
    print(done, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
