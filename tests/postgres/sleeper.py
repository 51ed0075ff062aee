"""A writer that holds a session, and writes once more when it is told to: for the test that stops it in between."""

from __future__ import annotations

import sys

from cortext.errors import SessionBusy
from cortext.model.message import Message
from cortext.store.postgres.store import PostgresStore


def main(url: str, space: str) -> None:
    store = PostgresStore(url, space, lease=0.6)
    with store.open("talk") as writer:
        for words in ("before", "after"):
            try:
                print(f"stored {writer.append(Message(role='user', content=words))[0].seq}", flush=True)
            except SessionBusy as error:
                print(f"busy: {error.message}", flush=True)
            if words == "before":
                sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
