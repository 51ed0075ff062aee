"""Choosing a model by its name, and keeping secrets out of what it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from cortext.errors import DISTRIBUTION, NoModel, UsageError, install_hint
from cortext.llm.base import Event, Model, Note, Request
from cortext.model.message import Message
from cortext.safety.secrets.masking import Finding, mask
from cortext.services.text.masking import mask_message

WAYS = f"""\
No model is at hand yet. There are three ways to get going, any one of them is enough:

  1. A key       export ANTHROPIC_API_KEY=…     (or OPENAI_API_KEY, or GEMINI_API_KEY)
  2. Ollama      run models on this machine, free and private: https://ollama.com/download
                 then, for example:  ollama pull qwen3
  3. An AI CLI   if Claude Code or another AI tool is installed and signed in, it is found by itself

The first two need the client libraries too:  pip install '{DISTRIBUTION}[models]'
Choose one for good with CORTEXT_MODEL=provider/name, or `name` under [model] in the settings."""


class Source(Protocol):
    """Where models of one provider come from."""

    @property
    def needs(self) -> str:
        """What is missing where `here` is empty."""

    @property
    def library(self) -> str:
        """The library that it needs and that is not installed; empty where nothing is missing."""

    def here(self) -> str:
        """The model to use where none is named; empty where this provider is not usable here."""

    def make(self, name: str) -> Model:
        """The model of that name."""


def choose(name: str, sources: Mapping[str, Source]) -> Model:
    """The model of that name (`provider/name`, or just `provider`); with none the first that is usable here."""
    name = name or _first(sources)
    if not name:
        raise NoModel(WAYS, kept="nothing was sent")
    provider, slash, own = name.partition("/")
    if provider not in sources:
        guess = f"did you mean openai/{name}? " if not slash else ""
        kinds = ", ".join(f"{kind}/…" for kind in sources)
        raise UsageError(f"unknown model {name!r}", kept="nothing was sent", hint=f"{guess}known are {kinds}")
    source = sources[provider]
    own = own or source.here()
    if not own:
        raise NoModel(f"no {provider} model is usable here", kept="nothing was sent", hint=source.needs)
    if source.library:
        raise NoModel(
            f"{name} needs the library {source.library}, which is not installed",
            kept="nothing was sent",
            hint=install_hint("models"),
        )
    return source.make(own)


def _first(sources: Mapping[str, Source]) -> str:
    """The first model that is usable here; empty where there is none."""
    without_library = ""
    for kind, source in sources.items():
        if found := source.here():
            if not source.library:
                return f"{kind}/{found}"
            # A key without the library to use it is worth less than a program that is there.
            without_library = without_library or f"{kind}/{found}"
    return without_library


class Masked:
    """A model that never sees a secret: what is sent is masked, and the user is told once what was."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.context, self.takes_tools = model.name, model.context, model.takes_tools
        # The messages of the last request, as they were and as they were sent: a long talk is not read anew each turn.
        self._known: dict[str | int, tuple[Message, Message, list[Finding]]] = {}
        self._told: set[tuple[str, str]] = set()

    def stream(self, request: Request) -> Iterator[Event]:
        """Ask, without the secrets."""
        safe, findings = self._masked(request)
        news = [found for found in findings if (found.kind, found.mark) not in self._told]
        self._told.update((found.kind, found.mark) for found in news)
        # Begun here and not in the generator: a cancel that comes before the first event must count.
        events = self._model.stream(safe)
        return _with_note(told(news), events) if news else events

    def cancel(self) -> None:
        """Stop what is under way."""
        self._model.cancel()

    def warm(self) -> None:
        """Import what is heavy now."""
        self._model.warm()

    def _masked(self, request: Request) -> tuple[Request, list[Finding]]:
        known: dict[str | int, tuple[Message, Message, list[Finding]]] = {}
        findings: list[Finding] = []
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


def told(findings: list[Finding]) -> str:
    """What was masked, in one line: kinds and how many of each."""
    kinds = Counter(kind for kind, _ in {(found.kind, found.mark) for found in findings})
    listed = ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in sorted(kinds.items()))
    return f"masked before sending: {listed}"


def _with_note(text: str, events: Iterator[Event]) -> Iterator[Event]:
    try:
        yield Note(text)
        yield from events
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()
