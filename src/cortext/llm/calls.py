"""Tool calls that come in pieces, put together: a call is handed out whole or not at all."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec

from cortext.llm.base import Call


class _Begun(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: str = ""
    given: dict[str, Any] | None = None


class Calls:
    """The calls of one answer, in the order in which they began."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names  # the model's names of our tools, and ours
        self._begun: list[_Begun] = []
        self._at: dict[Any, _Begun] = {}

    def add(self, place: Any, call_id: str, name: str, arguments: str | dict[str, Any]) -> None:
        """A piece of the call at that place. Another id at the same place is another call: some servers count badly."""
        call = self._at.get(place)
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._at[place] = _Begun()
            self._begun.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        if isinstance(arguments, dict):
            call.given = arguments
        else:
            call.arguments += arguments

    def made(self) -> list[Call]:
        """All of them. One without an id gets one; `broken` has what is no JSON object."""
        return [self._whole(call) for call in self._begun]

    def _whole(self, call: _Begun) -> Call:
        key = call.id or f"call_{os.urandom(8).hex()}"
        name = self._names.get(call.name, call.name)
        try:
            value = json.loads(call.arguments) if call.arguments.strip() else call.given or {}
        except (ValueError, RecursionError):
            value = None
        return Call(key, name, value) if isinstance(value, dict) else Call(key, name, {}, broken=call.arguments)
