"""Where Visual Studio Code and the editors made from it keep their data, and which extensions they have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from cortext.tools.base import Detected
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.values import word

EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS = (".vscode", ".vscode-insiders", ".vscode-oss", ".cursor", ".windsurf", ".vscode-server", ".cursor-server")
_SERVERS = (".vscode-server", ".vscode-server-insiders", ".cursor-server", ".windsurf-server")
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


def extension(home: str, identity: str) -> Detected | None:
    """Return the installed extension of this id (publisher.name); None if no editor has it."""
    for editor in _EXTENSIONS:
        folder = os.path.join(home, editor, "extensions")
        for name in sorted(os.listdir(folder), reverse=True) if os.path.isdir(folder) else ():
            if name.lower().startswith(f"{identity.lower()}-"):
                version = _VERSION.match(name[len(identity) :])
                return Detected(program=os.path.join(folder, name), version=version[1] if version else "", tested=False)
    return None


def folder_of_workspace(storage: str) -> str:
    """Return the project folder of a folder in `workspaceStorage`; empty if it is unknown or on another machine."""
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
