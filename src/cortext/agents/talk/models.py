"""Choosing a model by its name, and keeping secrets out of what it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from cortext.agents.llm.base import Event, Model, Note, Request
from cortext.distribution import install_command, install_hint
from cortext.errors import NoModel, UsageError
from cortext.model.message import Message
from cortext.safety.secrets.masking import Finding, mask
from cortext.services.text.masking import mask_message

SETUP_GUIDE = """\
No model is available yet. Set up any one of these:

  1. A key       export ANTHROPIC_API_KEY=…     (or OPENAI_API_KEY, or GEMINI_API_KEY)
  2. Ollama      run models on this machine, free and private: https://ollama.com/download
                 then, for example:  ollama pull qwen3
  3. An AI CLI   if Claude Code or another AI tool is installed and signed in, it is found automatically

The first two also need the client libraries:  {command}
To set a default, use CORTEXT_MODEL=provider/name, or `name` under [model] in the settings."""


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

    def make(self, name: str) -> Model:
        """Return the model of that name."""


def choose(name: str, sources: Mapping[str, Source]) -> Model:
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


class Masked:
    """A model that is never sent a secret: requests are masked, and a note tells the user once what was masked."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.context, self.takes_tools = model.name, model.context, model.takes_tools
        # The messages of the last request, original and masked, so that each turn only scans the new ones.
        self._known: dict[str | int, tuple[Message, Message, list[Finding]]] = {}
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


def masked_notice(findings: list[Finding]) -> str:
    """Return a line that says how many secrets of each kind were masked."""
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
