"""A session: the small metadata beside the log of messages. The same for every layout."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.model.status import ACTIVE, check_transition, shown


class AgentConfig(msgspec.Struct, kw_only=True):
    """What made the conversation possible: the command, the hash of its text, the model, the tools."""

    command: str = ""
    system_prompt_hash: str = ""
    model: str = ""
    tools: list[str] = []


class Origin(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Where the conversation was held: the AI tool and its own session id (to continue there)."""

    tool: str = ""
    session_id: str = ""


BY_OTHER = "other"  # who wrote a summary that another program left without a name
# What says in `extra` that a person named the session: no tool's own title goes over it.
TITLED_BY_USER = {"titled_by": "user"}


class Session(msgspec.Struct, kw_only=True):
    """A session as every face sees it. Counts, `last_active` and `damage` come from the log itself."""

    id: str
    type: str = ""
    title: str = ""
    status: str = ACTIVE
    created_at: str = ""
    last_active: str = ""
    message_count: int = 0
    token_count: int = 0
    summary: str = ""
    # How far the summary reaches (the sequence after the last message it covers) and who wrote it.
    summary_covers: int = 0
    summary_by: str = ""
    agent: str = ""
    agent_config: AgentConfig = msgspec.field(default_factory=AgentConfig)
    origin: Origin = msgspec.field(default_factory=Origin)
    # What the file holds that we do not know: it survives every rewrite.
    extra: dict[str, Any] = {}
    # Filled when read, never written: where it lies, what is wrong with it, who holds it.
    store: str = ""
    path: str = ""
    damage: int = 0
    # Every message of the log is in its thread, numbered from 0 without a gap: parts of it can be read as they are.
    straight: bool = False
    leased: bool | None = None

    @property
    def shown_status(self) -> str:
        """The status as people see it: a session that nobody holds any more was interrupted."""
        return shown(self.status, leased=self.leased)


class Change(msgspec.Struct, kw_only=True):
    """A change of metadata: only what is set here changes. `force` allows completed → active.

    `last_active` only moves forward: a resume counts as activity before anything is said.
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
        """A copy of the session with the change made; the status machine is asked first."""
        if isinstance(self.status, str):
            check_transition(session.status, self.status, force=self.force)
        changed = {
            name: value
            for name in self.__struct_fields__
            if name != "force" and (value := getattr(self, name)) is not msgspec.UNSET
        }
        if "extra" in changed:
            changed["extra"] = {**session.extra, **changed["extra"]}
        if "last_active" in changed:
            changed["last_active"] = max(session.last_active, changed["last_active"])
        return msgspec.structs.replace(session, **changed)
