"""JSON with comments, read leniently and edited as text.

The config files of the AI tools belong to the user, so an edit changes only the bytes of the edited value: comments,
indentation, line endings and number formats elsewhere stay as they are. Removing a value that `set` or `append` added
restores the original text, except for containers that `set` had to create: the caller removes those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.io import durable

Path = Sequence[str | int]

# A line comment ends before its line break, so that a member can be inserted after it.
_COMMENT = re.compile(r"//(?:[^\r\n]|\r(?!\n))*|/\*.*?\*/", re.DOTALL)
_BLANK = re.compile(rf"(?:[ \t\r\n]+|{_COMMENT.pattern})*", re.DOTALL)
_COMMENTS_ON_LINE = re.compile(rf"(?:[ \t]*(?:{_COMMENT.pattern}))*", re.DOTALL)
_LINE_BREAK = re.compile(r"[ \t]*\r?\n")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_ATOM = re.compile(r"[^\s,:\[\]{}\"/]+")


class JsonError(ValueError):
    """The text is not JSON, or does not have the structure that an edit needs."""


def parse(text: str) -> Any:
    """Return the value of a JSON text, which may have comments, trailing commas and a byte order mark.

    Raise JsonError if it is invalid.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    except ValueError:
        return JsonText(text).value


def read_object(path: str) -> dict[str, Any]:
    """Return the object in a config file; an empty one if the file is missing or invalid."""
    try:
        value = parse(durable.read_text(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


class _Member(msgspec.Struct):
    """A member of an object or an item of an array: its offset, its value, and the offset of its comma (or -1)."""

    key: str | int
    begin: int
    value: _Node
    comma: int = -1


class _Node(msgspec.Struct):
    """A value, and its start and end in the text."""

    value: Any
    begin: int
    end: int
    members: list[_Member] = []

    def find(self, key: str | int) -> _Member | None:
        found = [member for member in self.members if member.key == key]
        if len(found) > 1:
            raise JsonError(f'"{key}" occurs twice')
        return found[0] if found else None


class JsonText:
    """An editable JSON text. `comments` and `trailing_commas` say what is allowed beyond plain JSON."""

    def __init__(self, text: str, *, comments: bool = True, trailing_commas: bool = True) -> None:
        self.text = text
        self._comments = comments
        self._trailing_commas = trailing_commas
        self._root = self._parse()

    @property
    def value(self) -> Any:
        """The value of the whole text."""
        return self._root.value

    def get(self, path: Path) -> Any:
        """Return the value at a path; None if there is none."""
        value = self.value
        for key in path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def set(self, path: Path, value: Any) -> None:
        """Set the value at a path; create the objects that are missing on the way."""
        holder = self._root
        for depth, key in enumerate(path):
            if not isinstance(holder.value, dict if isinstance(key, str) else list):
                raise _wrong_kind(path[:depth], "an object" if isinstance(key, str) else "a list")
            member = holder.find(key)
            if member is None:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                self._insert(holder, key, value)
                return
            holder = member.value
        if holder.value != value or type(holder.value) is not type(value):
            indent = self._line_indent(holder.begin)
            self._splice((holder.begin, holder.end, self._format(value, indent)))

    def append(self, path: Path, value: Any) -> None:
        """Append a value to the list at a path; create the list if it is missing."""
        items = self.get(path)
        if items is None:
            self.set(path, [value])
        elif isinstance(items, list):
            self._insert(self._node(path), len(items), value)
        else:
            raise _wrong_kind(path, "a list")

    def remove(self, path: Path) -> None:
        """Remove the member or item at a path with one comma; do nothing if there is none."""
        holder = self._node(path[:-1]) if self.get(path[:-1]) is not None else None
        member = holder.find(path[-1]) if holder else None
        if holder is None or member is None:
            return
        number = holder.members.index(member)
        before = holder.members[number - 1] if number else None
        end = member.comma + 1 or member.value.end
        if before is None and len(holder.members) > 1:
            while self.text[end] in " \t\r\n":
                end += 1
            self._splice((member.begin, end, ""))
            return
        closing = self._newline + self._line_indent(holder.begin)
        if before is None and self.text.startswith(closing, end):
            end += len(closing)
        begin = self._after_comments(before.comma + 1 if before else holder.begin + 1, member.begin, end)
        # The comma before the member is removed only if there is none after it.
        comma = [(before.comma, before.comma + 1, "")] if before and member.comma < 0 else []
        self._splice(*comma, (begin, end, ""))

    # ── the text ─────────────────────────────────────────────────────────────────────────────────────

    def _node(self, path: Path) -> _Node:
        node = self._root
        for key in path:
            member = node.find(key)
            if member is None:
                raise JsonError(f"there is no {_dotted(path)}")
            node = member.value
        return node

    def _insert(self, holder: _Node, key: str | int, value: Any) -> None:
        name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
        if not holder.members:
            # Before any comments between the brackets, where `remove` expects the white space that is added here.
            outer = self._line_indent(holder.begin)
            inner = outer + self._unit
            added = f"{self._newline}{inner}{name}{self._format(value, inner)}{self._newline}{outer}"
            self._splice((holder.begin + 1, holder.begin + 1, added))
            return
        last = holder.members[-1]
        line = self.text[self.text.rfind("\n", 0, last.begin) + 1 : last.begin]
        end = last.comma + 1 or last.value.end
        if line.strip():
            added = f" {name}{json.dumps(value, ensure_ascii=False)}"
        else:
            added = f"{self._newline}{line}{name}{self._format(value, line)}"
            comments = _COMMENTS_ON_LINE.match(self.text, end)
            end = comments.end() if comments else end
        if last.comma >= 0:
            self._splice((end, end, f"{added},"))
        else:
            self._splice((last.value.end, last.value.end, ","), (end, end, added))

    def _after_comments(self, begin: int, member: int, end: int) -> int:
        """Return where the white space before a member starts; a line comment keeps the line break that ends it."""
        for comment in _COMMENT.finditer(self.text, begin, member):
            begin = comment.end()
            if comment[0].startswith("//") and not _LINE_BREAK.match(self.text, end):
                begin = self.text.index("\n", begin) + 1
        return begin

    def _format(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, ensure_ascii=False, indent=self._unit).split("\n")
        return f"{self._newline}{indent}".join(lines)

    @property
    def _newline(self) -> str:
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"

    @property
    def _unit(self) -> str:
        """One step of indentation."""
        members = self._root.members
        line = self.text[self.text.rfind("\n", 0, members[0].begin) + 1 : members[0].begin] if members else ""
        return line if line and not line.strip(" \t") else "  "

    def _line_indent(self, position: int) -> str:
        """Return the white space at the start of the line that contains this position."""
        line = self.text[self.text.rfind("\n", 0, position) + 1 : position]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _splice(self, *changes: tuple[int, int, str]) -> None:
        """Replace spans (start, end, new text), which are in the order of the text."""
        for begin, end, text in reversed(changes):
            self.text = self.text[:begin] + text + self.text[end:]
        self._root = self._parse()

    # ── parsing ──────────────────────────────────────────────────────────────────────────────────────

    def _parse(self) -> _Node:
        try:
            node = self._value(self._skip(1 if self.text.startswith("\ufeff") else 0))
        except RecursionError:
            raise JsonError("it is nested too deeply") from None
        end = self._skip(node.end)
        if end != len(self.text):
            raise self._error("unexpected text after the end", end)
        return node

    def _skip(self, position: int) -> int:
        match = _BLANK.match(self.text, position)
        end = match.end() if match else position
        if not self._comments and (comment := _COMMENT.search(self.text, position, end)):
            raise self._error("a comment, in a file that must be plain JSON", comment.start())
        return end

    def _value(self, begin: int) -> _Node:
        opening = self.text[begin : begin + 1]
        if opening in ("{", "["):
            return self._container(begin, "}" if opening == "{" else "]")
        match = (_STRING if opening == '"' else _ATOM).match(self.text, begin)
        if match is None:
            raise self._error("a value is missing", begin)
        try:
            return _Node(json.loads(match[0]), begin, match.end())
        except ValueError:
            raise self._error(f"{match[0][:40]!a} is not a JSON value", begin) from None

    def _container(self, begin: int, closing: str) -> _Node:
        members: list[_Member] = []
        end = self._skip(begin + 1)
        while self.text[end : end + 1] != closing:
            if members and members[-1].comma < 0:
                raise self._error(f"a comma or {closing!r} is missing", end)
            member = self._member(end) if closing == "}" else _Member(len(members), end, self._value(end))
            members.append(member)
            end = self._skip(member.value.end)
            if self.text[end : end + 1] == ",":
                member.comma = end
                end = self._skip(end + 1)
        if members and members[-1].comma >= 0 and not self._trailing_commas:
            raise self._error("a trailing comma", members[-1].comma)
        values = ((member.key, member.value.value) for member in members)
        return _Node(dict(values) if closing == "}" else [value for _, value in values], begin, end + 1, members)

    def _member(self, begin: int) -> _Member:
        name = self._value(begin)
        if not isinstance(name.value, str):
            raise self._error("a name is missing", begin)
        colon = self._skip(name.end)
        if self.text[colon : colon + 1] != ":":
            raise self._error("a colon is missing", colon)
        return _Member(name.value, begin, self._value(self._skip(colon + 1)))

    def _error(self, what: str, position: int) -> JsonError:
        return JsonError(f"line {self.text.count(chr(10), 0, position) + 1}: {what}")


def _wrong_kind(path: Path, kind: str) -> JsonError:
    return JsonError(f"{_dotted(path) or 'it'} is not {kind}")


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))
