"""Loads from one of our layouts as requested by lines of JSON, in a separate process like the peers."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore

KINDS: dict[str, type[FileStore]] = {"workspace": WorkspaceStore, "spawn": SpawnStore, "chat": ChatStore}


def build(store: FileStore, said: list[str]) -> str:
    """Fill a session as a user would; return a description of how."""
    store.create(Session(id="long"))
    start = time.perf_counter()
    with store.open("long") as writer:
        for number, text in enumerate(said):
            writer.append(Message(role="assistant" if number % 2 else "user", content=text))
    return f"one durable append per message, {time.perf_counter() - start:.1f} s"


def load(store: FileStore, count: int) -> dict[str, Any]:
    """Load the whole session, or its last `count` messages."""
    start = time.perf_counter()
    messages = store.tail("long", count) if count else list(store.read("long"))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "count": len(messages), "last": messages[-1].content}


def main(kind: str, folder: str) -> None:
    store = KINDS[kind](folder)
    for line in sys.stdin:
        question = json.loads(line)
        answer = build(store, question["build"]) if "build" in question else load(KINDS[kind](folder), question["load"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
