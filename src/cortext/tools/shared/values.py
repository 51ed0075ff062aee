"""Fields of records that other programs wrote: of any type, missing, or not where they are expected."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import msgspec

from cortext.model.clock import from_epoch, normalise, to_epoch

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
