"""The model providers, and the choice of the model to use."""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cache
from types import ModuleType

from cortext.agents.assistant.backfill import Embedder
from cortext.agents.llm.base import Model
from cortext.agents.llm.connection import Limits
from cortext.agents.talk import models
from cortext.config import folders
from cortext.config.schema import Settings
from cortext.wiring.tools import ProgramSource

# The providers, in the order in which they are tried if none is named: name, module and class.
PROVIDERS = {
    "anthropic": ("anthropic_api", "AnthropicModel"),
    "openai": ("openai_api", "OpenAIModel"),
    "gemini": ("gemini_api", "GeminiModel"),
    "ollama": ("ollama_api", "OllamaModel"),
}


def choose_model(settings: Settings, folder: str, name: str = "") -> Model:
    """Return the model of that name, else the one in the settings, else the first that is usable here.

    `folder` is the working directory of an AI program that is used as a model (`cli/…`).
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
    """Return the embedding model for the assistant's messages: the built-in one, so that no text leaves the machine."""
    from cortext.index.search.embed import StaticModel

    return StaticModel()


class ModelSource:
    """The models of one provider, whose module is imported on first use."""

    def __init__(self, provider: str, limits: Limits) -> None:
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

    def make(self, name: str) -> Model:
        """Return the model of that name."""
        model: Model = getattr(self._module(), PROVIDERS[self._provider][1])(name, self._limits)
        return model

    def _module(self) -> ModuleType:
        return importlib.import_module(f"cortext.agents.llm.{PROVIDERS[self._provider][0]}")
