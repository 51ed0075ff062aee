"""A backend under test, and what the tests of the suite share."""

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
    """A store under test: how to create it, how to open the same data again, and the capabilities it lacks."""

    name: str
    make: Callable[[Path], Store]
    reopen: Callable[[Store, Path], Store]
    lacks: frozenset[str] = frozenset()


class FullStore(Store, Compacts, Annotates, Protocol):
    """A store with every capability, for the type checker."""


def fields_of(message: Message) -> dict[str, Any]:
    """Return the fields of a message, without those that a layout adds."""
    fields: dict[str, Any] = msgspec.to_builtins(message)
    return {name: fields[name] for name in fields if name in Message.__struct_fields__}


def fields_of_each(messages: Any) -> list[dict[str, Any]]:
    return [fields_of(message) for message in messages]


def sample_messages(count: int, start: int = 0) -> list[Message]:
    return [
        Message(role="user" if number % 2 == 0 else "assistant", content=f"message {number}: {'wörds ' * number}")
        for number in range(start, start + count)
    ]


@pytest.fixture
def store(backend: Backend, tmp_path: Path) -> Store:
    return backend.make(tmp_path)


@pytest.fixture
def reopen(backend: Backend, store: Store, tmp_path: Path) -> Callable[[], Store]:
    """A function that opens the same data again, as another process does."""
    return lambda: backend.reopen(store, tmp_path)
