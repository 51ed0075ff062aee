"""A process that holds a session, writes, waits for a line on its input, and writes again."""

from __future__ import annotations

import sys

from cortext.errors import SessionBusy
from cortext.model.message import Message
from cortext.server.store import PostgresStore


def main(url: str, space: str) -> None:
    store = PostgresStore(url, space, lease=0.6)
    with store.open("talk") as writer:
        for text in ("before", "after"):
            try:
                print(f"stored {writer.append(Message(role='user', content=text))[0].seq}", flush=True)
            except SessionBusy as error:
                print(f"busy: {error.message}", flush=True)
            if text == "before":
                sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
