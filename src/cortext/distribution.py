"""How cortext is called on the package index, and how to add an optional dependency to this installation."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from shlex import quote
from urllib.parse import unquote, urlsplit

NAME = "cortext-sessions"  # `cortext` and `cortext-cli` on the package index are other projects


def install_hint(extra: str) -> str:
    """Return how to install an optional dependency."""
    return f"install it with: {install_command(extra)}"


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation, in the way in which it was made."""
    try:
        ours = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        ours = None
    source, is_editable = _source(ours)
    editable = " --editable" if is_editable else ""
    # pipx and uv make the whole environment again, so the extras that are there are named too.
    extras = sorted({extra, *(_extras(ours) if ours is not None else ())})
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):
        return f"uv tool install{editable} {_requirement(source, *extras)}"
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx install --force{editable} {_requirement(source, *extras)}"
    is_active = sys.prefix in (sys.base_prefix, os.environ.get("VIRTUAL_ENV"))
    if ours is not None and (ours.read_text("INSTALLER") or "").strip() == "uv":
        pip = "uv pip install" if is_active else f"uv pip install --python {quote(sys.executable)}"
    else:
        pip = "pip install" if is_active else f"{quote(sys.executable)} -m pip install"
    return f"{pip}{editable} {_requirement(source, extra)}"


def _requirement(source: str, *extras: str) -> str:
    listed = f"[{','.join(extras)}]"
    return quote(f"{NAME}{listed} @ {source}" if "://" in source else f"{source}{listed}")


def _source(ours: metadata.Distribution | None) -> tuple[str, bool]:
    """Return what was installed (our name, a repository or a folder), and whether a folder is used as it is."""
    if ours is None:  # run from a checkout
        return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), True
    try:
        given = json.loads(ours.read_text("direct_url.json") or "{}")
        parts = urlsplit(given.get("url", ""))
        if parts.scheme == "file":
            return unquote(parts.path), bool(given.get("dir_info", {}).get("editable"))
        if parts.scheme:
            vcs = given.get("vcs_info", {}).get("vcs", "")
            return f"{vcs}+{given['url']}" if vcs else given["url"], False
    except (ValueError, AttributeError):
        pass
    return NAME, False


def _extras(ours: metadata.Distribution) -> Iterator[str]:
    """Yield the extras that this installation has."""
    needed: dict[str, list[str]] = {}
    for text in ours.requires or ():
        requirement, marked, extra = text.partition("extra == ")
        if marked:
            needed.setdefault(extra.strip("\"' )"), []).append(_project(requirement))
    for extra, names in needed.items():
        if NAME not in names and all(map(_is_installed, names)):
            yield extra


def _project(requirement: str) -> str:
    end = next((at for at, sign in enumerate(requirement) if not (sign.isalnum() or sign in "-_.")), len(requirement))
    return requirement[:end]


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
