"""What hangs on the core: our own rooms and adapters, and what other installed packages bring, found by entry points.

A group of entry points names things of one kind, each by the name that users type. The built-in ones are listed in the
code too, the same as in pyproject.toml: reading the metadata of every installed package takes 25 ms, a quarter of the
time that a hook may take, so they are found without it. What cannot be used is ignored, and `problems` says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

from cortext.errors import ConfigError, CortextError, UsageError

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_problems: list[str] = []


class Group:
    """One group of entry points. The value of an entry point is a module, or `module:name` for what is in it."""

    def __init__(self, name: str, kind: str, built_in: Mapping[str, str], *, part: str = "") -> None:
        """The words are for messages: `kind` for what a user names, `part` for the code that an entry point names."""
        self.name, self.built_in = name, built_in
        self._kind, self._part = kind, part or kind

    def names(self) -> tuple[str, ...]:
        """Return all names, the built-in ones first, without importing anything."""
        return (*self.built_in, *self.external)

    def value(self, name: str) -> str:
        """Return the entry point of this name; empty if there is none."""
        return self.built_in.get(name) or self.external.get(name, "")

    def load(self, name: str, use: Callable[[Any], Any] = lambda found: found) -> Any:
        """Return what the entry point of this name gives to `use`.

        Raise UsageError if the name is unknown, ConfigError if what it names cannot be used.
        """
        value = self.value(name)
        if not value:
            raise UsageError(f"unknown {self._kind} {name!r}", hint=f"use one of {', '.join(self.names())}")
        module, _, attribute = value.partition(":")
        try:
            found = import_module(module)
            return use(getattr(found, attribute) if attribute else found)
        except Exception as error:  # another package may raise anything when it is imported
            if isinstance(error, CortextError) and name in self.built_in:
                raise  # a library that it needs is not installed
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(
                f"the {self._part} {name!r} ({value}) cannot be used: {reason}",
                kept="nothing was changed",
                hint="update or uninstall the package that provides it",
            ) from error

    @cached_property
    def external(self) -> dict[str, str]:
        """The entry points of other packages: name and value. The first of a name wins."""
        from importlib.metadata import entry_points

        found: dict[str, str] = {}
        for name, value in sorted({(point.name, point.value) for point in entry_points(group=self.name)}):
            taken = self.built_in.get(name) or found.get(name)
            about = f"the {self._part} {name!r} ({value}) is ignored"
            if taken == value:
                continue  # a built-in one
            if taken:
                add_problem(f"{about}: {taken} has that name")
            elif not _NAME.fullmatch(name):
                add_problem(f"{about}: use lower-case letters, digits, - and _ in its name")
            else:
                found[name] = value
        return found


# Where sessions are kept, by the scheme of the address: a function (address, kind, settings, lock_timeout) that returns
# a store.server_capabilities.ServerStore.
STORES = Group(
    "cortext.stores",
    "kind of store",
    dict.fromkeys(("postgresql", "postgres"), "cortext.server.shared_store:open_store"),
)

# Providers of models: a module with LIBRARY, NEEDS, here() and MODEL (agents.choosing).
MODELS = Group(
    "cortext.models",
    "provider of models",
    {
        "anthropic": "cortext.agents.llm.anthropic_api",
        "openai": "cortext.agents.llm.openai_api",
        "gemini": "cortext.agents.llm.gemini_api",
        "ollama": "cortext.agents.llm.ollama_api",
    },
)

# Commands of `cortext`: a module with run(arguments), which returns the exit status, and parser();
# or faces.terminal.run.Command.
COMMANDS = Group(
    "cortext.commands",
    "command",
    {
        "share": "cortext.server.share",
        "unshare": "cortext.server.share:UNSHARE",
        "store": "cortext.server.store_command",
        "web": "cortext.web.command",
    },
)

# Formats of `cortext export`: a module with export_one() and export_all() (web.export).
EXPORTS = Group("cortext.exports", "format", {"html": "cortext.web.export"})


def problems() -> list[str]:
    """Return why something was ignored since the last call, one line each."""
    found = _problems[:]
    _problems.clear()
    return found


def add_problem(line: str) -> None:
    """Note why something was ignored."""
    if line not in _problems:
        _problems.append(line)
