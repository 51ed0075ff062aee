"""Where Visual Studio Code and the editors made from it keep their data, and that of their extensions.

In the user's folder, `globalStorage` is for all projects, and each folder in `workspaceStorage` for one. All of them
have a database with a table of the editor's own, `ItemTable`.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from cortext.tools.base import Detected
from cortext.tools.shared.folders import listing
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import word

EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS = (".vscode", ".vscode-insiders", ".vscode-oss", ".cursor", ".windsurf", ".vscode-server", ".cursor-server")
_GLOBAL, _PROJECTS = "globalStorage", "workspaceStorage"
_SERVERS = (".vscode-server", ".vscode-server-insiders", ".cursor-server", ".windsurf-server")
DATABASE = "state.vscdb"
_VERSION = re.compile(r"-(\d+\.\d+\.\d+)")


def user_folders(home: str, environ: Mapping[str, str], editors: Sequence[str] = EDITORS) -> Iterator[str]:
    """Yield the folders of the user's data that exist: on Linux, on macOS, and of servers for remote work."""
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    candidates = [
        *(os.path.join(top, name) for top in (config, _macos(home)) for name in editors),
        *(os.path.join(home, name, "data") for name in _SERVERS if editors is EDITORS),
    ]
    yield from (folder for path in candidates if os.path.isdir(folder := os.path.join(path, "User")))


def _macos(home: str) -> str:
    return os.path.join(home, "Library", "Application Support")


def extension_folders(home: str, environ: Mapping[str, str], identity: str) -> list[str]:
    """Return the folders in which an extension keeps its data; its publisher's name may have capital letters."""
    storages = [os.path.join(user, _GLOBAL) for user in user_folders(home, environ)]
    return [os.path.join(top, name) for top in storages for name in listing(top) if name.lower() == identity]


def extension(home: str, identity: str) -> Detected | None:
    """Return the installed extension of this id (publisher.name); None if no editor has it."""
    for editor in _EXTENSIONS:
        folder = os.path.join(home, editor, "extensions")
        for name in reversed(listing(folder)):
            if name.lower().startswith(f"{identity.lower()}-"):
                version = _VERSION.match(name[len(identity) :])
                return Detected(program=os.path.join(folder, name), version=version[1] if version else "", tested=False)
    return None


def databases(user: str) -> list[str]:
    """Return the paths of the database of all projects, and of that of each; some may not exist."""
    return [os.path.join(folder, DATABASE) for folder in (os.path.join(user, _GLOBAL), *workspaces(user))]


def item(database: sqlite3.Connection, key: str) -> str:
    """Return what the editor keeps under a key; empty if it is nothing."""
    row = database.execute("SELECT value FROM ItemTable WHERE key = ?", (key,)).fetchone()
    return text_of(row[0]) if row else ""


def workspaces(user: str) -> list[str]:
    """Return the folders with the data of one project each."""
    storage = os.path.join(user, _PROJECTS)
    return [os.path.join(storage, name) for name in listing(storage)]


def folder_of_workspace(storage: str) -> str:
    """Return the project of such a folder; empty if it is unknown or on another machine."""
    found = read_object(os.path.join(storage, "workspace.json"))
    return path_of(word(found, "folder"))


def path_of(uri: str) -> str:
    """Return the path in a URI of a local file or folder, or a plain path; empty for any other URI."""
    if uri.startswith("/"):
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else ""
