"""The models: the providers that there are, and the one that is asked."""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cache
from types import ModuleType

from cortext.config import folders
from cortext.config.schema import Settings
from cortext.llm.base import Model
from cortext.llm.connection import Limits
from cortext.services.assistant.backfill import Embedder
from cortext.services.talk import models
from cortext.wiring.tools import ProgramSource

# The providers, in the order in which they are tried if none is named: name, module and class.
PROVIDERS = {
    "anthropic": ("anthropic_api", "AnthropicModel"),
    "openai": ("openai_api", "OpenAIModel"),
    "gemini": ("gemini_api", "GeminiModel"),
    "ollama": ("ollama_api", "OllamaModel"),
}


def choose_model(settings: Settings, folder: str, name: str = "") -> Model:
    """The model of that name; else the one of the settings; else the first that is usable here.

    `folder` is where an AI program that answers for its models is started.
    """
    limits = Limits(
        connect=settings.model.connect_seconds,
        silence=settings.model.silence_seconds,
        retries=settings.model.retries,
        streaming=settings.model.stream,
    )
    sources: dict[str, models.Source] = {provider: ModelSource(provider, limits) for provider in PROVIDERS}
    sources["cli"] = ProgramSource(limits, folder, os.path.join(folders.cache(), "headless"))
    chosen = models.choose(name or settings.model.name, sources)
    return models.Masked(chosen) if settings.model.mask else chosen


@cache
def embedder() -> Embedder:
    """What makes vectors of the assistant's messages: our own table, so that nothing leaves the machine."""
    from cortext.index.search.embed import StaticModel

    return StaticModel()


class ModelSource:
    """The models of one provider; its module is imported when it is asked for something."""

    def __init__(self, provider: str, limits: Limits) -> None:
        self._provider, self._limits = provider, limits

    @property
    def needs(self) -> str:
        """What is missing if none is usable here."""
        needs: str = self._module().NEEDS
        return needs

    @property
    def library(self) -> str:
        """The library that it needs and that is not installed."""
        name: str = self._module().LIBRARY
        try:
            return "" if not name or importlib.util.find_spec(name) else name
        except ImportError:  # not even the package that it is part of
            return name

    def here(self) -> str:
        """The model to use if none is named."""
        found: str = self._module().here()
        return found

    def make(self, name: str) -> Model:
        """The model of that name."""
        made: Model = getattr(self._module(), PROVIDERS[self._provider][1])(name, self._limits)
        return made

    def _module(self) -> ModuleType:
        return importlib.import_module(f"cortext.llm.{PROVIDERS[self._provider][0]}")
