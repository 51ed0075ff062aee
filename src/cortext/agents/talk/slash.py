"""Slash commands: one table that parses lines, lists the help and completes on Tab."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Generic, NamedTuple, TypeVar

from cortext.errors import UsageError

Run = TypeVar("Run")  # how a face calls its commands


class Suggestion(NamedTuple):
    """A completion: the text that replaces the last `length` characters, and a description."""

    text: str
    length: int
    about: str = ""


Complete = Callable[[str], Iterable[Suggestion]]  # completions of the text before the cursor


class SlashCommand(NamedTuple, Generic[Run]):
    """`/name usage`, what it does, and the function that does it."""

    name: str
    usage: str
    about: str
    run: Run


class CommandTable(Generic[Run]):
    """The commands of a face, in the order in which its help lists them."""

    def __init__(self, commands: Iterable[SlashCommand[Run]], *, hint: str = "") -> None:
        self._commands = {command.name: command for command in commands}
        self._hint = hint  # added to the hint of an unknown command

    def __iter__(self) -> Iterator[SlashCommand[Run]]:
        return iter(self._commands.values())

    def find(self, line: str) -> tuple[SlashCommand[Run], str]:
        """Return the command of a line and its argument; UsageError suggests the nearest name."""
        name, argument = [*line.strip().lstrip("/").split(None, 1), "", ""][:2]
        command = self._commands.get(name.lower())
        if command is None:
            near = get_close_matches(name.lower(), list(self._commands), n=1)
            suggestion = f"did you mean /{near[0]}?" if near else "/help lists the commands"
            hint = "; ".join(filter(None, (suggestion, self._hint)))
            raise UsageError(f"unknown command /{name}", kept="nothing was sent", hint=hint)
        return command, argument

    def help(self) -> list[tuple[str, str]]:
        """Return each command as it is typed, and its description."""
        return [(f"/{command.name} {command.usage}".rstrip(), command.about) for command in self]

    def complete(self, text: str, argument: Callable[[str, str], Iterable[Suggestion]]) -> list[Suggestion]:
        """Return completions of a line: names of commands, then those of `argument(name, beginning)`."""
        if not text.startswith("/"):
            return []
        name, blank, beginning = text[1:].partition(" ")
        if blank:
            return list(argument(name, beginning))
        return [
            Suggestion(f"/{command.name} " if command.usage else f"/{command.name}", len(text), command.about)
            for command in self
            if command.name.startswith(name)
        ]
