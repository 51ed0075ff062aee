"""Which model reads meaning: the built-in one, or another by setting. Vectors carry the name of theirs.

`built-in`                         our own static table
`openai/NAME` (or `openai/NAME@URL`)   an endpoint that speaks OpenAI's /embeddings
`sentence-transformers/NAME`       a model of that library, which is an extra to install
`none`                             keywords alone
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortext.errors import ConfigError
from cortext.index.search.state import State

if TYPE_CHECKING:
    from cortext.index.search.embed import Model

BUILT_IN = "built-in/static-256-1"


class Models:
    """The model that is wanted, and those that vectors are there for."""

    def __init__(self, setting: str, address: str = "") -> None:
        self.wanted = BUILT_IN if setting in ("", "built-in") else setting
        self._address = address
        self._made: dict[str, Model] = {}
        kind = self.wanted.partition("/")[0]
        if kind not in ("built-in", "openai", "sentence-transformers", "none"):
            raise ConfigError(
                f"search.model = {setting!r} is no model that reads meaning",
                hint="built-in, openai/NAME, sentence-transformers/NAME or none",
            )

    @property
    def none(self) -> bool:
        """Whether meaning is not read at all."""
        return self.wanted == "none"

    @property
    def quick(self) -> bool:
        """Whether a query may wait for vectors of the model that is wanted."""
        return self.wanted == BUILT_IN

    def usable(self, state: State) -> str:
        """The model whose vectors answer: the one that is wanted, or, until it has read everything, the one before."""
        if self.none:
            return ""
        there = state.models()
        others = [name for name in there if name != self.wanted and state.fact(f"seen {name}")]
        complete = bool(state.fact(f"seen {self.wanted}"))
        if self.wanted in there and (complete or not others):
            return self.wanted
        return others[0] if others else ""

    def model(self, name: str) -> Model:
        """A model by its name."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Model:
        kind, _, rest = name.partition("/")
        if name == BUILT_IN:
            from cortext.index.search.embed import StaticModel

            return StaticModel()
        if kind == "openai":
            from cortext.index.search.embed_remote import EndpointModel

            return EndpointModel(name, rest, self._address)
        if kind == "sentence-transformers":
            from cortext.index.search.embed_remote import TransformerModel

            return TransformerModel(name, rest)
        raise ConfigError(f"no model {name!r}", hint="see `search.model` in docs/search.md")
