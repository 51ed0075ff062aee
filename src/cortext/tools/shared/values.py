"""Fields of records that other programs wrote: of any type, missing, or not where they are expected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args

import msgspec

from cortext.io import durable
from cortext.model.clock import from_epoch, normalise, to_epoch
from cortext.tools.shared.lines import value_of

# Times since 1970 as numbers: a value above one of these is in a smaller unit than seconds.
_UNITS = ((1e16, 1e9), (1e14, 1e6), (1e11, 1e3))

T = TypeVar("T", bound=msgspec.Struct)


def field(record: Any, *names: str) -> Any:
    """Return a field of a JSON object, or of an object in it; None if there is no such field."""
    for name in names:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def word(record: Any, *names: str) -> str:
    """Return a field that should be a string; empty if it is anything else."""
    found = field(record, *names)
    return found if isinstance(found, str) else ""


def objects(record: Any, *names: str) -> list[dict[str, Any]]:
    """Return the objects in a field that should be a list of them."""
    found = field(record, *names)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def count(record: Any, *names: str) -> int:
    """Return the sum of these fields; -1 if none of them is a number."""
    found = [number for name in names if isinstance(number := field(record, name), int)]
    return sum(found) if found else -1


def moment(value: Any) -> str:
    """Return a time as a timestamp: a text, or a number in any unit since 1970; empty if it is neither."""
    if isinstance(value, str):
        return normalise(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        return ""
    seconds = next((value / parts for least, parts in _UNITS if value > least), value)
    try:
        return normalise(from_epoch(seconds))
    except (OverflowError, ValueError, OSError):
        return ""


def milliseconds(value: Any) -> int:
    """Return the same time as milliseconds since 1970; 1 if it is unknown, because a fingerprint is never 0."""
    return max(1, round((to_epoch(moment(value)) or 0) * 1000))


def valid_fields(value: dict[str, Any], kind: type[T]) -> T:
    """Return a record with the fields that are valid: one invalid field must not cost the others."""
    valid = {}
    for field in msgspec.structs.fields(kind):
        item = value.get(field.encode_name)
        try:
            valid[field.name] = msgspec.convert(item, field.type, strict=False)
        except (msgspec.ValidationError, RecursionError):
            inner = next((part for part in (field.type, *get_args(field.type)) if _is_struct(part)), None)
            if inner is not None and isinstance(item, dict):
                valid[field.name] = valid_fields(item, inner)
    return kind(**{name: item for name, item in valid.items() if item is not None})


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


# ── documents that are read whole ──────────────────────────────────────────────────────────────────


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
