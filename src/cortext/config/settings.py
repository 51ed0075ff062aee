"""Settings: what they are, where they come from, and which of them a repository may set.

Precedence, the later wins: built in, the user's `config.toml`, the workspace's `.workspace/config.toml`,
the environment, the command line. A workspace comes from git, so from strangers: of its file only the
settings marked `anywhere` count until the user trusts it (they change how things look and how long they
take, never what is run, where data goes or who is asked).
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from cortext.errors import ConfigError
from cortext.io import files as fsio
from cortext.io.inside import inside
from cortext.safety.addresses import is_address

Value = str | int | float | bool
LARGEST = 1 << 53  # of a number: beyond it no clock and no count is right


class Setting:
    """One setting: its dotted name in the file, its default, and whether a repository may set it."""

    def __init__(self, name: str, default: Value, help_text: str, *, anywhere: bool = False, env: str = "") -> None:
        self.name, self.default, self.help = name, default, help_text
        self.anywhere, self.env = anywhere, env

    def parse(self, value: Any, source: str) -> Value:
        """The value in its right type, or ConfigError."""
        kind = type(self.default)
        try:
            if kind is bool:
                if not isinstance(value, str):
                    return bool(value)
                return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[value.lower()]
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise TypeError
            made = kind(value)
            if not isinstance(made, str) and not abs(made) <= LARGEST:  # nor is it no number
                raise ValueError
            return made
        except (KeyError, ValueError, TypeError, OverflowError):
            raise ConfigError(
                f"{source}: {self.name} = {ascii(value)[:80]} is not a {kind.__name__}",
                kept="nothing was changed",
                hint=f"{self.help}; built in: {self.default!r}",
            ) from None


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("store.url", "", "a PostgreSQL server that keeps the sessions, postgresql://…", env="CORTEXT_STORE"),
        Setting("store.lock_timeout", 5.0, "seconds to wait for another writer", anywhere=True),
        Setting("store.lease_seconds", 10.0, "seconds until the session of a silent writer on a server is free"),
        Setting("session.sessions_dir", "", "where alfred keeps its sessions", env="ALFRED_SESSIONS_DIR"),
        Setting("session.idle_minutes", 30, "minutes until a quiet chat is summarised", anywhere=True),
        Setting("chat.model", "", "the model of alfred, where it is not that of model.name"),
        Setting("chat.prompt_file", "", "a file with your own system prompt for alfred"),
        Setting("chat.auto_create", True, "begin a session with the first words (else ask for /new)"),
        Setting("chat.context_tokens", 60_000, "how much of a session the model may see"),
        Setting("chat.facts_tokens", 1_500, "how much of what is remembered is always in the prompt"),
        Setting("chat.compact_tokens", 40_000, "a session larger than this is summed up and shortened"),
        Setting("chat.keep_messages", 20, "messages that stay when a session is shortened"),
        Setting("telegram.allowed_users", "", "numeric ids of the users that are served, separated by commas"),
        Setting("telegram.api_url", "https://api.telegram.org", "your own Bot API server", env="TELEGRAM_API_URL"),
        Setting("telegram.parallel", 32, "chats that are answered at the same time"),
        Setting("telegram.longest_message", 20_000, "characters of a message that is still taken"),
        Setting("workspace.pause_minutes", 5, "minutes until a quiet conversation is paused", anywhere=True),
        Setting("workspace.commit", True, "commit a conversation when it is paused or completed", anywhere=True),
        Setting("workspace.mask", True, "mask secrets in what is kept in a workspace, and so in git"),
        Setting("workspace.keep_unmasked", False, "keep the unmasked words too, in the home store"),
        Setting(
            "workspace.safe_folders", "", "workspaces of other users that may be used, separated by commas; *: all"
        ),
        Setting("workspace.pause_words", "", "more words that mean a pause, separated by commas", anywhere=True),
        Setting("workspace.offer_after", 40, "messages without a save until one is offered", anywhere=True),
        Setting("spawner.sessions_dir", "", "where aur keeps its sessions", env="AUR_SESSIONS_DIR"),
        Setting("spawner.agent", "assistant", "the agent that aur talks to where none is named"),
        Setting(
            "spawner.interactive.session_expiry_days", 0, "days after which quiet sessions go to the trash; 0: never"
        ),
        Setting("spawner.interactive.context_tokens", 100_000, "how much of a session the model is sent at most"),
        Setting("search.model", "built-in", "what reads meaning: built-in, openai/…, sentence-transformers/… or none"),
        Setting("search.address", "", "where an openai/… model for search is asked, instead of OPENAI_BASE_URL"),
        Setting("resume.tokens", 60_000, "how large a resume packet may be", anywhere=True),
        Setting("resume.native_tokens", 120_000, "how much history a native resume may carry", anywhere=True),
        Setting("model.name", "", "the model to ask, as provider/name", env="CORTEXT_MODEL"),
        Setting("model.mask", True, "mask secrets in what is sent to a model"),
        Setting("model.stream", True, "show answers as they come (some endpoints can only give them whole)"),
        Setting("model.connect_seconds", 10.0, "seconds to wait for a connection to a model"),
        Setting("model.silence_seconds", 120.0, "seconds to wait for the next words of a model"),
        Setting("model.retries", 3, "how often to ask again after a rate limit"),
        Setting("resume.tool", "", "the AI tool to resume in, where the conversation names none", anywhere=True),
        Setting("mcp.tokens", 6_000, "how large an answer of the MCP server may be"),
    )
}


class Settings:
    """The settings in force; `settings["store.lock_timeout"]`."""

    def __init__(self, values: dict[str, Value], ignored: dict[str, str], unknown: dict[str, str]) -> None:
        self._values = values
        # Settings that a workspace asked for and did not get: name and the file that asked.
        self.ignored = ignored
        # Names in the file of a workspace that are none of ours, perhaps of another version: name and file.
        self.unknown = unknown

    def warnings(self) -> list[str]:
        """What to tell the user about his files."""
        return [f"{source}: unknown setting {name}; it was ignored" for name, source in sorted(self.unknown.items())]

    def __getitem__(self, name: str) -> Any:
        return self._values.get(name, SETTINGS[name].default)


def load(workspace: str = "", *, trusted: bool = False) -> Settings:
    """Read every source that is there."""
    values: dict[str, Value] = {}
    ignored: dict[str, str] = {}
    unknown: dict[str, str] = {}
    _take(_read(user_file()), user_file(), values, lambda setting: True, ignored)
    if workspace:
        path = workspace_file(workspace)
        _take(_read(_inside(workspace)), path, values, lambda setting: trusted or setting.anywhere, ignored, unknown)
    for setting in SETTINGS.values():
        name = setting.env or "CORTEXT_" + setting.name.replace(".", "_").upper()
        if os.environ.get(name):
            values[setting.name] = setting.parse(os.environ[name], f"${name}")
    return Settings(values, ignored, unknown)


def _take(
    found: dict[str, Any],
    source: str,
    values: dict[str, Value],
    allowed: Any,
    ignored: dict[str, str],
    unknown: dict[str, str] | None = None,
) -> None:
    """Take what a file says. A name that is none of ours is an error, or goes to `unknown` where that is given."""
    for name, value in _flatten(found):
        # One line is enough for a server; a file with other settings of the store has `url` in its table.
        name = "store.url" if name == "store" else name
        setting = SETTINGS.get(name)
        if setting is None and unknown is not None:
            unknown[name] = source
            continue
        if setting is None:
            raise ConfigError(f"{source}: unknown setting {name}", hint=f"known are: {', '.join(sorted(SETTINGS))}")
        if allowed(setting):
            values[name] = setting.parse(value, source)
        else:
            ignored[name] = source


def _flatten(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            pairs += _flatten(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs


def _read(path: str) -> dict[str, Any]:
    try:
        if not os.path.lexists(path):
            return {}

        raw = fsio.read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", kept="it is unchanged", hint="put a file there, or remove it"
        ) from error

    import tomllib

    try:
        found = tomllib.loads(raw.decode("utf-8"))
        _flatten(found)  # no deeper than we can follow
        return found
    except RecursionError as error:
        raise ConfigError(
            f"{path} is nested too deeply", kept="nothing was changed", hint="a setting has a name and a plain value"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", kept="nothing was changed", hint="mend the line") from error


# ── trust ────────────────────────────────────────────────────────────────────────────────────────────


def workspace_file(workspace: str) -> str:
    """The settings file of a workspace."""
    return os.path.join(workspace, ".workspace", "config.toml")


def _inside(workspace: str) -> str:
    """The real path of the same; UnsafePath where a link in the workspace leads out of it."""
    path = workspace_file(workspace)
    if not os.path.lexists(path):
        return path

    return inside(workspace, path)


def written(workspace: str) -> dict[str, Any]:
    """What the settings file of a workspace says, by dotted names."""
    pairs = _flatten(_read(_inside(workspace)))
    return {"store.url" if name == "store" else name: value for name, value in pairs}


def is_trusted(workspace: str) -> bool:
    """Whether the user said that the settings of this workspace, as they are now, may do everything."""
    try:
        marks = fsio.read_text(_trust_list(), "surrogateescape").split("\n")
        return trust_mark(workspace) in marks
    except OSError:
        return False


def trust_mark(workspace: str) -> str:
    """What is remembered: the hash of the settings with the folder, so that a changed file is asked about again."""
    try:
        digest = hashlib.sha256(fsio.read_file(_inside(workspace))).hexdigest()
    except OSError:
        digest = "none"
    return f"{digest} {workspace}"


def trust(workspace: str) -> None:
    """Remember that the user trusts the settings of this workspace."""
    fsio.ensure_folder(data_folder())
    fsio.append_once(_trust_list(), trust_mark(workspace).encode("utf-8", "surrogateescape") + b"\n")


def _trust_list() -> str:
    return os.path.join(data_folder(), "trusted")


# ── folders ──────────────────────────────────────────────────────────────────────────────────────────


def _home(*parts: str) -> str:
    return os.path.join(os.path.expanduser("~"), *parts)


def _xdg(variable: str, *fallback: str) -> str:
    value = os.environ.get(variable, "")
    return value if os.path.isabs(value) else _home(*fallback)


def user_file() -> str:
    """The user's settings file."""
    return os.environ.get("CORTEXT_CONFIG") or os.path.join(
        _xdg("XDG_CONFIG_HOME", ".config"), "cortext", "config.toml"
    )


def data_folder() -> str:
    """Where what the user must not lose lies: the home store, the list of workspaces."""
    return os.path.join(_xdg("XDG_DATA_HOME", ".local", "share"), "cortext")


def state_folder() -> str:
    """Where logs lie."""
    return os.path.join(_xdg("XDG_STATE_HOME", ".local", "state"), "cortext")


def cache_folder() -> str:
    """Where everything lies that can be deleted and comes back."""
    return os.path.join(_xdg("XDG_CACHE_HOME", ".cache"), "cortext")


def spawn_folder(settings: Settings) -> str:
    """The sessions of `aur spawn`."""
    return os.path.expanduser(settings["spawner.sessions_dir"]) or _home(".aurora", "spawn", "sessions")


def chat_folder(settings: Settings) -> str:
    """The sessions of `alfred`."""
    chosen = os.path.expanduser(settings["session.sessions_dir"])
    return chosen or os.path.join(_xdg("XDG_DATA_HOME", ".local", "share"), "alfred", "sessions")


def server(settings: Settings) -> str:
    """The address of the server that keeps the sessions; empty where files do. It holds a password: never show it."""
    address: str = settings["store.url"]
    if address in ("", "files"):
        return ""

    if not is_address(address):
        raise ConfigError(
            "the setting `store` is neither the address of a PostgreSQL server nor `files`",
            kept="nothing was changed",
            hint="it looks like postgresql://user@host/database; from the environment it is CORTEXT_STORE",
        )
    return address


def assistant_folder(settings: Settings) -> str:
    """What alfred keeps beside its sessions: memory, chats, the journals of its bots."""
    return os.path.dirname(os.path.abspath(chat_folder(settings)))
