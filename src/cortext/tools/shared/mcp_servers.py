"""Which MCP servers a tool's settings name. Only names are read; a file that cannot be read names none."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec

from cortext.io import files as fsio


def names_in(path: str, *keys: str) -> set[str]:
    """The names under these keys of a JSON or TOML settings file."""
    try:
        raw = fsio.read_file(path)
        value: Any = _toml(raw) if path.endswith(".toml") else msgspec.json.decode(raw)
    except (OSError, ValueError, RecursionError):
        return set()
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return set(value) if isinstance(value, dict) else set()


def _toml(raw: bytes) -> Any:
    return tomllib.loads(raw.decode("utf-8"))
