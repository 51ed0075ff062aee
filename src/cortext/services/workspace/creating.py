"""Creating a conversation in a workspace, from a command or as the fork of another, and the number it gets.

No conversation ever had that number, deleted ones included. It is taken from the folders, the trash, and a file in
`.workspace/state`, which is not in git. What another clone created and deleted is in git's history: the commits since
the last check are read once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import msgspec

from cortext.errors import ConfigError, NotFound, SessionExists, SessionNotFound, UsageError
from cortext.io import durable, inside, locks
from cortext.model import clock, ids
from cortext.model.order import ORDER
from cortext.model.session import ACTIVE, BY_TEXT, DETAILS, PAUSED, TITLED_BY_USER, AgentConfig, Change, Origin, Session
from cortext.model.threads import thread
from cortext.safety.secrets.masking import mask
from cortext.services.library.stores import NamedStore, StoredConversation, create_with
from cortext.services.projects.git import Git
from cortext.services.text.summaries import summarise
from cortext.services.workspace import pausing, registry
from cortext.store.files.layout_paths import CONVERSATIONS, NUMBER_FILE, NUMBER_LOCK, STATE, conversations
from cortext.store.server_capabilities import ReadsShared

KINDS = ("workspace", "home")
TIMEOUT = 30.0  # seconds: the first scan of a long history may take some
LONGEST = 6  # digits: a folder that someone named by a date does not count

# What our own MCP server offers: recorded with a session, so that a resume can say what is missing.
OWN_SERVER = "cortext"
OWN_TOOLS = (
    "search_workspace", "get_context", "get_decision_history", "list_sessions", "get_session", "search_sessions",
    "why_line", "touched_file", "save_session", "resume_session",
)  # fmt: skip


def begin(
    named_store: NamedStore,
    kind: str,
    topic: str,
    *,
    origin: Origin | None = None,
    model: str = "",
    servers: Iterable[str] = (OWN_SERVER,),
    begun_by: str = "",
) -> Session:
    """Create a conversation: its folder, its markdown from the template, its session; durable when this returns.

    `servers` are the MCP servers that are set up in the AI tool there. `begun_by` is the command in a chat (`origin`)
    that begins it: if that is killed and repeated, the conversation it created is used.
    """
    types = registry.load(named_store.root).types
    entry = types.get(kind)
    if entry is None:
        raise UsageError(
            f"unknown conversation type {kind!r}",
            hint=f"use one of {', '.join(sorted(types)) or '(none: cortext init)'}; or add it: cortext type add {kind}",
        )
    if not entry.sessions:
        raise UsageError(
            f"no sessions are kept for conversations of type {kind!r} in this workspace",
            kept="nothing was created",
            hint=f'set "sessions" of {kind} to true in {registry.RELATIVE} to change that',
        )
    prompt_hash = registry.command_hash(named_store.root, kind)
    topic = mask(" ".join(topic.split())).text  # it names the folder, the notes and the commit, which all go into git
    session = Session(
        id="",
        type=kind,
        title=topic,
        status=ACTIVE,
        created_at=clock.now(),
        origin=origin or Origin(),
        extra={**(TITLED_BY_USER if topic else {}), **({"begun_by": begun_by} if begun_by else {})},
        agent_config=AgentConfig(
            command=entry.command, system_prompt_hash=prompt_hash, model=model, tools_configured=_tools_of(servers)
        ),
    )
    made = _begun_before_kill(named_store, session) if begun_by else None
    number = reserve_number(named_store) if made is None else 0
    while made is None:
        session.id = numbered(session, number)
        try:
            made = named_store.store.create(session)
        except SessionExists:  # another process took the number meanwhile
            number += 1
    _write_notes(named_store.root, entry.template, kind, made)
    return made


def _begun_before_kill(named_store: NamedStore, wanted: Session) -> Session | None:
    """Return the last conversation begun here, if the same command of the same chat began it and it is empty."""
    try:
        found = named_store.store.get(numbered(wanted, last_number(named_store)))
    except SessionNotFound:
        return None
    same = found.origin == wanted.origin and found.extra.get("begun_by") == wanted.extra["begun_by"]
    return found if same and not found.message_count and not found.damage else None


def _tools_of(servers: Iterable[str]) -> list[str]:
    """Return the tools of these MCP servers as far as known: for servers other than ours, only the server is."""
    known = {OWN_SERVER: OWN_TOOLS}
    return [f"mcp__{server}__{name}" for server in sorted(servers) for name in known.get(server, ("*",))]


def _write_notes(workspace: str, template: str, kind: str, session: Session) -> None:
    """Write the conversation's markdown from its template, unless it exists."""
    target = os.path.join(session.path, f"{kind}.md")
    if os.path.exists(target):
        return
    try:
        text = (registry.read_own(workspace, template) or b"# {title}\n").decode("utf-8")
    except (OSError, UnicodeDecodeError, ConfigError):
        text = "# {title}\n"
    for name, value in (("title", session.title or session.id), ("date", session.created_at[:10]), ("id", session.id)):
        text = text.replace("{" + name + "}", value)
    state = os.path.join(workspace, STATE)
    durable.replace_file(target, [text.encode("utf-8")], aside=state if os.path.isdir(state) else "")


def fork(
    named_store: NamedStore, session: Session, after: int | None = None, *, home: NamedStore | None = None
) -> Session:
    """Create a conversation with the messages of another, up to `after`; the original is unchanged.

    A copy of somebody else's session is made in `home`, which must be given if there may be one.
    """
    source = named_store.store
    all_messages = thread(source.read(session.id))
    if isinstance(source, ReadsShared) and home is not None:
        named_store = home
    if not all_messages:
        raise NotFound(f"{session.id} has no messages yet", hint=f"send a message first: cortext resume {session.id}")
    messages = [message for message in all_messages if after is None or message.seq <= after]
    if after is not None and (not messages or after > all_messages[-1].seq):
        numbers = (
            f"its messages are {all_messages[0].seq} to {all_messages[-1].seq}; `cortext show {session.id}` shows them"
        )
        raise NotFound(f"{session.id} has no message {after}", kept="nothing was changed", hint=numbers)
    kind = session.type or "fork"
    session = msgspec.structs.replace(session, title=mask(session.title).text)
    session_id = f"{reserve_number(named_store):03d}-{kind}-{ids.slug(session.title, 40) or 'untitled'}-fork"
    new = msgspec.structs.replace(
        session,
        id=ids.check_id(session_id[:96]),
        title=f"{session.title or session.id} (fork)",
        status=PAUSED,  # it is not open in any tool yet
        created_at=clock.now(),
        last_active="",
        message_count=0,
        aside_count=0,
        token_count=0,
        summary="",
        summary_by="",
        summary_covers=0,
        origin=Origin(),
        extra={**_inherited(session.extra), "forked_from": {"session": session.id, "message": messages[-1].id}},
    )
    # A summary of what the fork leaves out would mention things that were never said in it.
    if session.summary and session.summary_covers <= messages[-1].seq + 1:
        covers = sum(message.seq < session.summary_covers for message in messages)
        change = Change(summary=session.summary, summary_by=session.summary_by, summary_covers=covers)
        if DETAILS in session.extra:
            change.extra = {DETAILS: session.extra[DETAILS]}
    else:
        change = Change(summary=summarise(messages), summary_by=BY_TEXT, summary_covers=len(messages))
    made = create_with(named_store.store, new, messages, change)
    if isinstance(source, ReadsShared):
        source.forked(session.id, made.id)
    if named_store.kind == "workspace":
        entry = registry.load(named_store.root).types.get(session.type)
        _write_notes(named_store.root, entry.template if entry else "", kind, made)
    return named_store.store.get(made.id)


def session_to_continue(conversation: StoredConversation, home: NamedStore) -> StoredConversation:
    """Return the session to continue: a copy in `home` if it is somebody else's and shared for reading only."""
    store = conversation.store
    if not isinstance(store, ReadsShared) or store.can_write(conversation.session.id):
        return conversation
    return StoredConversation(home, fork(conversation.named_store, conversation.session, home=home))


def _inherited(extra: dict[str, Any]) -> dict[str, Any]:
    """Return what a fork inherits of a session's other fields: not the hooks' notes about a chat, nor tags and star."""
    not_inherited = ("begun_by", *pausing.NOTES, "saved_messages", "forked_from", ORDER, DETAILS)
    return {name: value for name, value in extra.items() if name not in not_inherited}


def numbered(session: Session, number: int) -> str:
    """Return the id of a conversation with this number: its folder's name."""
    return ids.check_id(f"{number:03d}-{session.type}-{ids.slug(session.title) or 'untitled'}"[:96])


def reserve_number(named_store: NamedStore) -> int:
    """Return one more than the highest number ever used; it is reserved when this returns."""
    if named_store.kind not in KINDS or not os.path.isdir(named_store.root):  # a server, or a layout without folders
        taken = [session.id for session in named_store.store.sessions()] + [
            item.session_id for item in named_store.store.trash()
        ]
        return _highest(taken) + 1
    state = inside.inside(named_store.root, STATE)
    durable.ensure_folder(state, named_store.root)
    lock = locks.Lock(os.path.join(state, NUMBER_LOCK))
    lock.acquire(TIMEOUT, "the number of the next conversation")
    with lock:
        given, seen = _read(named_store.root, os.path.join(state, NUMBER_FILE))
        git = Git(named_store.root)
        head = git.head()
        names = [item.session_id for item in named_store.store.trash()]
        names += _folders(named_store.root)
        if head != seen:
            names += [path.split("/")[2] for path in git.added(seen, CONVERSATIONS) if path.count("/") >= 3]
        number = max(given, _highest(names)) + 1
        inside.write(named_store.root, os.path.join(state, NUMBER_FILE), f"{number} {head}\n".encode("ascii"))
    return number


def last_number(named_store: NamedStore) -> int:
    """Return the number that was assigned last; 0 if unknown."""
    if named_store.kind not in KINDS:
        return 0
    return _read(named_store.root, inside.inside(named_store.root, os.path.join(STATE, NUMBER_FILE)))[0]


def _highest(names: Iterable[str]) -> int:
    return max((int(digits) for digits in map(ids.number_of, names) if digits and len(digits) <= LONGEST), default=0)


def _read(root: str, path: str) -> tuple[int, str]:
    try:
        number, _, head = (inside.read(root, path) or b"").decode("ascii").strip().partition(" ")
        return int(number), head
    except (OSError, ValueError):
        return 0, ""


def _folders(workspace: str) -> list[str]:
    """Return the names of all conversations, including those that are plain markdown."""
    return [os.path.basename(path) for path in conversations(workspace)]
