"""A user's JSON file edited as text: what is not ours keeps every byte, whatever its formatting.

What `add` puts in, `remove` takes out again to the byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

Path = Sequence[str | int]
_decoder = json.JSONDecoder()
_space = re.compile(r"[ \t\n\r]*")


class _Member(NamedTuple):
    """A member of an object or an element of an array: where it begins, its value begins, and it ends."""

    key: str | int
    begin: int
    value: int
    end: int


class JsonText:
    """The text of a JSON document, and the value that it stands for. ValueError where it is not JSON."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.value: Any = json.loads(text)
        indent = re.match(r"\s*[{\[][ \t]*\r?\n([ \t]+)", text)
        self._unit = indent[1] if indent else "  "

    def get(self, path: Path) -> Any:
        """The value at a path; None where there is none."""
        value = self.value
        for key in path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def add(self, path: Path, key: str | None, value: Any) -> None:
        """Put a member at the end of the object at a path, or (without a key) an element of the array there."""
        start = self._start(path)
        members = self._members(start)
        rendered = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
        if members:
            indent = self._indent_of(members[-1].begin)
            addition = f",\n{indent}" if indent is not None else ", "
            rendered += self._render(value, indent if indent is not None else self._line_indent(start))
            self._change(members[-1].end, members[-1].end, addition + rendered)
        else:
            outer = self._line_indent(start)
            inner = outer + self._unit
            rendered += self._render(value, inner)
            self._change(start + 1, start + 1, f"\n{inner}{rendered}\n{outer}")

    def replace(self, path: Path, value: Any) -> None:
        """Put another value in the place of the one at a path."""
        member = self._find(path)
        self._change(member.value, member.end, self._render(value, self._line_indent(member.begin)))

    def remove(self, path: Path) -> None:
        """Take out the member or element at a path, with the comma that it needed."""
        *outer, key = path
        start = self._start(outer)
        members = self._members(start)
        place = next(place for place in reversed(range(len(members))) if members[place].key == key)
        member = members[place]
        if place > 0:
            self._change(members[place - 1].end, member.end, "")
        elif len(members) > 1:
            self._change(member.begin, members[1].begin, "")
        else:
            # Only what `add` put around it goes: white space that was there before stays.
            after = f"\n{self._line_indent(start)}"
            end = member.end + len(after) if self.text.startswith(after, member.end) else member.end
            self._change(start + 1, end, "")

    # ── where things are ─────────────────────────────────────────────────────────────────────────────

    def _start(self, path: Path) -> int:
        return self._find(path).value if path else self._skip(0)

    def _find(self, path: Path) -> _Member:
        member = _Member("", 0, self._skip(0), 0)
        for key in path:
            members = self._members(member.value)
            member = next(member for member in reversed(members) if member.key == key)
        return member

    def _members(self, start: int) -> list[_Member]:
        """The members of the container that begins here."""
        is_object = self.text[start] == "{"
        closing = "}" if is_object else "]"
        members: list[_Member] = []
        position = self._skip(start + 1)
        while self.text[position] != closing:
            begin = position
            key: str | int = len(members)
            if is_object:
                key, position = _decoder.raw_decode(self.text, position)
                position = self._skip(self._skip(position) + 1)
            _, end = _decoder.raw_decode(self.text, position)
            members.append(_Member(key, begin, position, end))
            position = self._skip(end)
            if self.text[position] == ",":
                position = self._skip(position + 1)
        return members

    def _skip(self, position: int) -> int:
        found = _space.match(self.text, position)
        return found.end() if found else position

    def _indent_of(self, position: int) -> str | None:
        """The white space before this place, if nothing else stands before it on its line."""
        before = self.text[self.text.rfind("\n", 0, position) + 1 : position]
        return before if not before.strip() and "\n" in self.text[:position] else None

    def _line_indent(self, position: int) -> str:
        """The white space at the beginning of the line of this place."""
        line = self.text[self.text.rfind("\n", 0, position) + 1 :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _render(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self._unit, ensure_ascii=False).split("\n")
        return f"\n{indent}".join(lines)

    def _change(self, begin: int, end: int, text: str) -> None:
        self.text = self.text[:begin] + text + self.text[end:]
        self.value = json.loads(self.text)
