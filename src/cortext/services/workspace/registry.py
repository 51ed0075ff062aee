"""Conversation types of a workspace: `.workspace/registry.json`, with the command file of each."""

from __future__ import annotations

import hashlib
import os

import msgspec

from cortext.errors import ConfigError, UnsafePath
from cortext.io import inside
from cortext.model.ids import is_plain_name
from cortext.safety.framing import disarmed, field


class ConversationType(msgspec.Struct, kw_only=True):
    """One type: its slash command, the files of its prompt and template, and whether sessions are kept."""

    command: str
    command_file: str = ""
    template: str = ""
    description: str = ""
    sessions: bool = True


class Registry(msgspec.Struct, kw_only=True):
    """Every type of a workspace, by name."""

    version: str = "1.0"
    types: dict[str, ConversationType] = {}


RELATIVE = ".workspace/registry.json"


def path_of(workspace: str) -> str:
    """Return the path of a workspace's registry file."""
    return os.path.join(workspace, RELATIVE)


def load(workspace: str) -> Registry:
    """Return the registry; an empty one if there is none."""
    raw = inside.read(workspace, RELATIVE)
    try:
        return Registry() if raw is None else msgspec.json.decode(raw, type=Registry)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path_of(workspace)} cannot be used: {getattr(error, 'strerror', '') or error}",
            kept="it is unchanged",
            hint="fix it, or restore it from git",
        ) from error


def save(workspace: str, registry: Registry) -> None:
    """Write the registry atomically."""
    inside.write(workspace, RELATIVE, msgspec.json.format(msgspec.json.encode(registry), indent=2) + b"\n")


def read_own(workspace: str, relative: str) -> bytes | None:
    """Return a file of a type. Raises ConfigError if its name or a link leads out of the workspace.

    The registry comes from a repository, possibly a stranger's: it must not make us show or store the user's files.
    """
    why, hint = "its name leads out of it", "put the file into the workspace, and its path into the registry"
    try:
        if all(is_plain_name(part) for part in relative.split("/")):
            return inside.read(workspace, relative)
    except UnsafePath as error:
        why, hint = error.message, error.hint
    raise ConfigError(
        f"{RELATIVE} names a file outside the workspace: {ascii(relative)[:120]} ({why})",
        kept="it was not read, and nothing was changed",
        hint=hint,
    )


def command_text(workspace: str, kind: str, topic: str = "") -> str:
    """Return the current prompt of a conversation type for this topic; empty if it has none.

    It goes to a model, before a packet: both the topic and what a repository contains are untrusted text.
    """
    return disarmed(_command(workspace, kind).decode("utf-8", "replace").replace("{arguments}", field(topic)))


def command_hash(workspace: str, kind: str) -> str:
    """Return the hash of a type's prompt file (`sha256:…`), which tells it from a later version; empty if none."""
    raw = _command(workspace, kind)
    return _hash(raw) if raw else ""


def has_changed(workspace: str, kind: str, then: str) -> bool:
    """Whether a type's prompt differs from the one with this hash; a version of ours also hashed its CRLF."""
    raw = _command(workspace, kind)
    return bool(raw and then) and then not in (_hash(raw), _hash(raw.replace(b"\n", b"\r\n")))


def _hash(raw: bytes) -> str:
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def _command(workspace: str, kind: str) -> bytes:
    entry = load(workspace).types.get(kind)
    if entry is None or not entry.command_file:
        return b""
    try:
        # With one kind of line ends, whatever those of git are in this clone.
        return (read_own(workspace, entry.command_file) or b"")[: 1 << 20].replace(b"\r\n", b"\n")
    except OSError:
        return b""
