"""The workspaces of this machine: the one around a folder, whether it may be used, and the list of all of them."""

from __future__ import annotations

import os

import msgspec

from cortext.config import folders
from cortext.config.load import load
from cortext.errors import CortextError, NotFound, UnsafePath
from cortext.io import durable, inside

# How the AI tools and git call us: found on PATH, so that it works on every machine that shares the repository.
PROGRAM = ("cortext",)
REGISTRY = ".workspace/registry.json"


def find_workspace(folder: str) -> str:
    """The nearest folder upwards that is a workspace; empty if there is none, or it belongs to another user.

    Who can put `.workspace/` into a folder above ours could otherwise choose our settings, and have our words kept
    where they can read them: in /tmp, say. A workspace that is named (`CORTEXT_WORKSPACE`) was chosen by the user.
    """
    chosen = os.environ.get("CORTEXT_WORKSPACE")
    if chosen:
        return os.path.abspath(chosen)
    found = _nearest_workspace(folder)
    return "" if untrusted_workspace(found) else found


def no_workspace(folder: str) -> NotFound:
    """The error for a command that needs a workspace around this folder."""
    refused = untrusted_workspace(_nearest_workspace(folder))
    return NotFound(
        f"no workspace here ({folder})" + (f": {refused}" if refused else ""),
        kept="nothing was changed",
        hint="go to a workspace, set one up here with `cortext init`, or try `cortext demo`",
    )


def untrusted_workspace(root: str) -> str:
    """Why a workspace is not used, and how to allow it; empty if it is the user's own, or allowed."""
    if not root:
        return ""
    owner = next((owner for owner in _owners(root) if owner not in _own_ids()), None)
    if owner is None:
        return ""
    real = os.path.realpath(root)
    for name in load().workspace.safe_folders.split(","):
        allowed = name.strip()
        if allowed == "*" or (allowed and os.path.realpath(os.path.expanduser(allowed)) == real):
            return ""
    return (
        f"the workspace {root} belongs to another user (uid {owner}) and is not used; if you trust it, add it to "
        f"workspace.safe_folders in {folders.user_file()}"
    )


def untrusted_workspace_here() -> str:
    """The same for the workspace around the current folder."""
    try:
        return "" if os.environ.get("CORTEXT_WORKSPACE") else untrusted_workspace(_nearest_workspace(os.getcwd()))
    except (OSError, CortextError):  # the folder is gone, or the settings are invalid: the command reports it
        return ""


def _own_ids() -> set[int]:
    """The users whose folders count as our own: ourselves, and with sudo the user who called it."""
    caller = os.environ.get("SUDO_UID", "")
    return {os.geteuid()} | ({int(caller)} if os.geteuid() == 0 and caller.isdigit() else set())


def _owners(root: str) -> list[int]:
    """The owners of a workspace: of its folder, and of the one that makes it a workspace. Tests replace it."""
    return [os.stat(root).st_uid, os.lstat(os.path.join(root, ".workspace")).st_uid]


def _nearest_workspace(folder: str) -> str:
    """The nearest folder upwards that has `.workspace/`, whoever made it; empty if there is none."""
    while True:
        if os.path.isdir(os.path.join(folder, ".workspace")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent


def check_folder(path: str) -> str:
    """The path itself; UnsafePath if it is not UTF-8, because no index, JSON or settings file could name it."""
    if not is_text(path):
        raise UnsafePath(
            f"a folder's name is not UTF-8: {path!a}", kept="nothing was changed", hint="rename the folder"
        )
    return path


def is_text(path: str) -> bool:
    """Whether a path is UTF-8."""
    return path.isascii() or path.encode("utf-8", "replace").decode("utf-8") == path


def _list_file() -> str:
    return os.path.join(folders.data(), "workspaces")


def known_workspaces() -> list[str]:
    """Workspaces that were made or used on this machine and still exist, or of which git left only our copies."""
    try:
        paths = durable.read_text(_list_file(), "surrogateescape").split("\n")
    except OSError:
        return []
    known = [path for path in dict.fromkeys(paths) if path and is_text(path)]
    known = [path for path in known if os.path.isdir(os.path.join(path, ".workspace"))]
    if not os.path.isdir(os.path.join(folders.data(), "copies")):
        return known
    from cortext.services.projects.safety_copies import workspaces_with_copies

    return [*known, *workspaces_with_copies(known)]


def remember_workspace(root: str) -> None:
    """Add a workspace to the list, so that `list`, `search` and `doctor` find it from everywhere."""
    if root not in known_workspaces() and "\n" not in root:
        durable.ensure_folder(folders.data())
        durable.append_once(_list_file(), os.fsencode(root) + b"\n")


class _Kept(msgspec.Struct):
    sessions: bool = True


class _Types(msgspec.Struct):
    types: dict[str, _Kept] = {}


def types_not_stored(folder: str) -> frozenset[str]:
    """Return the conversation types of which the workspace around a folder stores nothing."""
    workspace = find_workspace(folder) if folder else ""
    try:
        raw = inside.read(workspace, REGISTRY) if workspace else None
        types = msgspec.json.decode(raw, type=_Types).types if raw and b"false" in raw else {}
    except (OSError, CortextError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return frozenset()  # a registry that cannot be read is reported by the commands that need it
    return frozenset(name for name, kept in types.items() if not kept.sessions)


def adopt_workspace(root: str) -> bool:
    """Complete the set-up of a cloned workspace; whether git had to be told how to merge conversations.

    A clone lacks only that and its entry in our list. What cannot be written is left alone.
    """
    if not is_text(root) or not os.path.isfile(os.path.join(root, ".workspace", "installed.json")):
        return False
    try:
        if root not in known_workspaces():
            remember_workspace(root)
        if _has_driver(os.path.join(root, ".git", "config")):
            return False
        from cortext.services.projects.git import Git, set_merge_driver

        git = Git(root)
        return git.is_repository() and set_merge_driver(git, " ".join(PROGRAM))
    except (OSError, CortextError):
        return False


def _has_driver(path: str) -> bool:
    try:
        return b'[merge "cortext"]' in durable.read_file(path)
    except OSError:  # a worktree, a submodule, or no repository: git itself is asked
        return False
