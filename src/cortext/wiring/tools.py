"""The AI tools for the faces: by name, or all of them; and those that can do what a command needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cortext.errors import UsageError
from cortext.safety import terminal
from cortext.tools import registry
from cortext.tools.base import Headless, Hooks, Installer, NativeWriter, TranscriptSource

if TYPE_CHECKING:
    from cortext.llm.base import Model
    from cortext.llm.connection import Limits


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
        from cortext.services.workspace.installed_tools import detect_all

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


def headless() -> list[Headless]:
    """The tools that answer without their screen, in the order in which they are tried."""
    return [tool for tool in tools() if isinstance(tool, Headless)]


class ProgramSource:
    """AI programs as models: `cli/claude`, `cli/claude/opus`."""

    library = ""  # none is needed

    def __init__(self, limits: Limits, folder: str, scratch: str) -> None:
        self._limits, self._folder, self._scratch = limits, folder, scratch

    @property
    def needs(self) -> str:
        """What is missing where no program is installed."""
        return f"install one of them ({', '.join(program.title for program in headless())}) and sign in"

    def here(self) -> str:
        """The first program that is installed."""
        return next((program.name for program in headless() if program.program_path()), "")

    def make(self, name: str) -> Model:
        """The model of that name."""
        from cortext.llm.cli import CliModel

        wanted, _, model = name.partition("/")
        programs = {program.name: program for program in headless()}
        if wanted not in programs:
            raise UsageError(f"unknown program cli/{wanted}", hint=f"one of {', '.join(programs)}")
        return CliModel(programs[wanted], model, self._limits, folder=self._folder, scratch=self._scratch)


def _tell_problems() -> None:
    for line in registry.problems():
        sys.stderr.write(terminal.line(f"cortext: {line}") + "\n")
