"""Runs in the peers' environment: appends to openai-agents' SQLiteSession as requested by lines of JSON."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from typing import Any

agents = importlib.import_module("agents")


async def append(session: Any, path: str, items: list[dict[str, str]]) -> float:
    """Append one item at a time and return the seconds; without a session, open one for each item."""
    start = time.perf_counter()
    for item in items:
        if session is not None:
            await session.add_items([item])
        else:
            opened = agents.SQLiteSession("closed", path)
            await opened.add_items([item])
            opened.close()
    return time.perf_counter() - start


async def main(path: str) -> None:
    """Answer requests until the input ends."""
    session = agents.SQLiteSession("held", path)
    items: list[dict[str, str]] = []
    for line in sys.stdin:
        question = json.loads(line)
        answer = 0.0
        if "items" in question:
            items = question["items"]
        else:
            part = items[question["first"] : question["first"] + question["count"]]
            answer = await append(session if question["held"] else None, path, part)
        sys.stdout.write(f"{answer!r}\n")
        sys.stdout.flush()


asyncio.run(main(sys.argv[1]))
