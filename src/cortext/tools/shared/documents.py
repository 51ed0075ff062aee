"""JSON documents that are read whole, with a limit, and what can be read of a damaged one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from cortext.io import durable
from cortext.tools.shared.lines import value_of

LARGEST = 1 << 29  # bytes of a document that is read whole
_MOST_ATTEMPTS = 10_000  # at finding a record in a damaged document

Object = dict[str, Any]


def read_document(path: str, most: int = LARGEST) -> bytes:
    """Return the contents of a file; empty if it is missing, too large or not a file."""
    try:
        return durable.read_file(path, most)
    except OSError:
        return b""


def object_of(data: bytes | str) -> Object | None:
    """Return the JSON object in these bytes; None if there is none."""
    value = value_of(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
    return value if isinstance(value, dict) else None


def list_of(data: bytes | str) -> list[Any] | None:
    """Return the JSON list in these bytes; None if there is none."""
    value = value_of(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
    return value if isinstance(value, list) else None


def spans(text: str, is_record: Callable[[Object], bool]) -> Iterator[tuple[int, int, Object]]:
    """Yield the begin, the end and the value of every complete record in a damaged document, in order."""
    decoder = json.JSONDecoder(strict=False)
    position = attempts = 0
    while (position := text.find("{", position)) >= 0 and attempts < _MOST_ATTEMPTS:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            attempts += 1
            position += 1
            continue
        if is_record(value):
            yield position, end, value
            position = end
        else:
            position += 1  # it may contain records: the rest of the object around them is lost


def salvaged(data: bytes | str, is_record: Callable[[Object], bool]) -> Iterator[Object]:
    """Yield the complete records in a damaged document: a file that was cut loses only its last one."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    return (value for _, _, value in spans(text, is_record))
