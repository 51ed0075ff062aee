"""What must hold after any crash. Every crash test ends with `check`.

- every acknowledged message is stored exactly once, in order, as it was written
- nothing is merged or made up; a message that was not acknowledged is stored completely or not at all
- opening, reading, listing and checking change no byte, and give the same result a second time
- unreadable bytes are reported and kept, in the log or in quarantine
- appending and compacting work; after a repair there is no damage left
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from typing import Any

from cortext.model.message import Message
from cortext.model.session import Change
from cortext.store.base import DISORDER, DOUBLED, METADATA, UNREADABLE, Damage
from cortext.store.files.layout_paths import CHANGES
from cortext.store.files.store import FileStore
from tests.store.crash.actor import LAYOUTS, SESSION, Ledger, checked_name, files_of, make_message, new_session

AFTER = "after-0"
FIRST = ("append", "update", "compact", "repair", "delete")


def check(layout: str, root: str, ledger: Ledger, first: str = "append", added_name: str = AFTER) -> None:
    """Open what a crash left, and compare it with the ledger.

    `first` is the first operation after the crash; whatever it is, an append and a repair must work after it.
    The appended message is added to the ledger, so that the session can be crashed and checked again.
    """
    before = snapshot(root, locks=True)
    store = LAYOUTS[layout](root)
    seen = observed(store)
    assert observed(LAYOUTS[layout](root)) == seen, "opening it a second time gave a different result"
    assert snapshot(root, locks=True) == before, "reading changed a file"

    assert [session.message_count for session in seen["sessions"]] == [len(seen[s.id][0]) for s in seen["sessions"]]
    ensure_live(store, ledger)
    messages = read_all(store)
    check_messages(messages, ledger)
    damage = store.check(SESSION)
    for item in damage:
        assert item.kind not in (METADATA, DOUBLED, DISORDER), f"a crash must not cause this damage: {item}"
    unreadable_lines = unreadable(store)
    check_reported(unreadable_lines, damage)
    unreadable_lines += [("", 0, line) for line in ledger.junk]
    check_kept(store, unreadable_lines)
    if touch(store, first, damage):
        ledger.titles.add("third")
        assert plain(store.read(SESSION)) == messages, f"{first} changed the messages"
        check_kept(store, unreadable_lines)

    [added] = store.append(SESSION, make_message(added_name))
    messages.append(added)
    ledger.tried.append(added_name)
    ledger.acked[added_name] = (added.id, added.seq)
    assert read_all(LAYOUTS[layout](root)) == messages, "an append changed what was there"
    assert contents(files_of(store).log).endswith(b"\n"), "no newline at the end after an append"
    check_kept(store, unreadable_lines)

    has_unreadable = any(item.kind == UNREADABLE for item in damage)
    if not has_unreadable:  # unreadable lines have to be repaired before a compaction
        compact(store, messages)
    repaired = snapshot(root)
    if store.repair(SESSION).changed:
        repaired = snapshot(root)
        assert not store.repair(SESSION).changed, "a second repair found something to do"
    assert snapshot(root) == repaired, "a repair with nothing to do changed a file"
    assert store.check(SESSION) == [] and unreadable(store) == [], "a repair left damage"
    assert plain(store.read(SESSION)) == messages, "a repair changed the messages"
    if has_unreadable:
        compact(store, messages)
    check_kept(store, unreadable_lines)


def ensure_live(store: FileStore, ledger: Ledger) -> None:
    """Check where the session is, and its metadata; create or restore it if it is not live."""
    where = location(store)
    assert where in ledger.locations, f"the session is {where}, not one of {ledger.locations}"
    if where == "absent":
        assert not ledger.acked
        store.create(new_session())
    elif where == "trash":
        [trashed] = list(store.trash())
        assert store.restore(trashed.key).id == SESSION
        assert location(store) == "here" and not list(store.trash()), "restored, but still in the trash"
    ledger.locations = {"here"}
    if where != "absent":
        session = store.get(SESSION)
        assert session.status in ledger.statuses, f"status {session.status}, not {ledger.statuses}"
        assert session.title in ledger.titles, f"title {session.title}, not {ledger.titles}"


def check_lightly(layout: str, root: str, ledger: Ledger) -> None:
    """The cheap part of `check`: where the session is, its messages, its damage, and one more append."""
    store = LAYOUTS[layout](root)
    ensure_live(store, ledger)
    messages = plain(store.read(SESSION))
    check_messages(messages, ledger)
    unreadable_lines = unreadable(store)
    check_reported(unreadable_lines, store.check(SESSION))
    added = store.append(SESSION, make_message(AFTER))
    assert plain(LAYOUTS[layout](root).read(SESSION)) == [*messages, *added], "an append changed what was there"
    check_kept(store, unreadable_lines + [("", 0, line) for line in ledger.junk])


def touch(store: FileStore, first: str, damage: list[Damage]) -> bool:
    """Do the first operation after the crash, if it is not an append; return whether it was done."""
    if first == "update":
        assert store.update(SESSION, Change(title="third")).title == "third"
    elif first == "delete":
        assert store.restore(store.delete(SESSION).key).id == SESSION
    elif first == "repair":
        assert store.repair(SESSION).changed == bool(damage)
    elif first == "compact" and files_of(store).archive and not any(item.kind == UNREADABLE for item in damage):
        messages = plain(store.read(SESSION))
        assert store.compact(SESSION, messages[len(messages) // 2].seq if messages else 0) <= len(messages) // 2
    else:
        return False
    return True


def compact(store: FileStore, messages: list[Message]) -> None:
    """Archive all but the last message, if the layout has an archive; the messages must not change."""
    if files_of(store).archive:
        store.compact(SESSION, messages[-1].seq)
        assert read_all(store) == messages, "a compaction changed the messages"
        assert store.check(SESSION) == [], "a compaction left damage"
        check_indexes(store)


def check_indexes(store: FileStore) -> None:
    """Check that a layout that numbers the messages in each file does so from 0 without a gap."""
    for log in logs(store):
        records = [json.loads(raw) for raw in contents(log).split(b"\n") if raw.strip()]
        indexes = [record["idx"] for record in records if "idx" in record]
        assert indexes == list(range(len(indexes))), f"{log} counts {indexes}"


def location(store: FileStore) -> str:
    """Return where the session is: here, trash or absent; AssertionError if it is in two places."""
    here = [session.id for session in store.sessions()].count(SESSION)
    trashed = sum(item.session_id == SESSION for item in store.trash())
    assert here + trashed <= 1, f"the session is listed {here} times and {trashed} times in the trash"
    return "here" if here else "trash" if trashed else "absent"


def observed(store: FileStore) -> dict[str, Any]:
    """Return everything that a reader can see."""
    seen: dict[str, Any] = {"sessions": list(store.sessions()), "trash": list(store.trash())}
    for session in seen["sessions"]:
        reading = store.read(session.id)
        seen[session.id] = (list(reading), reading.damage, store.tail(session.id, 3))
    return seen


def read_all(store: FileStore) -> list[Message]:
    """Return all messages; AssertionError if reading the tail or from a number disagrees with it."""
    messages = plain(store.read(SESSION))
    assert plain(store.tail(SESSION, 2)) == messages[-2:], "the tail differs from a full read"
    start = messages[-3].seq if len(messages) > 2 else 0
    assert plain(store.read(SESSION, start)) == messages[-3:], "reading from a number differs from a full read"
    return messages


def plain(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without keys specific to a layout, so that they compare equal to what was written."""
    return [Message(**{name: getattr(message, name) for name in Message.__struct_fields__}) for message in messages]


def check_messages(messages: list[Message], ledger: Ledger) -> None:
    """Compare the messages with what was attempted and what was acknowledged."""
    names = [checked_name(message) for message in messages]
    assert len(set(names)) == len(names), f"duplicated: {sorted(n for n in set(names) if names.count(n) > 1)}"
    invented = set(names) - set(ledger.tried)
    assert not invented, f"never written: {invented}"
    lost = [name for name in ledger.acked if name not in names]
    assert not lost, f"acknowledged but lost: {lost}"
    order = {name: number for number, name in enumerate(ledger.tried)}
    assert names == sorted(names, key=order.__getitem__), f"out of order: {names}"
    numbers = [message.seq for message in messages]
    assert numbers == sorted(set(numbers)), f"numbers do not increase: {numbers}"
    assert len({message.id for message in messages}) == len(messages), "two messages have the same id"
    for name, message in zip(names, messages, strict=True):
        if name in ledger.acked:
            assert (message.id, message.seq) == ledger.acked[name], f"{name} changed its id or number"


def check_reported(unreadable_lines: list[tuple[str, int, bytes]], damage: list[Damage]) -> None:
    """Check that all unreadable bytes lie within reported damage."""
    for file, offset, raw in unreadable_lines:
        inside = [
            item
            for item in damage
            if item.file == file and item.offset <= offset and offset + len(raw) <= item.offset + item.length
        ]
        assert inside, f"{len(raw)} unreadable bytes at {offset} of {file} are not reported: {damage}"


def check_kept(store: FileStore, unreadable_lines: list[tuple[str, int, bytes]]) -> None:
    """Check that all unreadable bytes are still in a log or in its quarantine."""
    kept = b"\n".join(contents(log) + b"\n" + quarantined(log) for log in logs(store)) if unreadable_lines else b""
    for file, offset, raw in unreadable_lines:
        assert raw in kept, f"{len(raw)} bytes at {offset} of {file} are gone: {raw[:60]!r}"


def unreadable(store: FileStore) -> list[tuple[str, int, bytes]]:
    """Return file, offset and bytes of every line that is not a JSON object, found without the code under test."""
    found = []
    for log in logs(store):
        offset = 0
        for raw in contents(log).split(b"\n"):
            if raw.strip() and not _is_record(raw):
                found.append((os.path.basename(log), offset, raw))
            offset += len(raw) + 1
    return found


def _is_record(raw: bytes) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except ValueError:
        return False


def quarantined(log: str) -> bytes:
    """Return all bytes in the quarantine of a log, concatenated."""
    parts = []
    for line in contents(f"{log}.quarantine").split(b"\n"):
        if _is_record(line):
            parts.append(base64.b64decode(json.loads(line)["base64"]))
    return b"".join(parts)


def logs(store: FileStore) -> list[str]:
    """Return the paths of the session's logs, oldest messages first."""
    files = files_of(store)
    return [path for path in (files.archive, files.log) if path]


def contents(path: str) -> bytes:
    """Return the bytes of a file; empty if there is no file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def snapshot(root: str, *, locks: bool = False) -> dict[str, tuple[bytes, int]]:
    """Return every file of a store with its bytes and mode; lock files and the change log only with `locks`."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if locks or not (name.endswith(".lock") or name == CHANGES):
                found[os.path.relpath(path, root)] = (contents(path), os.stat(path).st_mode)
    return found
