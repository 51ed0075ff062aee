"""A session: the small metadata next to the log of messages, and its life cycle. The same for every layout.

    active ──► paused ──► completed          completed ──► active only when forced
      │  ▲        │  ▲
      │  └────────┘  └── (a pause of a resumed session)
      └──► interrupted | idle ──► active | paused | completed

A session of the assistant is idle when it has been quiet long enough and its summary is up to date: its worker writes
that. The next message makes it active again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from cortext.errors import TransitionRefused, UsageError
from cortext.model.order import ORDER, merged

ACTIVE = "active"
PAUSED = "paused"
COMPLETED = "completed"
INTERRUPTED = "interrupted"
IDLE = "idle"

STATUSES = (ACTIVE, PAUSED, COMPLETED, INTERRUPTED, IDLE)

_ALLOWED = {
    ACTIVE: {PAUSED, COMPLETED, INTERRUPTED, IDLE},
    PAUSED: {ACTIVE, COMPLETED},
    INTERRUPTED: {ACTIVE, PAUSED, COMPLETED},
    IDLE: {ACTIVE, PAUSED, COMPLETED, INTERRUPTED},
    COMPLETED: set[str](),
}

FIRST_TURN = "first_turn"  # the key in a session's metadata


class AgentConfig(msgspec.Struct, kw_only=True):
    """The settings of a conversation: the command, the hash of its prompt, the model, the MCP tools (`mcp__…`)."""

    command: str = ""
    system_prompt_hash: str = ""
    model: str = ""
    tools: list[str] = []  # those that the model had: it called them, or its program says so
    tools_configured: list[str] = []  # those that were set up when it began, and of which nothing shows more than that

    def with_tools(self, names: Iterable[str]) -> AgentConfig:
        """Return the settings of a model that had the tools of these names, each as its program writes it."""
        known = [*self.tools, *self.tools_configured]
        servers = {name.split("__")[1] for name in known if name.startswith("mcp__")}
        had = {full for name in names if (full := _mcp_name(name, servers))} - {*self.tools}
        if not had:
            return self
        here = {*had, *(f"mcp__{name.split('__')[1]}__*" for name in had)}
        return msgspec.structs.replace(
            self,
            tools=sorted({*self.tools, *had}),
            tools_configured=[name for name in self.tools_configured if name not in here],
        )


def _mcp_name(name: str, servers: set[str]) -> str:
    """Return the name of an MCP tool as `mcp__SERVER__TOOL`; empty for any other tool.

    Programs write it with two underlines or one, with a hyphen or a dot, with or without `mcp`.
    """
    if re.fullmatch(r"mcp__.+?__.+", name):
        return name
    for server in servers:
        if found := re.fullmatch(rf"(?:mcp_)?{re.escape(server)}(?:_|__|-|\.)([A-Za-z0-9].*)", name):
            return f"mcp__{server}__{found[1]}"
    return ""


class Origin(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Where the conversation was held: the AI tool and its own session id (to continue there)."""

    tool: str = ""
    session_id: str = ""


BY_AGENT = "agent"  # the author of a summary that the agent in the room wrote
BY_TEXT = "text"  # the author of a summary that is an extract of what was said
BY_OTHER = "other"  # the author of a summary that another program left without a name
# Key in `extra`: what an agent says of the conversation beside the summary; see Details.
DETAILS = "context_details"
LONGEST_SHOWN = 1_000  # characters of a summary in a list: all that we make are shorter
# In `extra`: a person named the session, so no tool's own title replaces it.
TITLED_BY_USER = {"titled_by": "user"}
# Key in `extra`: for each transcript (tool and its session id), how many texts of its own the tool gave to its model.
TOOL_NOTES = "tool_notes"
# In `extra`: the git branch and commit of the project with the last message, and the skills in files that it had.
CHECKOUT, SKILLS = "checkout", "skills"


class Details(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the user wants, what was decided and why, what is open, and what is next: each a line."""

    goal: str = ""
    decided: list[str] = []
    open: list[str] = []
    next: str = ""

    def by_name(self) -> dict[str, list[str]]:
        """Return the lines of each field, in order."""
        lines = {"goal": [self.goal], "decided": self.decided, "open": self.open, "next": [self.next]}
        return {name: [text for text in found if text.strip()] for name, found in lines.items()}

    @classmethod
    def of(cls, lines: dict[str, list[str]]) -> Details:
        """Return the details with these lines."""
        goal, following = (" ".join(lines.get(name, [])) for name in ("goal", "next"))
        return cls(goal=goal, decided=lines.get("decided", []), open=lines.get("open", []), next=following)

    def labelled(self) -> list[tuple[str, str]]:
        """Return the lines as people read them, each with the name of its field."""
        return [(name.capitalize(), text) for name, found in self.by_name().items() for text in found]


def details_of(extra: dict[str, Any]) -> Details:
    """Return the details that are stored with a session; empty if there are none."""
    try:
        return msgspec.convert(extra.get(DETAILS) or {}, Details)
    except msgspec.ValidationError:
        return Details()


class Session(msgspec.Struct, kw_only=True):
    """A session as every face sees it. Counts, `last_active` and `damage` come from the log itself.

    `message_count` is the number of messages without asides, of which there are `aside_count`.
    """

    id: str
    type: str = ""
    title: str = ""
    status: str = ACTIVE
    created_at: str = ""
    last_active: str = ""
    message_count: int = 0
    token_count: int = 0
    aside_count: int = 0
    branch_count: int = 1  # the branches in which it goes on (model.threads.branches)
    summary: str = ""
    # How far the summary reaches (the number after the last message it covers) and who wrote it.
    summary_covers: int = 0
    summary_by: str = ""
    agent: str = ""
    agent_config: AgentConfig = msgspec.field(default_factory=AgentConfig)
    origin: Origin = msgspec.field(default_factory=Origin)
    # Unknown fields of the file: they survive every rewrite.
    extra: dict[str, Any] = {}
    # Set when read, never written: where it is stored, its damage, and whether a process holds it.
    store: str = ""
    path: str = ""
    damage: int = 0
    # Whether the thread is the whole log, numbered from 0 without gaps, so that parts of it can be read directly.
    is_linear: bool = False
    leased: bool | None = None
    branch: int = 0  # the branch to continue, from 1; 0: all of them, joined

    @property
    def line_count(self) -> int:
        """How many messages the log has, asides included: the next one gets this number."""
        return self.message_count + self.aside_count

    @property
    def shown_status(self) -> str:
        """The status as people see it: a session whose process has died was interrupted."""
        return INTERRUPTED if self.status == ACTIVE and self.leased is False else self.status


def check_status(status: str) -> None:
    """Raise UsageError for what is not the status of a session."""
    if status not in STATUSES:
        raise UsageError(f"unknown status {ascii(status)[:40]}", hint=f"use one of {', '.join(STATUSES)}")


def check_transition(old: str, new: str, *, force: bool = False) -> None:
    """Raise if a transition is not allowed. Keeping the status always is."""
    check_status(new)
    if old == new or old not in STATUSES:  # a status that another program wrote may always be left
        return
    if new in _ALLOWED[old] or (force and old == COMPLETED and new == ACTIVE):
        return
    if old == COMPLETED and new == ACTIVE:
        raise TransitionRefused(
            "the session was completed",
            kept="it is unchanged",
            hint="use --force to reopen it",
        )
    raise TransitionRefused(
        f"a session cannot go from {old} to {new}",
        kept="it is unchanged",
        hint=f"from {old} it can go to {', '.join(sorted(_ALLOWED[old])) or 'active, with --force'}",
    )


class Change(msgspec.Struct, kw_only=True):
    """A change of metadata: only the fields that are set change. `force` allows completed → active.

    `last_active` only moves forward: a resume counts as activity before anything is said. Of `extra`, the keys that are
    given change; the events in `order` are added to those that exist.
    """

    status: str | msgspec.UnsetType = msgspec.UNSET
    title: str | msgspec.UnsetType = msgspec.UNSET
    summary: str | msgspec.UnsetType = msgspec.UNSET
    summary_covers: int | msgspec.UnsetType = msgspec.UNSET
    summary_by: str | msgspec.UnsetType = msgspec.UNSET
    agent: str | msgspec.UnsetType = msgspec.UNSET
    agent_config: AgentConfig | msgspec.UnsetType = msgspec.UNSET
    origin: Origin | msgspec.UnsetType = msgspec.UNSET
    last_active: str | msgspec.UnsetType = msgspec.UNSET
    extra: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    force: bool = False

    def apply(self, session: Session) -> Session:
        """Return a copy of the session with the change applied; raises if the status transition is not allowed."""
        if isinstance(self.status, str):
            check_transition(session.status, self.status, force=self.force)
        changed = {
            name: value
            for name in self.__struct_fields__
            if name != "force" and (value := getattr(self, name)) is not msgspec.UNSET
        }
        if "extra" in changed:
            changed["extra"] = {**session.extra, **changed["extra"]}
            if ORDER in changed["extra"]:  # events are only ever added
                changed["extra"][ORDER] = merged(session.extra.get(ORDER), changed["extra"][ORDER])
        if "last_active" in changed:
            changed["last_active"] = max(session.last_active, changed["last_active"])
        return msgspec.structs.replace(session, **changed)


class FirstTurn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How many of the messages that were handed over the tool's session held after the first turn."""

    tool: str
    key: str
    messages: int
    held: int
    at: str
    answered: bool = True  # False if messages were gone before the model had answered

    @property
    def is_short(self) -> bool:
        """Whether messages were gone, and nothing in the session said why."""
        return self.held < self.messages

    def sentence(self, title: str) -> str:
        """Return the result for people; `title` is the tool's."""
        if self.is_short:
            since = "after the first turn" if self.answered else "when it had been opened"
            return (
                f"the session in {title} held only {self.held} of {self.messages} {since}, and nothing in it says why"
            )
        return f"the session in {title} still holds {self.held} of {self.messages} after the first turn"


def first_turn_of(extra: dict[str, Any]) -> FirstTurn | None:
    """Return the newest result that is stored with a session; None if there is none."""
    try:
        return msgspec.convert(extra.get(FIRST_TURN), FirstTurn)
    except msgspec.ValidationError:
        return None
