"""The AI tools for the faces: by name, or all of them; and those that can do what a command needs."""

from __future__ import annotations

import sys

from cortext.errors import UsageError
from cortext.safety import terminal
from cortext.services.workspace.installed_tools import detect_all
from cortext.tools import registry
from cortext.tools.base import Hooks, Installer, NativeWriter, TranscriptSource


def names() -> tuple[str, ...]:
    """The names of all tools."""
    found = registry.names()
    _tell_problems()
    return found


def is_known(name: str) -> bool:
    """Whether there is a tool of this name."""
    return registry.is_known(name)


def tool(name: str) -> TranscriptSource:
    """The adapter of one tool."""
    return registry.load(name)


def tools() -> list[TranscriptSource]:
    """Every adapter that can be used; one line on standard error for each that cannot."""
    found = registry.load_all()
    _tell_problems()
    return found


def native_writers() -> list[NativeWriter]:
    """The tools that a conversation can be resumed in."""
    return [tool for tool in tools() if isinstance(tool, NativeWriter)]


def native_writer(name: str) -> NativeWriter:
    """The tool of this name, to write a session for; an error that says what to do where cortext only reads it."""
    found = tool(name)
    if not isinstance(found, NativeWriter):
        others = ", ".join(writer.name for writer in native_writers())
        raise UsageError(
            f"cortext can read conversations of {found.title}, but not continue one there",
            kept="the conversation is unchanged",
            hint=f"resume it in another tool with --ai ({others}), or print the packet with --print",
        )
    return found


def installer(name: str) -> Installer:
    """The tool of this name, to set up a workspace for."""
    found = tool(name)
    if not isinstance(found, Installer):
        raise UsageError(
            f"there is nothing to set up in a workspace for {found.title}",
            kept="nothing was changed",
            hint="`cortext import` takes in its conversations",
        )
    return found


def chosen_installers(wanted: str) -> list[Installer]:
    """The tools to set up a workspace for: a list of names, or `auto` for those whose program is installed here."""
    if wanted == "auto":
        here = [tool for tool in tools() if isinstance(tool, Installer)]
        return [tool for tool, found in zip(here, detect_all(here), strict=True) if found is not None]
    chosen = [name.strip() for name in wanted.split(",") if name.strip()]
    if not chosen:
        raise UsageError("--ai names no tool", hint=f"one or more of {', '.join(names())}")
    return [installer(name) for name in chosen]


def hooks(name: str) -> Hooks:
    """The tool of this name, to understand its events."""
    found = tool(name)
    if not isinstance(found, Hooks):
        raise UsageError(f"{found.title} has no hooks that cortext understands")
    return found


def with_hooks() -> list[Hooks]:
    """The tools that call us while they run."""
    return [tool for tool in tools() if isinstance(tool, Hooks)]


def can_resume(name: str) -> bool:
    """Whether there is a tool of this name that a conversation can be resumed in."""
    return is_known(name) and isinstance(tool(name), NativeWriter)


def _tell_problems() -> None:
    for line in registry.problems():
        sys.stderr.write(terminal.line(f"cortext: {line}") + "\n")
