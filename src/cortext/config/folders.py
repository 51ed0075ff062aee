"""The paths of this user's files: settings, data, logs, cache, and the sessions of aur and alfred."""

from __future__ import annotations

import os

from cortext.config.schema import Settings
from cortext.io.inside import inside


def user_file() -> str:
    """Return the path of the user's settings file."""
    return os.environ.get("CORTEXT_CONFIG") or os.path.join(
        _xdg("XDG_CONFIG_HOME", ".config"), "cortext", "config.toml"
    )


def workspace_file(workspace: str) -> str:
    """Return the path of a workspace's settings file."""
    return os.path.join(workspace, ".workspace", "config.toml")


def checked_workspace_file(workspace: str) -> str:
    """Return its real path; raise UnsafePath if a link in the workspace leads out of it."""
    path = workspace_file(workspace)
    return inside(workspace, path) if os.path.lexists(path) else path


def data() -> str:
    """Return the folder of what the user must not lose: the home store, the list of workspaces."""
    return os.path.join(_xdg("XDG_DATA_HOME", ".local", "share"), "cortext")


def state() -> str:
    """Return the folder of logs and of the state of running chats."""
    return os.path.join(_xdg("XDG_STATE_HOME", ".local", "state"), "cortext")


def cache() -> str:
    """Return the folder of what can be deleted and is rebuilt."""
    return os.path.join(_xdg("XDG_CACHE_HOME", ".cache"), "cortext")


def spawn_sessions(settings: Settings) -> str:
    """Return the folder of the sessions of `aur spawn`."""
    return os.path.expanduser(settings.spawner.sessions_dir) or _home(".aurora", "spawn", "sessions")


def chat_sessions(settings: Settings) -> str:
    """Return the folder of the sessions of `alfred`."""
    chosen = os.path.expanduser(settings.session.sessions_dir)
    return chosen or os.path.join(_xdg("XDG_DATA_HOME", ".local", "share"), "alfred", "sessions")


def assistant(settings: Settings) -> str:
    """Return the folder of what alfred keeps beside its sessions: memory, chats, the journals of its bots."""
    return os.path.dirname(os.path.abspath(chat_sessions(settings)))


def _home(*parts: str) -> str:
    return os.path.join(os.path.expanduser("~"), *parts)


def _xdg(variable: str, *fallback: str) -> str:
    value = os.environ.get(variable, "")
    return value if os.path.isabs(value) else _home(*fallback)
