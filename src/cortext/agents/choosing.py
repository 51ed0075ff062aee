"""The model of `aur` and `alfred`: chosen by its name or the settings, and never sent a secret."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from cortext.agents.llm.base import ChatModel, Event, Request
from cortext.agents.llm.cli import CliModel
from cortext.agents.llm.connection import ModelLimits
from cortext.config import folders
from cortext.config.schema import Settings
from cortext.distribution import install_command, install_hint
from cortext.errors import NoModel, UsageError
from cortext.extensions import MODELS
from cortext.model.answer import AnswerNote
from cortext.model.message import Message
from cortext.safety.secrets.masking import Secret, mask
from cortext.services.text.message_masking import mask_message
from cortext.wiring import tools

SETUP_GUIDE = """\
No model is available yet. Set up any one of these:

  1. A key       export ANTHROPIC_API_KEY=…     (or OPENAI_API_KEY, or GEMINI_API_KEY)
  2. Ollama      run models on this machine, free and private: https://ollama.com/download
                 then, for example:  ollama pull qwen3
  3. An AI CLI   if Claude Code or another AI tool is installed and signed in, it is found automatically

The first two also need the client libraries:  {command}
To set a default, use CORTEXT_MODEL=provider/name, or `name` under [model] in the settings."""


def choose_model(settings: Settings, folder: str, name: str = "") -> ChatModel:
    """Return the model of that name, else the one in the settings, else the first that is usable here.

    `folder` is the working directory of an AI program that is used as a model (`cli/…`).
    """
    limits = ModelLimits(
        connect=settings.model.connect_seconds,
        silence=settings.model.silence_seconds,
        retries=settings.model.retries,
        streaming=settings.model.stream,
    )
    name = name or settings.model.name
    sources: dict[str, Source] = {provider: ModelSource(provider, limits) for provider in MODELS.built_in}
    sources["cli"] = ProgramSource(limits, folder, os.path.join(folders.cache(), "headless"))
    if name and name.partition("/")[0] not in sources:  # those of other packages are used only if they are named
        sources |= {provider: ModelSource(provider, limits) for provider in MODELS.external}
    chosen = choose(name, sources)
    return MaskingModel(chosen) if settings.model.mask else chosen


class Source(Protocol):
    """The models of one provider."""

    @property
    def needs(self) -> str:
        """What to do if `here` returns nothing."""

    @property
    def library(self) -> str:
        """The required library that is not installed; empty if nothing is missing."""

    def here(self) -> str:
        """Return the default model of this provider; empty if the provider is not usable on this machine."""

    def make(self, name: str) -> ChatModel:
        """Return the model of that name."""


def choose(name: str, sources: Mapping[str, Source]) -> ChatModel:
    """Return the model `provider/name` or the default of `provider`; if `name` is empty, the first usable one."""
    name = name or _first_usable(sources)
    if not name:
        raise NoModel(SETUP_GUIDE.format(command=install_command("models")), kept="nothing was sent")
    provider, slash, model = name.partition("/")
    if provider not in sources:
        guess = f"did you mean openai/{name}? " if not slash else ""
        kinds = ", ".join(f"{kind}/…" for kind in sources)
        raise UsageError(f"unknown model {name!r}", kept="nothing was sent", hint=f"{guess}use one of {kinds}")
    source = sources[provider]
    model = model or source.here()
    if not model:
        raise NoModel(f"no {provider} model is usable here", kept="nothing was sent", hint=source.needs)
    if source.library:
        raise NoModel(
            f"{name} needs the library {source.library}, which is not installed",
            kept="nothing was sent",
            hint=install_hint("models"),
        )
    return source.make(model)


def _first_usable(sources: Mapping[str, Source]) -> str:
    """Return the first model that is usable on this machine; empty if there is none."""
    without_library = ""
    for kind, source in sources.items():
        if found := source.here():
            if not source.library:
                return f"{kind}/{found}"
            # A provider whose library is missing comes last: one further down may work right now.
            without_library = without_library or f"{kind}/{found}"
    return without_library


class ModelSource:
    """The models of one provider, whose module is imported on first use."""

    def __init__(self, provider: str, limits: ModelLimits) -> None:
        self._provider, self._limits = provider, limits

    @property
    def needs(self) -> str:
        """What to do if no model of this provider is usable here."""
        needs: str = self._module().NEEDS
        return needs

    @property
    def library(self) -> str:
        """The required library that is not installed; empty if nothing is missing."""
        name: str = self._module().LIBRARY
        try:
            return "" if not name or importlib.util.find_spec(name) else name
        except ImportError:  # the parent package is missing too
            return name

    def here(self) -> str:
        """Return the name of the model to use if none is named; empty if the provider is not set up."""
        found: str = self._module().here()
        return found

    def make(self, name: str) -> ChatModel:
        """Return the model of that name."""
        model: ChatModel = self._module().MODEL(name, self._limits)
        return model

    def _module(self) -> Any:
        return MODELS.load(self._provider)


class ProgramSource:
    """AI programs as models: `cli/claude`, `cli/claude/opus`."""

    library = ""  # none is needed

    def __init__(self, limits: ModelLimits, folder: str, scratch: str) -> None:
        self._limits, self._folder, self._scratch = limits, folder, scratch

    @property
    def needs(self) -> str:
        """What to do if no program is installed."""
        return f"install one of them ({', '.join(program.title for program in tools.headless())}) and sign in"

    def here(self) -> str:
        """Return the name of the first program that is installed; empty if none is."""
        return next((program.name for program in tools.headless() if program.program_path()), "")

    def make(self, name: str) -> ChatModel:
        """Return the model of that name; raise UsageError if its program is unknown."""
        program_name, _, model = name.partition("/")
        programs = {program.name: program for program in tools.headless()}
        if program_name not in programs:
            raise UsageError(f"unknown program cli/{program_name}", hint=f"use one of {', '.join(programs)}")
        return CliModel(programs[program_name], model, self._limits, folder=self._folder, scratch=self._scratch)


class MaskingModel:
    """A model that is never sent a secret: requests are masked, and a note tells the user once what was masked."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name, self.context, self.takes_tools = model.name, model.context, model.takes_tools
        # The messages of the last request, original and masked, so that each turn only scans the new ones.
        self._known: dict[str | int, tuple[Message, Message, list[Secret]]] = {}
        self._reported: set[tuple[str, str]] = set()

    def stream(self, request: Request) -> Iterator[Event]:
        """Ask, with the secrets of the request masked."""
        safe, findings = self._masked(request)
        new = [found for found in findings if (found.kind, found.mark) not in self._reported]
        self._reported.update((found.kind, found.mark) for found in new)
        # Started here and not in the generator, so that a cancel before the first event has an effect.
        events = self._model.stream(safe)
        return _with_note(masked_notice(new), events) if new else events

    def cancel(self) -> None:
        """Stop the request in progress."""
        self._model.cancel()

    def warm(self) -> None:
        """Import heavy libraries in advance."""
        self._model.warm()

    def _masked(self, request: Request) -> tuple[Request, list[Secret]]:
        known: dict[str | int, tuple[Message, Message, list[Secret]]] = {}
        findings: list[Secret] = []
        messages = []
        for message in request.messages:
            key = message.id or id(message)
            seen = self._known.get(key)
            if seen is None or seen[0] != message:
                seen = (message, *mask_message(message))
            known[key] = seen
            messages.append(seen[1])
            findings += seen[2]
        self._known = known
        system = mask(request.system)
        return msgspec.structs.replace(request, messages=messages, system=system.text), findings + system.findings


def masked_notice(findings: list[Secret]) -> str:
    """Return a line that says how many secrets of each kind were masked."""
    kinds = Counter(kind for kind, _ in {(found.kind, found.mark) for found in findings})
    listed = ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in sorted(kinds.items()))
    return f"masked before sending: {listed}"


def _with_note(text: str, events: Iterator[Event]) -> Iterator[Event]:
    try:
        yield AnswerNote(text)
        yield from events
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()
