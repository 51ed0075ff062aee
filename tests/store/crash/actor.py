"""An actor that changes one session in the crash tests, and a ledger of what was attempted and acknowledged.

A message's content is derived from its name and size, which it contains. So a reader can tell, without knowing who
wrote it or when, whether a message is intact, truncated, merged or made up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from cortext.errors import NotFound
from cortext.io import durable
from cortext.model.message import ASSISTANT, USER, Message, Part
from cortext.model.session import Change, Session
from cortext.store.files.chat import ChatStore
from cortext.store.files.layout_paths import SessionFiles
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore

LAYOUTS: dict[str, Callable[..., FileStore]] = {
    "workspace": WorkspaceStore,
    "spawn": SpawnStore,
    "chat": ChatStore,
}
COMPACTING = ("workspace", "chat")
SESSION = "talk"
# Characters that could split a line of JSON, join two of them, or look like one.
_FILLER = ' ünï 漢字 🙂 \\ \\n "quoted" {"role": "user", "content": "not a message", "seq": 1}\n\t\u2028 <<<<<<< '

Event = tuple[str, str, list[Any]]


def make_text(name: str, size: int) -> str:
    """Return the content for a name and a size in characters."""
    header = f"{name}|{size}|"
    unit = name + _FILLER
    return (header + unit * (1 + size // len(unit)))[: max(size, len(header))]


def make_message(name: str, size: int = 60, *, id: str = "") -> Message:
    """Return the message for a name and a size. Every third one has a tool call and its result too."""
    number = int(name.rpartition("-")[2] or "0") if name.rpartition("-")[2].isdigit() else 0
    parts = None
    if number % 3 == 2:
        parts = [
            Part(type="text", text=make_text(name, size)),
            Part(type="tool_call", id=name, name="read_file", input={"path": f"{name}.md", "deep": [1, {"x": None}]}),
            Part(type="tool_result", call_id=name, output=f"result of {name}\n"),
        ]
    return Message(
        role=ASSISTANT if number % 2 else USER,
        content=make_text(name, size),
        id=id,
        model="m" if number % 2 else "",
        parts=parts,
        usage={"input_tokens": number} if number % 2 else None,
    )


def checked_name(message: Message) -> str:
    """Return the name of a message; AssertionError if the message differs from what was written under that name."""
    name, _, rest = message.content.partition("|")
    size = rest.partition("|")[0]
    assert size.isdigit(), f"not a message of these tests: {message.content[:80]!r}"
    expected = make_message(name, int(size))
    assert message.extra in (None, {"rewritten": True}), f"{name}: unexpected extra {message.extra}"
    for field in ("role", "content", "model", "parts", "usage", "partial"):
        assert getattr(message, field) == getattr(expected, field), f"{name}: {field} differs from what was written"
    return name


def new_session() -> Session:
    """Return the session that every test creates."""
    return Session(id=SESSION, title="first", agent="qa-test", created_at="2026-01-31T09:30:00Z")


class Actor:
    """Changes one session and notes an event for each attempt and each acknowledgement."""

    def __init__(self, layout: str, root: str, note: Callable[[Event], None], *, lock_timeout: float = 5.0) -> None:
        self.layout = layout
        self.root = root
        self.lock_timeout = lock_timeout
        self.store = LAYOUTS[layout](root, lock_timeout=lock_timeout)
        self._note = note

    def reopen(self) -> None:
        """Open the store anew, as a new process would."""
        self.store = LAYOUTS[self.layout](self.root, lock_timeout=self.lock_timeout)

    def create(self) -> None:
        self._do("create", [], lambda: self.store.create(new_session()) and [])

    def append(self, *names: str, size: int = 60) -> None:
        messages = [make_message(name, size) for name in names]
        self._do("append", list(names), lambda: [[m.id, m.seq] for m in self.store.append(SESSION, *messages)])

    def status(self, status: str) -> None:
        self._do("status", [status], lambda: [self.store.update(SESSION, Change(status=status)).status])

    def title(self, title: str) -> None:
        self._do("title", [title], lambda: [self.store.update(SESSION, Change(title=title)).title])

    def compact(self, before: int) -> None:
        self._do("compact", [before], lambda: [self.store.compact(SESSION, before)])

    def rewrite(self) -> None:
        """Add a field to every message of the user."""

        def add_field(record: dict[str, Any]) -> dict[str, Any]:
            return {**record, "extra": {"rewritten": True}} if record.get("role") == USER else record

        self._do("rewrite", [], lambda: [self.store.rewrite(SESSION, add_field)])

    def delete(self) -> None:
        self._do("delete", [], lambda: [self.store.delete(SESSION).key])

    def restore(self) -> None:
        keys = [item.key for item in self.store.trash()]
        if not keys:
            raise NotFound("the trash is empty")
        key = keys[0]
        self._do("restore", [key], lambda: self.store.restore(key) and [])

    def repair(self) -> None:
        self._do("repair", [], lambda: [self.store.repair(SESSION).changed])

    def tear(self, junk: bytes) -> None:
        """Act as another program that writes these bytes, flushes them, and ends."""

        def write() -> list[Any]:
            descriptor = durable.calls.open(files_of(self.store).log, os.O_WRONLY | os.O_APPEND)
            try:
                durable.write_all(descriptor, junk)
                durable.calls.fsync(descriptor)
            finally:
                durable.calls.close(descriptor)
            return []

        self._do("tear", [junk.decode("latin-1")], write)

    def _do(self, verb: str, arguments: list[Any], work: Callable[[], Any]) -> None:
        self._note(("try", verb, arguments))
        try:
            answer = work()
        except Exception:
            self._note(("no", verb, arguments))
            raise
        self._note(("ack", verb, [arguments, answer]))


def files_of(store: FileStore) -> SessionFiles:
    """Return the paths of the session's files."""
    files = store.locate(SESSION)
    assert files is not None, "there is no session"
    return files


class Ledger:
    """What the store must contain, and what it may contain, after a sequence of events."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.tried: list[str] = []
        self.acked: dict[str, tuple[str, int]] = {}
        self.locations = {"absent"}
        self.statuses = {"active"}
        self.titles = {"first"}
        self.junk: list[bytes] = []  # flushed bytes that are not messages: they must be kept
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        phase, verb, arguments = event
        if phase == "try":
            self._tried(verb, arguments)
        elif phase == "ack":
            self._acked(verb, *arguments)

    def _tried(self, verb: str, arguments: list[Any]) -> None:
        if verb == "append":
            self.tried += arguments
        elif verb == "status":
            self.statuses.add(arguments[0])
        elif verb == "title":
            self.titles.add(arguments[0])
        else:
            locations = {"create": "here", "restore": "here", "delete": "trash"}
            self.locations |= {locations[verb]} if verb in locations else set()

    def _acked(self, verb: str, arguments: list[Any], answer: list[Any]) -> None:
        if verb == "append":
            self.acked.update({name: (id, seq) for name, (id, seq) in zip(arguments, answer, strict=True)})
        elif verb == "status":
            self.statuses = {arguments[0]}
        elif verb == "title":
            self.titles = {arguments[0]}
        elif verb in ("create", "restore"):
            self.locations = {"here"}
        elif verb == "delete":
            self.locations = {"trash"}
        elif verb == "tear":
            self.junk += [line for line in arguments[0].encode("latin-1").split(b"\n") if line.strip()]


def read_events(raw: bytes) -> list[Event]:
    """Return the events that a process wrote as lines; an incomplete last line is dropped."""
    return [tuple(json.loads(line)) for line in raw.split(b"\n")[:-1]]


def event_line(event: Event) -> bytes:
    return json.dumps(event).encode() + b"\n"


def life(actor: Actor) -> None:
    """Do everything that can happen to a session, once or twice."""
    actor.create()
    actor.append("a-0")
    actor.append("a-1", "a-2", "a-3")
    actor.append("a-4", size=9000)
    actor.status("paused")
    actor.append("a-5")
    if actor.layout in COMPACTING:
        actor.compact(3)
    actor.append("a-6")
    actor.rewrite()
    actor.reopen()
    actor.append("a-7", "a-8", size=3000)
    if actor.layout in COMPACTING:
        actor.compact(9)
    actor.append("a-9")
    actor.delete()
    actor.restore()
    actor.append("a-10")


def repairing(actor: Actor) -> None:
    """Tear the end of the log, so that the next append or a repair has to fix it."""
    actor.create()
    actor.append("b-0", "b-1")
    actor.tear(b'{"role": "user", "content": "torn \xc3')
    actor.append("b-2")
    actor.append("b-3", size=5000)
    actor.reopen()
    actor.tear(b"\0" * 5000)
    actor.append("b-4")
    actor.tear(b"no json at all\n" + b'{"half": ')
    actor.repair()
    actor.append("b-5")
    actor.delete()
    actor.restore()
    actor.append("b-6")


SCENARIOS: dict[str, Callable[[Actor], None]] = {"life": life, "repairing": repairing}
