"""Verifying a native session by reading it back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from cortext.errors import DamagedData
from cortext.io import durable
from cortext.model.message import Message
from cortext.model.turns import essence
from cortext.tools.base import Counts

T = TypeVar("T")


def same_message(want: Message, got: Message) -> bool:
    """Whether a message was read back with its id (if it had one), its text and its tool calls, on the main thread."""
    has_same_id = not want.id or want.id == got.id
    return has_same_id and not got.parent and not got.aside and encode(essence(want)) == encode(essence(got))


def verify(title: str, expected: Sequence[T], found: Iterable[T], counts: Counts, same: Callable[[T, T], bool]) -> None:
    """Raise DamagedData if what was read back is not what was written."""
    for number, (want, got) in enumerate(zip_longest(expected, found), 1):
        if want is None or got is None or not same(want, got):
            raise unfaithful(title, f"message {number} of {len(expected)} is different")
    if counts.damaged or counts.unknown:
        raise unfaithful(title, f"some records cannot be read: {counts.damaged | counts.unknown}")


@contextmanager
def removed_unless_verified(path: str) -> Iterator[None]:
    """Remove a file or folder that was just written if the verification inside fails."""
    try:
        yield
    except BaseException:
        if os.path.isdir(path):
            durable.remove_tree(path)
        else:
            durable.remove(path)
        raise


def unfaithful(title: str, difference: str) -> DamagedData:
    """Return the error for a native session that was not read back as it was written."""
    return DamagedData(
        f"the new session for {title} could not be verified: {difference}",
        kept="the conversation is unchanged; the new session was removed again",
        hint="resume with --print instead, and report this",
    )


def encode(value: Any) -> bytes:
    """Return a value as JSON, for comparison: tuples and lists are equal, and so are NaN and null."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can only represent as an escape
        return json.dumps(value).encode("ascii")
