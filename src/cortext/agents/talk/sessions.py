"""Sessions of agents, for `aur`: start, continue, fork, complete and expire sessions, and read turns from a file.

Empty sessions of processes that were killed before the first message are always removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import msgspec

from cortext.agents.talk.agents import Agent
from cortext.agents.talk.context import AGENT, marker, marker_kind
from cortext.errors import CortextError, DamagedData, SessionBusy, SessionExists, SessionNotFound, UsageError
from cortext.io import durable
from cortext.model import clock, ids
from cortext.model.message import ROLES, SYSTEM, Message, plain
from cortext.model.session import ACTIVE, COMPLETED, AgentConfig, Change, Origin, Session
from cortext.services.library.listing import Listing
from cortext.services.library.stores import create_with
from cortext.store.base import TORN, Damage, Store, Writer

MAX_BYTES = 256 << 20  # of a file that turns are imported from


def begin(store: Store, agent: Agent, model: str, name: str = "") -> Session:
    """Create a session, durable when this returns. Its id is `name`, if one is given."""
    session = Session(
        id=ids.check_id(name) if name else ids.new_session_id("session-"),
        type="spawn",
        agent=agent.name,
        agent_config=_config(agent, model),
    )
    try:
        return store.create(session)
    except SessionExists as error:
        error.hint = f"continue it with: aur spawn --resume {session.id}"
        raise


def _config(agent: Agent, model: str) -> AgentConfig:
    return AgentConfig(model=model, system_prompt_hash=agent.prompt_hash, tools=list(agent.tools))


def activate(writer: Writer) -> Session:
    """Make the session active again, even if it was completed."""
    session = writer.session()
    return session if session.status == ACTIVE else writer.update(Change(status=ACTIVE, force=True))


def agent_of(session: Session, messages: Iterable[Message]) -> str:
    """Return the name of the current agent: from the last change in the log, else from the metadata."""
    name = session.agent
    for message in messages:
        if marker_kind(message) == AGENT:
            name = str((message.extra or {}).get("agent") or name)
    return name


def change_agent(old: str, agent: Agent, model: str) -> tuple[Message, Change]:
    """Return the message that records the new agent in the log, and the change of the metadata to make after it."""
    message = marker(AGENT, f"agent: {old} → {agent.name}", agent=agent.name)
    return message, Change(agent=agent.name, agent_config=_config(agent, model))


def complete(store: Store, writer: Writer, status: str = COMPLETED) -> Session:
    """Set the final status of a session, and derive its title and summary from its text."""
    from cortext.services.workspace.lifecycle import refresh  # slow to import, and only needed at the end

    session = writer.session()
    change = Change(status=status)
    refresh(change, session, store)
    return writer.update(change)


def fork(store: Store, session: Session) -> Session:
    """Create a session with all messages of another, including markers and partial replies; that one is unchanged."""
    messages = [plain(message) for message in store.read(session.id)]
    new = Session(
        id=ids.new_session_id("session-"),
        type="spawn",
        agent=session.agent,
        title=f"{session.title or session.id} (fork)",
        agent_config=session.agent_config,
        origin=Origin(),
        created_at=clock.now(),
        extra={"forked_from": {"session": session.id, "messages": len(messages)}},
    )
    return create_with(store, new, messages, Change())


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────


def damage_to_repair(store: Store, session: Session) -> list[Damage]:
    """Return the damage of a session's file, except a torn line of ours, which the next append quarantines."""
    found = store.check(session.id)
    return [item for item in found if not (item.kind == TORN and _is_torn_turn(session.path, item))]


def _is_torn_turn(path: str, item: Damage) -> bool:
    beginning = b'{"type": "turn", "role": '
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            file.seek(item.offset)
            return beginning.startswith(file.read(min(item.length, len(beginning))))
    except OSError:
        return False


def damage_error(session: Session, damage: list[Damage]) -> DamagedData:
    """Return the error that names the file and the first damaged line."""
    first = damage[0]
    more = f" (and {len(damage) - 1} more)" if len(damage) > 1 else ""
    # A session on a server has no file with lines.
    line = f", line {line_number(session.path, first.offset)}" if os.path.isfile(session.path) else ""
    return DamagedData(
        f"{session.path}{line}: {first.reason}{more}",
        kept="the file is unchanged",
        hint=f"recover the intact messages with: cortext repair {session.id}; "
        f"or move it to the trash with: aur spawn --delete-session {session.id}",
    )


def line_number(path: str, offset: int) -> int:
    """Return the number of the line at a byte offset, counted from 1."""
    count = 1
    with open(path, "rb", opener=durable.plain_file) as file:
        while offset > 0 and (block := file.read(min(offset, 1 << 20))):
            count += block.count(b"\n")
            offset -= len(block)
    return count


# ── import ───────────────────────────────────────────────────────────────────────────────────────────


def read_turns(path: str) -> list[Message]:
    """Return the turns in a file: an export of ours, the file of a session, or a JSON list of {role, content}.

    They are history, not instructions: system messages of another conversation become asides.
    """
    try:
        if os.path.getsize(path) > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES >> 20} MiB", kept="nothing was imported")
        with open(path, "rb", opener=durable.plain_file) as file:
            raw = file.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", kept="nothing was imported") from error
    messages = []
    for number, record in enumerate(_records(raw, path), 1):
        if not isinstance(record, dict) or record.get("type") == "metadata":
            continue
        role, content = record.get("role"), record.get("content", "")
        if role not in ROLES or not isinstance(content, str):
            raise UsageError(f"{path}: turn {number} has no role or no text", kept="nothing was imported")
        try:
            message = msgspec.convert({**record, "seq": -1, "id": "", "parent": ""}, Message)
        except msgspec.ValidationError as error:
            raise UsageError(f"{path}: turn {number}: {error}", kept="nothing was imported") from error
        if message.content or message.parts:
            messages.append(msgspec.structs.replace(message, aside=message.aside or message.role == SYSTEM, extra=None))
    if not messages:
        raise UsageError(
            f"{path} contains no turns", kept="nothing was imported", hint="import a file that /export wrote"
        )
    return messages


def _records(raw: bytes, path: str) -> list[object]:
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return [msgspec.json.decode(line) for line in raw.splitlines() if line.strip()]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path} is neither JSON nor JSON Lines: {error}", kept="nothing was imported") from error
    if isinstance(document, dict) and isinstance(document.get("messages"), list):
        return list(document["messages"])
    return list(document) if isinstance(document, list) else [document]


DAY = 86_400.0
GRACE_PERIOD = 60.0  # seconds after its creation in which an empty session may still be opened by its process


class CleanUp(msgspec.Struct):
    """The sessions that were deleted, with their titles, and the old ones that were kept because they are in use."""

    deleted: dict[str, str]
    in_use: list[str]


def clean(listing: Listing, store: Store, days: float, *, now: float | None = None) -> CleanUp:
    """Delete the sessions whose last activity is more than `days` ago, and the abandoned ones.

    `store` must not wait for locks.
    """
    drop_abandoned(listing, store)
    cutoff = clock.from_epoch((time.time() if now is None else now) - days * DAY)
    cleaned = CleanUp({}, [])
    for row in listing.rows():
        if row.last_active >= cutoff:
            continue
        try:
            # The listing may be slightly out of date; the file decides.
            session = store.get(row.id)
            if session.last_active >= cutoff:
                continue
            if session.leased:
                raise SessionBusy("in use")
            store.delete(row.id)
            cleaned.deleted[row.id] = session.title
        except SessionNotFound:
            continue  # another process deleted it
        except SessionBusy:
            cleaned.in_use.append(row.id)
    return cleaned


def drop_abandoned(listing: Listing, store: Store) -> None:
    """Delete the empty sessions whose process was killed. `store` must not wait for locks."""
    cutoff = clock.from_epoch(time.time() - GRACE_PERIOD)
    for root, session_id in listing.abandoned(listing.files):
        try:
            session = store.get(session_id)
            if session.message_count == 0 and (listing.holder_died(root, session_id) or session.created_at < cutoff):
                store.delete(session_id)
        except (CortextError, OSError):
            continue  # in use, or it cannot be deleted: no list shows it while it is empty
