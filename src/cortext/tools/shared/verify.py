"""What was written into a tool's store is read back before it counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from cortext.errors import DamagedData
from cortext.io import files as fsio
from cortext.model.message import Message
from cortext.model.turns import essence
from cortext.tools.base import Counts

T = TypeVar("T")


def same_message(want: Message, got: Message) -> bool:
    """Whether a message came back with its id (if it had one), its words and its calls, on the main thread."""
    in_place = (not want.id or want.id == got.id) and not got.parent and not got.aside
    return in_place and encode(essence(want)) == encode(essence(got))


def verify(title: str, expected: Sequence[T], found: Iterable[T], counts: Counts, same: Callable[[T, T], bool]) -> None:
    """Compare what was read back with what was written; DamagedData where it is not the same."""
    for number, (want, got) in enumerate(zip_longest(expected, found), 1):
        if want is None or got is None or not same(want, got):
            raise unfaithful(title, f"message {number} of {len(expected)} did not come back as it was")
    if counts.damaged or counts.unknown:
        raise unfaithful(title, f"it has records that cannot be read: {counts.damaged | counts.unknown}")


@contextmanager
def removed_unless_verified(path: str) -> Iterator[None]:
    """Remove a file that was just written where the check inside fails."""
    try:
        yield
    except BaseException:
        fsio.remove(path)
        raise


def unfaithful(title: str, what: str) -> DamagedData:
    """The error for a session that is not what it should be."""
    return DamagedData(
        f"the session for {title} was not read back as it was written: {what}",
        kept="the conversation, in our store; the new session was removed again",
        hint="resume with --print instead, and report this",
    )


def encode(value: Any) -> bytes:
    """A value as JSON. Tuples are lists there, and what is not a number is null."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair: legal in JSON as an escape only
        return json.dumps(value).encode("ascii")
