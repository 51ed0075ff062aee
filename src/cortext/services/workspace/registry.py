"""Conversation types of a workspace: `.workspace/registry.json`, with the command file of each; the built-in ones."""

from __future__ import annotations

import hashlib
import os
import re
from importlib import resources

import msgspec

from cortext.errors import ConfigError, NotFound, UnsafePath
from cortext.io import inside
from cortext.model.ids import is_plain_name
from cortext.safety.framing import disarmed, field
from cortext.services.projects.workspaces import REGISTRY
from cortext.tools.base import CommandFile

BUILT_IN = {
    "brainstorm": "think widely about an open question, then choose",
    "debug": "find the cause of something that goes wrong",
    "plan": "turn a goal into steps that can be done and checked",
    "learn": "understand something well enough to explain it",
    "meeting": "prepare a meeting, or keep what was said and decided",
    "review": "read a change or a text with care, and say what matters",
}


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


RELATIVE = REGISTRY
_NAMED = re.compile(r"[\w.-]+(?:/[\w.-]+)*", re.ASCII)  # a path that ends where a tool takes it to end


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


def named_command_file(workspace: str, kind: str, project: str) -> str:
    """Return the path in the project of a type's prompt, as a prompt of a tool may name it (`@path`); empty if none."""
    entry = load(workspace).types.get(kind)
    if entry is None or not _command(workspace, kind):
        return ""
    path = os.path.relpath(os.path.join(os.path.realpath(workspace), entry.command_file), os.path.realpath(project))
    return path if _NAMED.fullmatch(path) and not path.startswith("..") else ""


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


def shipped(folder: str, name: str) -> bytes:
    """Return a file of the package."""
    return resources.files("cortext").joinpath("workspace_files", folder, name).read_bytes()


def add_built_in(known: Registry) -> bool:
    """Add the built-in types that a registry lacks; existing ones stay. Return whether any was missing."""
    missing = [name for name in BUILT_IN if name not in known.types]
    for name in missing:
        known.types[name] = entry_of(name, BUILT_IN[name])
    return bool(missing)


def own_commands() -> list[CommandFile]:
    """Return the commands that are not conversation types: resume, stop and related."""
    return [
        CommandFile(
            name="workspace.resume",
            description="continue an earlier conversation: a number, an id or words; nothing lists them",
            text=shipped("commands", "resume.md").decode("utf-8"),
            run=("resume", "--in-tool"),
        ),
        CommandFile(
            name="workspace.stop-conversation",
            description="save this conversation and pause it",
            text=shipped("commands", "stop-conversation.md").decode("utf-8"),
        ),
        CommandFile(
            name="workspace.related",
            description="show three earlier conversations about a topic; nothing means the last thing that was asked",
            text=shipped("commands", "related.md").decode("utf-8"),
        ),
    ]


def own_command_text(name: str, description: str) -> str:
    """Return an initial prompt for a type that the user adds, to be edited."""
    purpose = f": {description}" if description else ""
    return f"""# {name}

Topic: {{arguments}}

This is a conversation of the kind "{name}"{purpose}. If the topic is empty, ask for it.

Say here what this conversation is for, how to lead it, what good looks like, and what to avoid. This text is sent at
the beginning, and again whenever the conversation is resumed.

Keep the notes in `{name}.md` in the conversation's folder: outcomes and decisions with reasons, not a transcript.
"""


def add_type(root: str, name: str, description: str, *, sessions: bool = True) -> list[str]:
    """Add a user's own conversation type: a prompt and a template to edit, and an entry in the registry."""
    known = load(root)
    files = _first_files(name, description)
    entry = msgspec.structs.replace(entry_of(name, description), sessions=sessions)
    existing = {path: inside.read(root, path) for path in files}
    is_untouched = all(existing[path] == text.encode("utf-8") for path, text in files.items())
    if name in known.types and not (is_untouched and known.types[name] == entry):  # else an interrupted attempt
        raise ConfigError(f"the type {name} already exists", kept="it is unchanged", hint="edit its files")
    for path, text in files.items():
        if existing[path] is None:
            inside.write(root, path, text.encode("utf-8"))
    known.types[name] = entry
    save(root, known)
    return list(files)


def remove_type(root: str, name: str) -> list[str]:
    """Remove a user's own type from the registry; return which of its files stay because they were edited.

    Its conversations stay as they are.
    """
    known = load(root)
    if name in BUILT_IN:
        raise ConfigError(
            f"{name} is built in",
            kept="it is unchanged",
            hint=f'set "sessions": false in its entry in {RELATIVE} to keep no sessions of it',
        )
    if name not in known.types:
        own = ", ".join(sorted(set(known.types) - set(BUILT_IN)))
        raise NotFound(f"unknown type {name}", hint=f"your own types: {own}" if own else "you have added none")
    entry = known.types.pop(name)
    save(root, known)
    kept = []
    for path, text in _first_files(name, entry.description).items():
        existing = inside.read(root, path)
        if existing == text.encode("utf-8"):
            inside.remove(root, path)
        elif existing is not None:
            kept.append(path)
    return kept


def _first_files(name: str, description: str) -> dict[str, str]:
    """Return the prompt and the template of a new type, for the user to edit."""
    return {
        f".workspace/commands/{name}.md": own_command_text(name, description),
        f".workspace/templates/{name}.md": "# {title}\n\n{date} · {id}\n",
    }


def entry_of(name: str, description: str) -> ConversationType:
    """Return a type's registry entry, with its files at their usual paths."""
    return ConversationType(
        command=f"/workspace.{name}",
        command_file=f".workspace/commands/{name}.md",
        template=f".workspace/templates/{name}.md",
        description=description,
    )
