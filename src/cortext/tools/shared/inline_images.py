"""The images inside a transcript, found by the references that its adapter made: `KEY#RECORD/NUMBER`."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from cortext.tools.base import Counts, Transcript
from cortext.tools.shared.lines import ForeignLines


class Position(NamedTuple):
    """Where an image is: in which record, and what follows the record's id in the reference."""

    ref: str
    record: str
    rest: list[str]


Pick = Callable[[dict[str, Any], list[str]], str | None]  # the base64 of the image in a record


def positions(key: str, refs: AbstractSet[str]) -> list[Position]:
    """Return the references that point into the transcript with this key."""
    found = [ref.removeprefix(f"{key}#").split("/") for ref in sorted(refs) if ref.startswith(f"{key}#")]
    return [Position(f"{key}#{'/'.join(steps)}", steps[0], steps[1:]) for steps in found if steps[0] and steps[1:]]


def in_lines(transcript: Transcript, refs: AbstractSet[str], pick: Pick) -> dict[str, bytes]:
    """Return the images of a transcript of JSON Lines; only the lines of the wanted records are decoded."""
    targets = positions(transcript.key, refs)
    found: dict[str, bytes] = {}
    if not targets:
        return found
    for line in ForeignLines(transcript.path, 0, Counts()):
        for position in targets:
            if position.ref not in found and f'"{position.record}"'.encode() in line:
                for record in _objects(line):
                    if data := decoded(pick(record, position.rest) if position.record in _ids(record) else None):
                        found[position.ref] = data
    return found


def decoded(data: str | None) -> bytes:
    """Return the bytes of a base64 text, also of a `data:` URL; empty if it is not valid."""
    if not data:
        return b""
    try:
        return b64decode(data.partition("base64,")[2] if data.startswith("data:") else data, validate=True)
    except (binascii.Error, ValueError):
        return b""


def values_of(value: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects at any depth that have this field, in order."""
    if isinstance(value, dict):
        if name in value:
            yield value
        for inner in value.values():
            yield from values_of(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from values_of(inner, name)


def nth(images: Iterator[str], number: str) -> str | None:
    """Return the image of this number."""
    return next((image for index, image in enumerate(images) if str(index) == number), None)


def _objects(line: bytes) -> list[dict[str, Any]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [value] if isinstance(value, dict) else []


def _ids(record: dict[str, Any]) -> set[Any]:
    payload = record.get("payload")
    inner = payload if isinstance(payload, dict) else {}
    return {each for each in (record.get("id"), record.get("uuid"), inner.get("id")) if isinstance(each, str)}
