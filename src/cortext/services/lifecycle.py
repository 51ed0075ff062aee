"""The life of a conversation in a workspace: begun, stopped, completed, paused when quiet, titled, forked."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

import msgspec

from cortext import fsio
from cortext.errors import ConfigError, NotFound, SessionExists, UsageError
from cortext.model import clock, ids
from cortext.model.message import Message, thread
from cortext.model.session import AgentConfig, Change, Origin, Session
from cortext.model.status import ACTIVE, COMPLETED, PAUSED
from cortext.services import registry
from cortext.services.listing import Listing
from cortext.services.publish import Committed, Git
from cortext.services.secrecy import marks_in, mask_session
from cortext.services.stores import Found, NamedStore
from cortext.services.summarise import summarise, title, where_it_stopped

# What our own MCP server offers: noted with a session, so that a resume can say what is missing.
OWN_TOOLS = ("mcp__cortext__search_workspace", "mcp__cortext__get_context", "mcp__cortext__get_decision_history")
_NUMBER = re.compile(r"(\d{3,})-")


class Saved(msgspec.Struct, kw_only=True):
    """What a stop or a completion did."""

    session: Session
    stopped_at: str
    commit: Committed
    masked: dict[str, int] = {}  # secrets that are only marks in what was committed, by kind


def begin(place: NamedStore, kind: str, topic: str, *, origin: Origin | None = None, model: str = "") -> Session:
    """A new conversation: its folder, its markdown from the template, its session; durable when this returns."""
    types = registry.load(place.root).types
    entry = types.get(kind)
    if entry is None:
        raise UsageError(
            f"no conversation type {kind!r} in this workspace",
            hint=f"one of {', '.join(sorted(types)) or '(none: cortext init)'}; or add it: cortext type add {kind}",
        )
    prompt_hash = registry.command_hash(place.root, kind)
    topic = " ".join(topic.split())
    session = Session(
        id="",
        type=kind,
        title=topic,
        status=ACTIVE,
        created_at=clock.now(),
        origin=origin or Origin(),
        agent_config=AgentConfig(
            command=entry.command, system_prompt_hash=prompt_hash, model=model, tools=list(OWN_TOOLS)
        ),
    )
    number = _next_number(place.root)
    while True:
        session.id = ids.check_id(f"{number:03d}-{kind}-{ids.slug(topic) or 'untitled'}"[:96])
        try:
            made = place.store.create(session)
            break
        except SessionExists:  # another process took it between our look and our creation
            number += 1
    _write_notes(place.root, entry.template, kind, made)
    return made


def _next_number(workspace: str) -> int:
    """One more than the highest number in use: ids stay unique over the days."""
    highest = 0
    top = os.path.join(workspace, "conversations")
    for day in os.listdir(top) if os.path.isdir(top) else ():
        folder = os.path.join(top, day)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            found = _NUMBER.match(name)
            highest = max(highest, int(found.group(1)) if found else 0)
    return highest + 1


def _write_notes(workspace: str, template: str, kind: str, session: Session) -> None:
    """The markdown of the conversation, from its template; one that is there already stays."""
    target = os.path.join(session.path, f"{kind}.md")
    if os.path.exists(target):
        return
    try:
        with open(registry.own_file(workspace, template), encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError, ConfigError):
        text = "# {title}\n"
    for name, value in (("title", session.title or session.id), ("date", session.created_at[:10]), ("id", session.id)):
        text = text.replace("{" + name + "}", value)
    fsio.replace_file(target, [text.encode("utf-8")])


def save(place: NamedStore, session_id: str, status: str, *, commit: bool = True, force: bool = False) -> Saved:
    """Set the status (paused or completed), bring title and summary up to date, and commit."""
    messages = thread(place.store.read(session_id))
    session = place.store.get(session_id)
    change = Change(status=status, force=force)
    refresh(change, session, messages)
    session = place.store.update(session_id, change)
    done = commit_session(place, session) if commit else Committed(nothing_new=True)
    return Saved(
        session=session,
        stopped_at=where_it_stopped(messages) or session.summary,
        commit=done,
        masked=marks_in(place.store.read(session_id)) if commit else {},
    )


def pause(found: Found, *, commit: bool) -> Saved:
    """Save and pause a conversation; one of a workspace is committed."""
    return save(found.place, found.session.id, PAUSED, commit=commit and found.place.kind == "workspace")


def refresh(change: Change, session: Session, messages: Sequence[Message]) -> None:
    """Title and summary from the text itself, unless an agent (or the user) wrote better ones that still cover it."""
    if not messages:
        return
    last = messages[-1].seq + 1
    if not session.title:
        change.title = title(messages)
    written_by_agent = session.summary and session.summary_by not in ("", "text")
    if not written_by_agent or session.summary_covers < last - 20:
        change.summary, change.summary_by, change.summary_covers = summarise(messages), "text", last


def commit_session(place: NamedStore, session: Session) -> Committed:
    """Commit one conversation: its folder, and nothing else; first the last look for secrets in it."""
    mask_session(place.store, session)
    git = Git(place.root)
    if not git.is_repository():
        return Committed(problem="this workspace is not in git", hint="git init, and the next save is committed")
    folder = os.path.relpath(session.path, place.root)
    changed = [path for path in git.changed([folder]) if not git.ignored(path)]
    inside = os.path.join(folder, ".session") + os.sep
    if changed and all(path.startswith(inside) for path in changed):
        message = f"session update: {session.id} ({session.message_count} messages, {session.status})"
    else:
        message = (
            f"{session.type or 'conversation'}: {session.title or session.id} (session state saved, {session.status})"
        )
    return git.commit([folder], message)


def sweep(listing: Listing, idle_minutes: float, *, commit: bool = True, now: float | None = None) -> list[str]:
    """Save and pause the conversations of workspaces that were quiet for too long; what to tell the user."""
    border = (time.time() if now is None else now) - idle_minutes * 60
    told = []
    for row in listing.rows(status=ACTIVE):
        seen = clock.to_epoch(row.last_active)
        if row.kind == "workspace" and seen is not None and seen < border:
            save(listing.place(row.root), row.id, PAUSED, commit=commit)
            told.append(f'"{row.name}" was saved and paused after {idle_minutes:g} quiet minutes')
    return told


def active(place: NamedStore) -> Session:
    """The conversation that is under way here: the last active one."""
    there = [session for session in place.store.sessions() if session.status == ACTIVE]
    if not there:
        raise NotFound("no conversation is active here", hint="see what there is with `cortext list --here`")
    return max(there, key=lambda session: session.last_active)


def fork(place: NamedStore, session: Session, after: int | None = None) -> Session:
    """A new conversation with the messages of another up to one of them; the old one is unchanged."""
    messages = [m for m in thread(place.store.read(session.id)) if after is None or m.seq <= after]
    if not messages and after is None:
        raise NotFound(f"{session.id} has no messages yet", hint=f"talk about it first: cortext resume {session.id}")
    if not messages:
        raise NotFound(f"{session.id} has no message {after}", hint="see the numbers with `cortext show`")
    kind = session.type or "fork"
    session_id = f"{_next_number(place.root):03d}-{kind}-{ids.slug(session.title, 40) or 'untitled'}-fork"
    made = place.store.create(
        msgspec.structs.replace(
            session,
            id=ids.check_id(session_id[:96]),
            title=f"{session.title or session.id} (fork)",
            status=ACTIVE,
            created_at=clock.now(),
            last_active="",
            origin=Origin(),
            extra={**session.extra, "forked_from": {"session": session.id, "message": messages[-1].id}},
        )
    )
    place.store.append(made.id, *messages)
    if place.kind == "workspace":
        entry = registry.load(place.root).types.get(session.type)
        _write_notes(place.root, entry.template if entry else "", kind, made)
    return place.store.get(made.id)


def confirmation(saved: Saved) -> str:
    """What the user reads after a stop."""
    session = saved.session
    word = "completed" if session.status == COMPLETED else "paused"
    lines = [
        "Session saved.",
        "",
        f'Conversation "{session.title or session.id}" has been {word}.',
        f"Should it go on after all: cortext resume {session.id} --force"
        if session.status == COMPLETED
        else "You can continue later with /workspace.resume",
    ]
    if saved.stopped_at:
        lines += ["", f"Summary: {saved.stopped_at}"]
    if saved.masked:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in sorted(saved.masked.items()))
        lines += ["", f"Masked, and so not in git: {kinds}."]
    if saved.commit.problem:
        lines += ["", f"Not committed to git: {saved.commit.problem}. Nothing is lost; {saved.commit.hint}."]
    return "\n".join(lines)
