"""A backend to prove, and what the tests of the suite share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from cortext.model.message import Message
from cortext.store.base import Store
from cortext.store.capabilities import Annotates, Compacts

COMPACTS = "compacts"
ANNOTATES = "annotates"
ID = "sess_one"


@dataclass(frozen=True)
class Backend:
    """A store to prove: how to make it, how to look at the same data again, and what it cannot do."""

    name: str
    make: Callable[[Path], Store]
    reopen: Callable[[Store, Path], Store]
    lacks: frozenset[str] = frozenset()


class Everything(Store, Compacts, Annotates, Protocol):
    """A store with every capability, for the type checker."""


def plain(message: Message) -> dict[str, Any]:
    """A message by its values: a layout may add keys of its own to what it reads."""
    fields: dict[str, Any] = msgspec.to_builtins(message)
    return {name: fields[name] for name in fields if name in Message.__struct_fields__}


def plains(messages: Any) -> list[dict[str, Any]]:
    return [plain(message) for message in messages]


def talk(count: int, start: int = 0) -> list[Message]:
    return [
        Message(role="user" if number % 2 == 0 else "assistant", content=f"message {number}: {'wörds ' * number}")
        for number in range(start, start + count)
    ]


@pytest.fixture
def store(backend: Backend, tmp_path: Path) -> Store:
    return backend.make(tmp_path)


@pytest.fixture
def again(backend: Backend, store: Store, tmp_path: Path) -> Callable[[], Store]:
    """Another look at the same data, as another process has it."""
    return lambda: backend.reopen(store, tmp_path)
