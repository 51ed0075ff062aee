"""The built-in conversation types: their prompts and templates, written to a workspace."""

from __future__ import annotations

from importlib import resources

from cortext.services.workspace.registry import ConversationType, Registry
from cortext.tools.base import CommandFile

BUILT_IN = {
    "brainstorm": "think widely about an open question, then choose",
    "debug": "find the cause of something that goes wrong",
    "plan": "turn a goal into steps that can be done and checked",
    "learn": "understand something well enough to explain it",
    "meeting": "prepare a meeting, or keep what was said and decided",
    "review": "read a change or a text with care, and say what matters",
}


def shipped(folder: str, name: str) -> bytes:
    """Return a file of the package."""
    return resources.files("cortext").joinpath("workspace_files", folder, name).read_bytes()


def add_built_in(known: Registry) -> bool:
    """Add the built-in types that a registry lacks; existing ones stay. Return whether any was missing."""
    missing = [name for name in BUILT_IN if name not in known.types]
    for name in missing:
        known.types[name] = ConversationType(
            command=f"/workspace.{name}",
            command_file=f".workspace/commands/{name}.md",
            template=f".workspace/templates/{name}.md",
            description=BUILT_IN[name],
        )
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
