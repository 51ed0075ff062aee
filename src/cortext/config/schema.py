"""Every setting, by table: its type, default and meaning, and whether an untrusted workspace may set it.

`settings.store.lock_timeout` is `lock_timeout` in the table `[store]`. `SETTINGS` lists the same settings by dotted
name, for the loader, the reference and the messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

import msgspec

Value = str | int | float | bool


class About(NamedTuple):
    """What a setting means, whether an untrusted workspace may set it, and its environment variable if irregular."""

    help: str
    untrusted_ok: bool = False
    env: str = ""


class StoreSettings(msgspec.Struct, frozen=True):
    """`[store]`"""

    url: Annotated[str, About("a PostgreSQL server that keeps the sessions, postgresql://…", env="CORTEXT_STORE")] = ""
    lock_timeout: Annotated[float, About("seconds to wait for another writer", untrusted_ok=True)] = 5.0
    lease_seconds: Annotated[float, About("seconds after which a server releases the session of a silent writer")] = (
        10.0
    )
    owner: Annotated[str, About("who owns the sessions, if many people share one role of the server")] = ""
    connect_seconds: Annotated[float, About("seconds to wait for a connection to a server, at least 2")] = 5.0
    statement_seconds: Annotated[float, About("seconds to wait for one statement of a server")] = 30.0
    patience_seconds: Annotated[float, About("seconds to retry while a server restarts or fails over")] = 10.0
    idle_seconds: Annotated[float, About("seconds until an unused connection to a server is closed")] = 60.0


class SessionSettings(msgspec.Struct, frozen=True):
    """`[session]`"""

    sessions_dir: Annotated[str, About("where alfred keeps its sessions", env="ALFRED_SESSIONS_DIR")] = ""
    idle_minutes: Annotated[int, About("minutes until a quiet chat is summarised", untrusted_ok=True)] = 30


class ChatSettings(msgspec.Struct, frozen=True):
    """`[chat]`"""

    model: Annotated[str, About("the model of alfred, if not model.name")] = ""
    prompt_file: Annotated[str, About("a file with your own system prompt for alfred")] = ""
    auto_create: Annotated[bool, About("start a session with the first message (else ask for /new)")] = True
    context_tokens: Annotated[int, About("tokens of a session that are sent to the model at most")] = 60_000
    facts_tokens: Annotated[int, About("tokens of remembered facts that are always in the prompt")] = 1_500
    compact_tokens: Annotated[int, About("tokens above which a session is summarised and shortened")] = 40_000
    keep_messages: Annotated[int, About("messages that are kept when a session is shortened")] = 20


class TelegramSettings(msgspec.Struct, frozen=True):
    """`[telegram]`"""

    allowed_users: Annotated[str, About("numeric ids of the users that may use the bot, separated by commas")] = ""
    desk_chats: Annotated[
        str, About("numbers of the users and groups that also know the sessions and memories of this machine")
    ] = ""
    groups: Annotated[
        Literal["mentioned", "all"],
        About("in groups, answer only commands, mentions and replies (mentioned), or every message of a listed user"),
    ] = "mentioned"
    api_url: Annotated[str, About("your own Bot API server", env="TELEGRAM_API_URL")] = "https://api.telegram.org"
    parallel: Annotated[int, About("chats that are answered at the same time")] = 32
    longest_message: Annotated[int, About("longest message that is accepted, in characters")] = 20_000


class WorkspaceSettings(msgspec.Struct, frozen=True):
    """`[workspace]`"""

    pause_minutes: Annotated[int, About("minutes until a quiet conversation is paused", untrusted_ok=True)] = 5
    commit: Annotated[bool, About("commit a conversation when it is paused or completed", untrusted_ok=True)] = True
    mask: Annotated[bool, About("mask secrets in what is stored in a workspace, and so in git")] = True
    keep_unmasked: Annotated[bool, About("keep the unmasked text too, in the home store")] = False
    safe_folders: Annotated[str, About("workspaces of other users that may be used, separated by commas; *: all")] = ""
    pause_words: Annotated[str, About("additional words that mean a pause, separated by commas", untrusted_ok=True)] = (
        ""
    )
    offer_after: Annotated[int, About("unsaved messages after which a save is offered", untrusted_ok=True)] = 40


class InteractiveSettings(msgspec.Struct, frozen=True):
    """`[spawner.interactive]`"""

    session_expiry_days: Annotated[
        int, About("days after which inactive sessions are moved to the trash; 0: never")
    ] = 0
    context_tokens: Annotated[int, About("tokens of a session that are sent to the model at most")] = 100_000


class SpawnerSettings(msgspec.Struct, frozen=True):
    """`[spawner]`"""

    sessions_dir: Annotated[str, About("where aur keeps its sessions", env="AUR_SESSIONS_DIR")] = ""
    agent: Annotated[str, About("the agent that aur uses if none is named")] = "assistant"
    interactive: InteractiveSettings = InteractiveSettings()


class SearchSettings(msgspec.Struct, frozen=True):
    """`[search]`"""

    model: Annotated[str, About("model for search by meaning: built-in, openai/…, sentence-transformers/… or none")] = (
        "built-in"
    )
    address: Annotated[str, About("address of an openai/… model for search, instead of OPENAI_BASE_URL")] = ""


class ResumeSettings(msgspec.Struct, frozen=True):
    """`[resume]`"""

    tokens: Annotated[int, About("largest size of a resume packet, in tokens", untrusted_ok=True)] = 60_000
    native_tokens: Annotated[
        int, About("tokens of history that a native resume carries at most", untrusted_ok=True)
    ] = 120_000
    compaction_tokens: Annotated[
        int, About("tokens of what a tool's compaction dropped that the model gets back; 0: none", untrusted_ok=True)
    ] = 2_000
    tool: Annotated[str, About("the AI tool to resume in, if the conversation names none", untrusted_ok=True)] = ""


class CostSettings(msgspec.Struct, frozen=True):
    """`[cost]`"""

    prices: Annotated[str, About("a file with prices that replace the built-in ones (docs/cost.md)")] = ""
    week_from: Annotated[str, About("when a week of your subscription begins, such as 2026-11-12 09:00")] = ""


class ModelSettings(msgspec.Struct, frozen=True):
    """`[model]`"""

    name: Annotated[str, About("the model to use, as provider/name", env="CORTEXT_MODEL")] = ""
    mask: Annotated[bool, About("mask secrets in what is sent to a model")] = True
    stream: Annotated[bool, About("stream answers (turn off for endpoints that cannot)")] = True
    connect_seconds: Annotated[float, About("seconds to wait for a connection to a model")] = 10.0
    silence_seconds: Annotated[float, About("seconds to wait for more output of a model")] = 120.0
    retries: Annotated[int, About("how often to retry after a rate limit")] = 3


class McpSettings(msgspec.Struct, frozen=True):
    """`[mcp]`"""

    tokens: Annotated[int, About("largest answer of the MCP server, in tokens")] = 6_000


class Settings(msgspec.Struct, frozen=True):
    """The effective settings, and what was ignored in the settings file of a workspace (name → that file)."""

    store: StoreSettings = StoreSettings()
    session: SessionSettings = SessionSettings()
    chat: ChatSettings = ChatSettings()
    telegram: TelegramSettings = TelegramSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    spawner: SpawnerSettings = SpawnerSettings()
    search: SearchSettings = SearchSettings()
    resume: ResumeSettings = ResumeSettings()
    cost: CostSettings = CostSettings()
    model: ModelSettings = ModelSettings()
    mcp: McpSettings = McpSettings()
    ignored: dict[str, str] = {}  # settings that only a trusted workspace may set
    unknown: dict[str, str] = {}  # unknown settings, perhaps of another version
    broken: dict[str, str] = {}  # a workspace's file that cannot be used, and why: only for commands that read

    def warnings(self) -> list[str]:
        """Return warnings about the settings files for the user."""
        return [*self.broken_warnings(), *self.unknown_warnings()]

    def broken_warnings(self) -> list[str]:
        """Return a warning about a settings file that cannot be used: whoever reads nevertheless must know that."""
        rule = "the defaults are used for reading; a command that changes something refuses to run"
        return [f"{why}; {rule}" for why in self.broken.values()]

    def unknown_warnings(self) -> list[str]:
        """Return a warning about each unknown setting."""
        return [f"{source}: unknown setting {name}; it was ignored" for name, source in sorted(self.unknown.items())]


class NamedSetting(NamedTuple):
    """One setting by its dotted name."""

    name: str
    default: Value
    help: str
    untrusted_ok: bool
    variable: str  # the environment variable


def _settings_in(table: type[msgspec.Struct], prefix: str = "") -> Iterator[NamedSetting]:
    for field in msgspec.structs.fields(table):
        name = prefix + field.name
        if isinstance(field.default, msgspec.Struct):
            yield from _settings_in(type(field.default), f"{name}.")
        elif field.default is not msgspec.NODEFAULT:
            about: About = field.type.__metadata__[0]
            variable = about.env or "CORTEXT_" + name.replace(".", "_").upper()
            yield NamedSetting(name, field.default, about.help, about.untrusted_ok, variable)


REMOVED = frozenset({"workspace.recall"})  # settings of earlier versions, which may still stand in a user's file
SETTINGS = {setting.name: setting for setting in _settings_in(Settings)}
