"""Where the files of this user are: the settings, the data, the logs, the cache, and the sessions of aur and alfred."""

from __future__ import annotations

import os

from cortext.config.schema import Settings
from cortext.io.inside import inside


def user_file() -> str:
    """The user's settings file."""
    return os.environ.get("CORTEXT_CONFIG") or os.path.join(
        _xdg("XDG_CONFIG_HOME", ".config"), "cortext", "config.toml"
    )


def workspace_file(workspace: str) -> str:
    """The settings file of a workspace."""
    return os.path.join(workspace, ".workspace", "config.toml")


def checked_workspace_file(workspace: str) -> str:
    """The real path of the same; UnsafePath if a link in the workspace leads out of it."""
    path = workspace_file(workspace)
    return inside(workspace, path) if os.path.lexists(path) else path


def data() -> str:
    """What the user must not lose: the home store, the list of workspaces."""
    return os.path.join(_xdg("XDG_DATA_HOME", ".local", "share"), "cortext")


def state() -> str:
    """Logs, and marks of what is going on."""
    return os.path.join(_xdg("XDG_STATE_HOME", ".local", "state"), "cortext")


def cache() -> str:
    """What can be deleted and is made again."""
    return os.path.join(_xdg("XDG_CACHE_HOME", ".cache"), "cortext")


def spawn_sessions(settings: Settings) -> str:
    """The sessions of `aur spawn`."""
    return os.path.expanduser(settings.spawner.sessions_dir) or _home(".aurora", "spawn", "sessions")


def chat_sessions(settings: Settings) -> str:
    """The sessions of `alfred`."""
    chosen = os.path.expanduser(settings.session.sessions_dir)
    return chosen or os.path.join(_xdg("XDG_DATA_HOME", ".local", "share"), "alfred", "sessions")


def assistant(settings: Settings) -> str:
    """What alfred keeps beside its sessions: memory, chats, the journals of its bots."""
    return os.path.dirname(os.path.abspath(chat_sessions(settings)))


def _home(*parts: str) -> str:
    return os.path.join(os.path.expanduser("~"), *parts)


def _xdg(variable: str, *fallback: str) -> str:
    value = os.environ.get(variable, "")
    return value if os.path.isabs(value) else _home(*fallback)
