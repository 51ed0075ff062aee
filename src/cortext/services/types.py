"""The built-in conversation types: their prompts and templates, written into a workspace."""

from __future__ import annotations

import os
from importlib import resources

from cortext import fsio
from cortext.services import registry
from cortext.services.registry import ConversationType

BUILT_IN = {
    "brainstorm": "think widely about an open question, then choose",
    "debug": "find the cause of something that goes wrong",
    "plan": "turn a goal into steps that can be done and checked",
    "learn": "understand something well enough to explain it",
    "meeting": "prepare a meeting, or keep what was said and decided",
    "review": "read a change or a text with care, and say what matters",
}


def shipped(folder: str, name: str) -> bytes:
    """A file that comes with the package."""
    return resources.files("cortext").joinpath("workspace_files", folder, name).read_bytes()


def write_built_in(workspace: str) -> None:
    """The registry, the command files and the templates of the built-in types. What is there stays."""
    known = registry.load(workspace)
    for name, description in BUILT_IN.items():
        files = {
            f".workspace/commands/{name}.md": ("commands", f"{name}.md"),
            f".workspace/templates/{name}.md": ("templates", f"{name}.md"),
        }
        for relative, source in files.items():
            target = os.path.join(workspace, *relative.split("/"))
            if not os.path.exists(target):
                fsio.ensure_folder(os.path.dirname(target))
                fsio.replace_file(target, [shipped(*source)])
        command, template = files
        known.types.setdefault(
            name,
            ConversationType(
                command=f"/workspace.{name}", command_file=command, template=template, description=description
            ),
        )
    registry.save(workspace, known)
