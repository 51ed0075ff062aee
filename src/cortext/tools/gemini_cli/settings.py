"""Editing a settings file that belongs to the user: only what we add or take out changes, to the byte.

Gemini CLI allows comments in its JSON, and so do we: the text is never written anew, pieces are put into it and taken
out of it. Indentation follows the file. What was put in at the end of an object or list comes out without a trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from cortext.errors import ConfigError

_SKIP = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ATOM = re.compile(r"[^\s,\]}/]+")
Step = str | int


class Node:
    """A value and where it stands in the text; `names` are the places of its keys, in an object."""

    def __init__(self, value: Any, start: int, end: int) -> None:
        self.value, self.start, self.end = value, start, end
        self.children: dict[Step, Node] = {}
        self.names: dict[Step, int] = {}


class SettingsText:
    """The text of a settings file; `path` names it in errors."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path
        self.root = self._parse()

    @property
    def value(self) -> Any:
        """What the file says."""
        return self.root.value

    def get(self, *steps: Step) -> Any:
        """The value at a place; None where there is none."""
        node = self._node(steps)
        return node.value if node else None

    def has(self, *steps: Step) -> bool:
        """Whether there is something at a place."""
        return self._node(steps) is not None

    def set(self, steps: tuple[str, ...], value: Any) -> list[tuple[str, ...]]:
        """Put a value at a place; the places that had to be made for it, outermost first."""
        for length in range(1, len(steps)):
            if not self.has(*steps[:length]):
                inner: Any = value
                for step in reversed(steps[length:]):
                    inner = {step: inner}
                self._insert(self._object(steps[: length - 1]), steps[length - 1], inner)
                return [steps[:size] for size in range(length, len(steps) + 1)]
        holder = self._object(steps[:-1])
        old = holder.children.get(steps[-1])
        if old is None:
            self._insert(holder, steps[-1], value)
            return [steps]
        if old.value != value:
            self._splice(old.start, old.end, self._format(value, old.start))
        return []

    def append(self, steps: tuple[str, ...], value: Any) -> list[tuple[str, ...]]:
        """Put a value at the end of a list; the places that had to be made for it."""
        if not self.has(*steps):
            return self.set(steps, [value])
        node = self._node(steps)
        if node is None or not isinstance(node.value, list):
            raise self._wrong(f"{'.'.join(steps)} is not a list")
        self._insert(node, None, value)
        return []

    def remove(self, *steps: Step) -> None:
        """Take out what is at a place, with its comma."""
        holder, node = self._node(steps[:-1]), self._node(steps)
        if holder is None or node is None:
            return
        keys = list(holder.children)
        place = keys.index(steps[-1])
        if place:
            self._splice(holder.children[keys[place - 1]].end, node.end, "")
        elif len(keys) > 1:
            self._splice(self._begin(holder, keys[0]), self._begin(holder, keys[1]), "")
        else:
            self._splice(holder.start + 1, holder.end - 1, "")

    def remove_items(self, steps: tuple[str, ...], ours: Callable[[Any], bool]) -> int:
        """Take the entries out of a list that a test picks; how many."""
        entries = self.get(*steps)
        places = [place for place, entry in enumerate(entries) if ours(entry)] if isinstance(entries, list) else []
        for place in reversed(places):
            self.remove(*steps, place)
        return len(places)

    # ── the text ─────────────────────────────────────────────────────────────────────────────────────

    def _node(self, steps: tuple[Step, ...]) -> Node | None:
        node: Node | None = self.root
        for step in steps:
            node = node.children.get(step) if node else None
        return node

    def _object(self, steps: tuple[str, ...]) -> Node:
        node = self._node(steps)
        if node is None or not isinstance(node.value, dict):
            raise self._wrong(f"{'.'.join(steps) or 'the file'} is not an object")
        return node

    @staticmethod
    def _begin(holder: Node, key: Step) -> int:
        return holder.names.get(key, holder.children[key].start)

    def _insert(self, holder: Node, key: str | None, value: Any) -> None:
        name = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
        children = list(holder.children.values())
        inner = self.text[holder.start : holder.end]
        if children and "\n" not in inner:
            text = json.dumps(value, ensure_ascii=False)
            self._splice(children[-1].end, children[-1].end, f", {name}{text}")
            return
        if children:
            indent = self._indent_at(self._begin(holder, next(iter(holder.children))))
            body = f"{indent}{name}{self._format(value, indent=indent)}"
            self._splice(children[-1].end, children[-1].end, f",\n{body}")
            return
        outer = self._indent_at(holder.start)
        indent = outer + self._unit()
        body = f"{indent}{name}{self._format(value, indent=indent)}"
        self._splice(holder.start + 1, holder.end - 1, f"\n{body}\n{outer}")

    def _format(self, value: Any, place: int = 0, indent: str | None = None) -> str:
        """A value as text, indented as deep as the place where it goes."""
        if indent is None:
            indent = self._indent_at(place)
        return json.dumps(value, ensure_ascii=False, indent=self._unit()).replace("\n", f"\n{indent}")

    def _indent_at(self, place: int) -> str:
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _unit(self) -> str:
        """One step of indentation, as the file has it."""
        first = next(iter(self.root.names.values()), None)
        found = self._indent_at(first) if first is not None else ""
        return found or "  "

    def _splice(self, start: int, end: int, text: str) -> None:
        self.text = self.text[:start] + text + self.text[end:]
        self.root = self._parse()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def _parse(self) -> Node:
        try:
            node = self._value(self._skip(0))
        except RecursionError:
            raise self._wrong("it is nested too deeply") from None
        if self._skip(node.end) != len(self.text):
            raise self._wrong("something stands behind its end")
        return node

    def _skip(self, place: int) -> int:
        match = _SKIP.match(self.text, place)
        return match.end() if match else place

    def _value(self, place: int) -> Node:
        sign = self.text[place : place + 1]
        if sign == "{":
            return self._members(place)
        if sign == "[":
            return self._items(place)
        match = (_STRING if sign == '"' else _ATOM).match(self.text, place)
        try:
            return Node(json.loads(match[0] if match else ""), place, match.end() if match else place)
        except ValueError as error:
            raise self._wrong(f"{error.__class__.__name__} in line {self.text.count(chr(10), 0, place) + 1}") from error

    def _members(self, start: int) -> Node:
        node = Node({}, start, start)
        place = self._skip(start + 1)
        while self.text[place : place + 1] != "}":
            if node.children:
                place = self._expect(",", place)
            key = self._value(place)
            if not isinstance(key.value, str):
                raise self._wrong(f"line {self.text.count(chr(10), 0, place) + 1} has no name")
            child = self._value(self._expect(":", self._skip(key.end)))
            node.children[key.value], node.names[key.value] = child, key.start
            node.value[key.value] = child.value
            place = self._skip(child.end)
        node.end = place + 1
        return node

    def _items(self, start: int) -> Node:
        node = Node([], start, start)
        place = self._skip(start + 1)
        while self.text[place : place + 1] != "]":
            if node.children:
                place = self._expect(",", place)
            child = self._value(place)
            node.children[len(node.value)] = child
            node.value.append(child.value)
            place = self._skip(child.end)
        node.end = place + 1
        return node

    def _expect(self, sign: str, place: int) -> int:
        if self.text[place : place + 1] != sign:
            line = self.text.count("\n", 0, place) + 1
            raise self._wrong(f"line {line} should have a {sign!r}")
        return self._skip(place + 1)

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self.path} cannot be used: {what}", kept="it is unchanged", hint="mend the file, then try again"
        )
