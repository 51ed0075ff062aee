"""Sessions of named agents, as `aur` needs them: begun, continued, forked, completed, and turns taken in from files."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from cortext.errors import DamagedData, SessionExists, UsageError
from cortext.io import files as fsio
from cortext.model import clock, ids
from cortext.model.message import ROLES, SYSTEM, Message, plain
from cortext.model.session import AgentConfig, Change, Origin, Session
from cortext.model.status import ACTIVE, COMPLETED
from cortext.services.library.stores import create_with
from cortext.services.talk.agents import Agent
from cortext.services.talk.context import AGENT, mark, mark_of
from cortext.store.base import TORN, Damage, Store, Writer

LONGEST = 256 << 20  # bytes of a file that turns are taken from


def begin(store: Store, agent: Agent, model: str, name: str = "") -> Session:
    """A new session, durable when this returns; its id is the name, where one is given."""
    session = Session(
        id=ids.check_id(name) if name else ids.new_session_id("session-"),
        type="spawn",
        agent=agent.name,
        agent_config=_config(agent, model),
    )
    try:
        return store.create(session)
    except SessionExists as error:
        error.hint = f"go on with it: aur spawn --resume {session.id}"
        raise


def _config(agent: Agent, model: str) -> AgentConfig:
    return AgentConfig(model=model, system_prompt_hash=agent.prompt_hash, tools=list(agent.tools))


def activate(writer: Writer) -> Session:
    """The session is held again; one that was completed too."""
    session = writer.session()
    return session if session.status == ACTIVE else writer.update(Change(status=ACTIVE, force=True))


def agent_of(session: Session, messages: Iterable[Message]) -> str:
    """Who answers now: the last change of agent in the log, else the metadata."""
    name = session.agent
    for message in messages:
        if mark_of(message) == AGENT:
            name = str((message.extra or {}).get("agent") or name)
    return name


def change_agent(old: str, agent: Agent, model: str) -> tuple[Message, Change]:
    """The line that says so in the log, and the change of the metadata; in that order."""
    line = mark(AGENT, f"agent: {old} → {agent.name}", agent=agent.name)
    return line, Change(agent=agent.name, agent_config=_config(agent, model))


def complete(store: Store, writer: Writer, status: str = COMPLETED) -> Session:
    """The end of a session: its status, and a title and a summary from its text."""
    from cortext.services.workspace.lifecycle import refresh  # heavy, and only needed at the end

    session = writer.session()
    change = Change(status=status)
    messages = [message for message in store.read(session.id) if not message.aside]
    refresh(change, session, messages, messages)
    return writer.update(change)


def fork(store: Store, session: Session) -> Session:
    """A new session with everything that was said in another, marks and cut replies too; that one is unchanged."""
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


def harmful(store: Store, session: Session) -> list[Damage]:
    """What is wrong with a session's file, but for a line of ours that a crash cut: the next append sets that aside."""
    found = store.check(session.id)
    return [item for item in found if not (item.kind == TORN and _is_ours(session.path, item))]


def _is_ours(path: str, item: Damage) -> bool:
    beginning = b'{"type": "turn", "role": '
    try:
        with open(path, "rb", opener=fsio.plain_file) as file:
            file.seek(item.offset)
            return beginning.startswith(file.read(min(item.length, len(beginning))))
    except OSError:
        return False


def as_error(session: Session, damage: list[Damage]) -> DamagedData:
    """The error that names the file and the lines."""
    first = damage[0]
    more = f" (and {len(damage) - 1} more)" if len(damage) > 1 else ""
    # A store on a server has no lines.
    line = f", line {line_number(session.path, first.offset)}" if os.path.isfile(session.path) else ""
    return DamagedData(
        f"{session.path}{line}: {first.reason}{more}",
        kept="the file is unchanged",
        hint=f"recover what is whole: cortext repair {session.id}; "
        f"or put it into the trash: aur spawn --delete-session {session.id}",
    )


def line_number(path: str, offset: int) -> int:
    """The line in which a byte stands, from 1."""
    count = 1
    with open(path, "rb", opener=fsio.plain_file) as file:
        while offset > 0 and (block := file.read(min(offset, 1 << 20))):
            count += block.count(b"\n")
            offset -= len(block)
    return count


# ── taking in ────────────────────────────────────────────────────────────────────────────────────────


def take_in(path: str) -> list[Message]:
    """The turns in a file: an export of ours, the file of a session, or a JSON list of {role, content}.

    They are history and no instructions: system turns of another conversation stay out of the context.
    """
    try:
        if os.path.getsize(path) > LONGEST:
            raise UsageError(f"{path} is longer than {LONGEST >> 20} MiB", kept="nothing was taken in")
        with open(path, "rb", opener=fsio.plain_file) as file:
            raw = file.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", kept="nothing was taken in") from error
    messages = []
    for number, record in enumerate(_records(raw, path), 1):
        if not isinstance(record, dict) or record.get("type") == "metadata":
            continue
        role, content = record.get("role"), record.get("content", "")
        if role not in ROLES or not isinstance(content, str):
            raise UsageError(f"{path}: turn {number} has no role and text", kept="nothing was taken in")
        try:
            message = msgspec.convert({**record, "seq": -1, "id": "", "parent": ""}, Message)
        except msgspec.ValidationError as error:
            raise UsageError(f"{path}: turn {number}: {error}", kept="nothing was taken in") from error
        if message.content or message.parts:
            messages.append(msgspec.structs.replace(message, aside=message.aside or message.role == SYSTEM, extra=None))
    if not messages:
        raise UsageError(f"{path} holds no turns", kept="nothing was taken in", hint="/export FILE writes such a file")
    return messages


def _records(raw: bytes, path: str) -> list[object]:
    try:
        whole = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return [msgspec.json.decode(line) for line in raw.splitlines() if line.strip()]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path} is neither JSON nor JSON Lines: {error}", kept="nothing was taken in") from error
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        return list(whole["messages"])
    return list(whole) if isinstance(whole, list) else [whole]
