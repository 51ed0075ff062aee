"""Which embedding model is used: the built-in one, or another by setting. Vectors are stored under their model's name.

`built-in`                         our own static table
`openai/NAME` (or `openai/NAME@URL`)   an OpenAI-compatible /embeddings endpoint
`sentence-transformers/NAME`       a model of that library, an optional dependency
`none`                             keywords only
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortext.errors import ConfigError
from cortext.index.search.state import IndexState

if TYPE_CHECKING:
    from cortext.index.search.embed import Model, StaticModel

BUILT_IN = "built-in/static-256-2"


class Models:
    """The configured model, and the ones that vectors exist for."""

    def __init__(self, setting: str, address: str = "") -> None:
        self.wanted = BUILT_IN if setting in ("", "built-in") else setting
        self._address = address
        self._made: dict[str, Model] = {}
        kind = self.wanted.partition("/")[0]
        if kind not in ("built-in", "openai", "sentence-transformers", "none"):
            raise ConfigError(
                f"unknown search.model {setting!r}",
                hint="use built-in, openai/NAME, sentence-transformers/NAME or none",
            )

    @property
    def none(self) -> bool:
        """Whether search by meaning is switched off."""
        return self.wanted == "none"

    @property
    def quick(self) -> bool:
        """Whether the configured model is fast enough for a query to wait for its vectors."""
        return self.wanted == BUILT_IN

    def usable(self, state: IndexState) -> str:
        """Return the model whose vectors are used: the configured one or, until it is complete, the previous one."""
        if self.none:
            return ""
        # The table of an older version is gone: its vectors cannot be compared with a query any more.
        available = [name for name in state.models() if name == BUILT_IN or not name.startswith("built-in/")]
        others = [name for name in available if name != self.wanted and state.fact(f"seen {name}")]
        complete = bool(state.fact(f"seen {self.wanted}"))
        if self.wanted in available and (complete or not others):
            return self.wanted
        return others[0] if others else ""

    def model(self, name: str) -> Model:
        """Return a model by name."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def static(self) -> StaticModel:
        """Return the built-in table, which late interaction uses whichever model made the vectors."""
        from cortext.index.search.embed import StaticModel

        model = self.model(BUILT_IN)
        assert isinstance(model, StaticModel)
        return model

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
        raise ConfigError(f"unknown model {name!r}", hint="see `search.model` in docs/search.md")
