"""msgspec, imported in half the time: without what it loads for others, which comes when somebody asks for it.

Nothing of it is lost. Its parts that we do not use (schemas, TOML, YAML, MessagePack) are imported at their first use;
the rest is how it looks around: for a library that it can do without, for the name of the system, and for what an
older Python could do, by compiling a piece of Python, which costs 2 ms the first time.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PARTS = ("inspect", "msgpack", "toml", "yaml")
_SCHEMA = "msgspec._json_schema"


class Later(ModuleType):
    """Stands in for a module, and imports it when something in it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system asks of every module
            raise AttributeError(name)
        return getattr(_real(self.__name__), name)


def load() -> None:
    """Import msgspec; nothing where it is there already."""
    if "msgspec" in sys.modules:
        return
    import typing

    standing_in: dict[str, Any] = {}
    if "typing_extensions" not in sys.modules:
        standing_in["typing_extensions"] = None  # importing it then fails, and msgspec goes on without
    if "platform" not in sys.modules and "uuid" not in sys.modules:
        standing_in["platform"] = _platform()
    schema = Later(_SCHEMA)
    for name in ("schema", "schema_components"):
        setattr(schema, name, _called_later(name))
    sys.modules.update(standing_in)
    sys.modules.update({f"msgspec.{name}": Later(f"msgspec.{name}") for name in _PARTS})
    sys.modules[_SCHEMA] = schema
    forward_ref = typing.ForwardRef
    typing.ForwardRef = lambda *_, **__: None  # type: ignore[misc,assignment]  # only asked whether it takes a word
    try:
        import msgspec  # noqa: F401
    finally:
        typing.ForwardRef = forward_ref  # type: ignore[misc]
        for name in standing_in:
            del sys.modules[name]


def _real(name: str) -> Any:
    """The module itself, in place of what stands in for it."""
    if isinstance(sys.modules.get(name), Later):
        del sys.modules[name]
        __import__(name)
    return sys.modules[name]


def _called_later(name: str) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        return getattr(_real(_SCHEMA), name)(*given, **named)

    return called


def _platform() -> ModuleType:
    """All that uuid asks of the module of this name, which takes four times as long to import as uuid itself."""
    import os

    made = ModuleType("platform")
    made.system = lambda: os.uname().sysname  # type: ignore[attr-defined]
    return made
