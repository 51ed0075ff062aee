"""The adapters of the AI tools: by name, all of them, or those with the capability that a command needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from cortext.errors import UsageError
from cortext.extensions import problems
from cortext.model.session import Session
from cortext.safety import terminal
from cortext.tools import registry
from cortext.tools.base import (
    Headless,
    Hooks,
    Installer,
    NativeWriter,
    TranscriptSource,
    UserHooks,
    folder_variables_of,
)

Tool = TypeVar("Tool", bound=TranscriptSource)


def names() -> tuple[str, ...]:
    """Return the names of all tools; print a line to standard error for each adapter that is ignored."""
    found = registry.names()
    _print_problems()
    return found


def target_names() -> tuple[str, ...]:
    """Return the names of the tools that may be resumed in, or set up; the built-in ones that only read are not."""
    found = registry.target_names()
    _print_problems()
    return found


def target_name(name: str) -> str:
    """Return the name that a user typed for a tool to resume in; raise UsageError if cortext can only read there."""
    if name in registry.READERS:
        native_writer(name)
    return name


def is_known(name: str) -> bool:
    """Whether there is a tool of this name."""
    return registry.is_known(name)


def title(name: str) -> str:
    """Return the name of a tool for people; an unknown one keeps its name."""
    return registry.title_of(name) if name else ""


def tool(name: str) -> TranscriptSource:
    """Return the adapter of one tool."""
    return registry.load(name)


def tools() -> list[TranscriptSource]:
    """Return every adapter that can be used; print a line to standard error for each that cannot."""
    found = registry.load_all()
    _print_problems()
    return found


def folder_variables() -> list[str]:
    """Return the environment variables that say where the files of any tool are."""
    return sorted({name for found in tools() for name in folder_variables_of(found)})


def _targets() -> list[TranscriptSource]:
    """Return the same without the built-in adapters that only read: they need not be loaded."""
    found = registry.load_all(registry.target_names())
    _print_problems()
    return found


def native_writers() -> list[NativeWriter]:
    """Return the tools that a conversation can be resumed in."""
    return [tool for tool in _targets() if isinstance(tool, NativeWriter)]


def native_writer(name: str) -> NativeWriter:
    """Return the tool of this name, to write a session for; raise UsageError if cortext can only read its sessions."""
    found = tool(name)
    if not isinstance(found, NativeWriter):
        others = ", ".join(writer.name for writer in native_writers())
        raise UsageError(
            f"cortext can read conversations of {found.title}, but not resume one there",
            kept="the conversation is unchanged",
            hint=f"resume it in another tool with --ai ({others}), or print the packet with --print",
        )
    return found


def installed_writers() -> list[NativeWriter]:
    """Return the tools on this machine that a conversation can be resumed in. It takes a second."""
    return _installed(native_writers())


def writer_for(session: Session, named: str, setting: str, choose: Callable[[list[str]], str]) -> NativeWriter:
    """Return the tool that a conversation is continued in: see `planning.tool_to_continue_in`."""
    from cortext.services.resume.planning import tool_to_continue_in

    own = session.origin.tool if can_resume(session.origin.tool) else ""
    return native_writer(tool_to_continue_in(named, own, setting, installed_writers, choose))


def installer(name: str) -> Installer:
    """Return the tool of this name, to set up a workspace for; raise UsageError if it has nothing to set up."""
    found = tool(name)
    if not isinstance(found, Installer):
        raise UsageError(
            f"there is nothing to set up in a workspace for {found.title}",
            kept="nothing was changed",
            hint="capture its conversations with `cortext import`",
        )
    return found


def chosen_installers(wanted: str) -> list[Installer]:
    """Return the tools to set up a workspace for: those named in a list, or with `auto` those that are installed."""
    if wanted == "auto":
        return _installed([tool for tool in _targets() if isinstance(tool, Installer)])
    chosen = [name.strip() for name in wanted.split(",") if name.strip()]
    if not chosen:
        raise UsageError("--ai names no tool", hint=f"use one or more of {', '.join(target_names())}")
    return [installer(name) for name in chosen]


def _installed(candidates: list[Tool]) -> list[Tool]:
    from cortext.services.workspace.installed_tools import detect_all

    return [tool for tool, found in zip(candidates, detect_all(candidates), strict=True) if found is not None]


def hooks(name: str) -> Hooks:
    """Return the tool of this name, to interpret its events; raise UsageError if it has no hooks."""
    found = tool(name)
    if not isinstance(found, Hooks):
        raise UsageError(f"{found.title} has no hooks that cortext supports")
    return found


def with_user_hooks(among: Iterable[TranscriptSource] | None = None) -> list[UserHooks]:
    """Return those of these tools, or of all, that read hooks only from the user's own settings."""
    return [found for found in (_targets() if among is None else among) if isinstance(found, UserHooks)]


def with_hooks() -> list[Hooks]:
    """Return the tools that call cortext while they run."""
    return [tool for tool in _targets() if isinstance(tool, Hooks)]


def can_resume(name: str) -> bool:
    """Whether there is a tool of this name that a conversation can be resumed in."""
    if name in registry.BUILT_IN or name in registry.READERS:  # known without loading its adapter
        return name in registry.BUILT_IN
    return is_known(name) and isinstance(tool(name), NativeWriter)


def headless() -> list[Headless]:
    """Return the tools that can run without a terminal interface, in the order in which they are tried."""
    return [tool for tool in _targets() if isinstance(tool, Headless)]


def _print_problems() -> None:
    for line in problems():
        sys.stderr.write(terminal.line(f"cortext: {line}") + "\n")
