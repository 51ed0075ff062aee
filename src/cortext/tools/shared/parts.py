"""An adapter as a record of parts: the facts about a tool, and where the code of each group of protocols is.

    class Pi(HasReader, HasWriter, HasSettings, LocalTool):
        name = "pi"
        reader = LazyPart("cortext.tools.pi.read:PiReader")
        writer = LazyPart("cortext.tools.pi.write:PiWriter")
        settings = LazyPart("cortext.tools.pi.write:PiSettings")

A part is imported when one of its methods is first called, and is created with the adapter: a hook does not import what
writes sessions. The classes `Has…` give the adapter the methods of the protocols, so that `isinstance` and mypy see
them. An adapter may also have any method itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

from cortext.io import durable, new_files
from cortext.model.turns import Turns
from cortext.safety.framing import GO_ON
from cortext.tools.base import (
    Headless,
    Hooks,
    Installer,
    Instructs,
    KeepsImages,
    Launch,
    Messages,
    NamesLeftovers,
    NativeWriter,
    Purges,
    Refuses,
    Rewinds,
    Transcript,
    TranscriptSource,
    Watched,
    Written,
)
from cortext.tools.shared.program import Program

_Tool = TypeVar("_Tool")
_Method = TypeVar("_Method", bound=Callable[..., Any])


class LazyPart:
    """A part of an adapter, given as `module:Class`."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def load(self) -> Any:
        """Import the part's class and return it."""
        module, _, cls = self.place.partition(":")
        return getattr(import_module(module), cls)

    def __get__(self, tool: object | None, owner: type) -> Any:
        """Return the part of this adapter."""
        if tool is None:
            return self
        part = vars(tool)[self._name] = self.load()(tool)  # from now on the attribute is the part itself
        return part


def forward(part: str, method: _Method) -> _Method:
    """Return a method for an adapter: it calls the method of the same name of one of its parts."""
    name = method.__name__

    @wraps(method)
    def call(tool: object, *arguments: Any, **named: Any) -> Any:
        return getattr(getattr(tool, part), name)(*arguments, **named)

    return cast("_Method", call)


# ── what an adapter has ──────────────────────────────────────────────────────────────────────────────


class HasReader:
    """An adapter with a part `reader`: TranscriptSource apart from `detect`, NamesLeftovers and Watched."""

    transcripts = forward("reader", TranscriptSource.transcripts)
    transcript_at = forward("reader", TranscriptSource.transcript_at)
    leftovers = forward("reader", NamesLeftovers.leftovers)
    watched = forward("reader", Watched.watched)
    changed = forward("reader", Watched.changed)
    read = forward("reader", TranscriptSource.read)
    copy = forward("reader", TranscriptSource.copy)


class HasImages:
    """An adapter whose part `reader` also finds the images of a conversation."""

    images = forward("reader", KeepsImages.images)


class HasRewinds:
    """An adapter whose part `reader` also counts what the user took back."""

    rewinds = forward("reader", Rewinds.rewinds)


class HasWriter:
    """An adapter with a part `writer`: NativeWriter."""

    put_back = forward("writer", NativeWriter.put_back)
    withheld = forward("writer", NativeWriter.withheld)
    preview = forward("writer", NativeWriter.preview)
    write = forward("writer", NativeWriter.write)
    launch = forward("writer", NativeWriter.launch)
    launch_new = forward("writer", NativeWriter.launch_new)
    discard = forward("writer", NativeWriter.discard)


class HasInstructions:
    """An adapter whose part `writer` also puts a text into the tool's system prompt: Instructs."""

    instructed = forward("writer", Instructs.instructed)


class HasRefusal:
    """An adapter whose part `writer` also says what the tool would not continue."""

    refusal = forward("writer", Refuses.refusal)


class HasSettings:
    """An adapter with a part `settings`: Installer, and the method of Hooks that looks at settings."""

    files = forward("settings", Installer.files)
    install_settings = forward("settings", Installer.install_settings)
    remove_settings = forward("settings", Installer.remove_settings)
    mcp_servers = forward("settings", Installer.mcp_servers)
    hooks_off = forward("settings", Hooks.hooks_off)


class HasPurge:
    """An adapter whose part `settings` also says what the tool deletes: Purges."""

    purge = forward("settings", Purges.purge)
    raise_retention = forward("settings", Purges.raise_retention)
    renew = forward("settings", Purges.renew)
    restore_retention = forward("settings", Purges.restore_retention)


class HasHeadless:
    """An adapter with a part `headless`: Headless."""

    program: Program
    ask = forward("headless", Headless.ask)

    def program_path(self) -> str:
        """Return the path of the program; empty if it is not installed."""
        return self.program.path()


# ── what parts share ─────────────────────────────────────────────────────────────────────────────────


class ToolPart(Generic[_Tool]):
    """A part: `tool` is its adapter."""

    def __init__(self, tool: _Tool) -> None:
        self.tool = tool


class FileReader(ToolPart[_Tool]):
    """The reader of a tool with a file for each session."""

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the file byte for byte."""
        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(transcript.path, target, later)


class SessionWriter(ToolPart[_Tool]):
    """A writer whose new session contains the first prompt, so that the prompt is private."""

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report, if that is what their normal form says."""
        return Written.of(Turns(messages))

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session."""
        raise NotImplementedError

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open a session."""
        raise NotImplementedError

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a new session that contains the prompt; return it and how to open it."""
        written = self.write([], project=project, title=title, model=model, note=prompt)
        return written, self.launch(written.key, project=project, prompt=GO_ON, model=model)


class FileWriter(SessionWriter[_Tool]):
    """The writer of a tool with a file for each session."""

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that nobody used."""
        if written.path:
            durable.remove(written.path)


class FolderWriter(SessionWriter[_Tool]):
    """The writer of a tool with a folder for each session, in which the transcript is."""

    def discard(self, written: Written, *, project: str) -> None:
        """Remove a session that nobody used."""
        if written.path:
            durable.remove_tree(os.path.dirname(written.path))
