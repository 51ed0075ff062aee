"""Work on very large sessions, in a process of its own so that its memory can be measured.

`python -m tests.store.limit_work WORK LAYOUT ROOT` prints the results and the peak resident memory as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from cortext.errors import InvalidMessage
from cortext.io.jsonl import MAX_LINE
from cortext.model.message import Message, Part
from cortext.model.session import Change
from cortext.store import base
from cortext.store.files import journal, lines, log
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore

ID = "sess_one"
STORES: dict[str, Callable[[str], FileStore]] = {"workspace": WorkspaceStore, "spawn": SpawnStore, "chat": ChatStore}


def peak_megabytes() -> float:
    """Return the peak memory of this process: from /proc if possible, because ru_maxrss includes the parent's peak."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def first_damage(damage: list[base.Damage]) -> list[list[Any]]:
    return [[item.kind, item.offset, item.length] for item in damage[:5]]


def read_all_ways(store: FileStore) -> dict[str, Any]:
    """Use every method that only reads."""
    reading = store.read(ID)
    first, count = "", 0
    for message in reading:
        count += 1
        first = first or message.content[:20]
    session = store.get(ID)
    return {
        "count": count,
        "first": first,
        "damage": first_damage(reading.damage),
        "damages": len(reading.damage),
        "session": [session.message_count, session.damage],
        "tail": [message.seq for message in store.tail(ID, 3)],
        "from": sum(1 for _ in store.read(ID, max(0, count - 10))),
    }


def read_once(store: FileStore) -> dict[str, Any]:
    reading = store.read(ID)
    found = {"count": sum(1 for _ in reading), "damage": first_damage(reading.damage), "damages": len(reading.damage)}
    with store.open(ID) as writer:
        return {**found, "title": writer.session().title}


def read_and_append(store: FileStore) -> dict[str, Any]:
    found = read_all_ways(store)
    return {**found, "added": store.append(ID, Message(role="user", content="on"))[0].seq}


def repair_long_lines(store: FileStore) -> dict[str, Any]:
    """Repair with a line limit of 4 MiB instead of 256: a repair writes the whole log to the disk again."""
    for module in (lines, log, journal, sys.modules["cortext.io.jsonl"]):
        vars(module)["MAX_LINE"] = 4 << 20
    report = store.repair(ID)
    second = store.repair(ID)
    counts = {"kept": report.kept_messages, "bytes": report.quarantined_bytes, "second_changed": second.changed}
    return {**counts, **read_all_ways(store)}


def refusal(store: FileStore, message: Message) -> str:
    try:
        store.append(ID, message)
    except InvalidMessage as error:
        return error.message
    return "stored"


def append_too_long(store: FileStore) -> dict[str, Any]:
    errors = [refusal(store, Message(role="user", content="x" * (MAX_LINE + 1)))]
    return {"errors": errors, "added": store.append(ID, Message(role="user", content="on"))[0].seq}


def append_too_long_parts(store: FileStore) -> dict[str, Any]:
    part = Part(type="tool_result", call_id="c", output="x" * (MAX_LINE + 1))
    errors = [refusal(store, Message(role="tool", parts=[part]))]
    return {"errors": errors, "added": store.append(ID, Message(role="user", content="on"))[0].seq}


def append_too_deep(store: FileStore) -> dict[str, Any]:
    errors = []
    for depth in (lines.MAX_DEPTH + 1, 900, 10_000, 1_000_000):
        nested: list[Any] = []
        for _ in range(depth):
            nested = [nested]
        errors.append(refusal(store, Message(role="user", content="x", extra={"deep": nested})))
        errors.append(refusal(store, Message(role="user", content="\ud800", usage={"deep": nested})))
        part = Part(type="tool_call", id="c", name="n", input=nested)
        errors.append(refusal(store, Message(role="user", parts=[part])))
        try:
            store.update(ID, Change(extra={"deep": nested}))
        except InvalidMessage as error:
            errors.append(error.message)
    return {"errors": errors, "added": store.append(ID, Message(role="user", content="on"))[0].seq}


def main() -> None:
    work, layout, root = sys.argv[1:]
    functions = [
        read_all_ways,
        read_once,
        read_and_append,
        repair_long_lines,
        append_too_long,
        append_too_long_parts,
        append_too_deep,
    ]
    function = {each.__name__: each for each in functions}[work]
    result = function(STORES[layout](root))
    print(json.dumps({**result, "peak": peak_megabytes(), "pid": os.getpid()}))


if __name__ == "__main__":
    main()
