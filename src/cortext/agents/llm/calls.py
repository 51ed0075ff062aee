"""Assembling tool calls that arrive in pieces: a call is returned complete or not at all."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec

from cortext.agents.llm.base import Call


class _Begun(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: str = ""
    given: dict[str, Any] | None = None


class Calls:
    """The calls of one answer, in the order in which they began."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names  # from the model's names of our tools to ours
        self._begun: list[_Begun] = []
        self._at: dict[Any, _Begun] = {}

    def add(self, index: Any, call_id: str, name: str, arguments: str | dict[str, Any]) -> None:
        """Add a piece of the call at an index. A new id at the same index is a new call: some servers count wrong."""
        call = self._at.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._at[index] = _Begun()
            self._begun.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        if isinstance(arguments, dict):
            call.given = arguments
        else:
            call.arguments += arguments

    def made(self) -> list[Call]:
        """Return all calls. One without an id gets one; `broken` holds arguments that are not a JSON object."""
        return [self._whole(call) for call in self._begun]

    def _whole(self, call: _Begun) -> Call:
        key = call.id or f"call_{os.urandom(8).hex()}"
        name = self._names.get(call.name, call.name)
        try:
            value = json.loads(call.arguments) if call.arguments.strip() else call.given or {}
        except (ValueError, RecursionError):
            value = None
        return Call(key, name, value) if isinstance(value, dict) else Call(key, name, {}, broken=call.arguments)
