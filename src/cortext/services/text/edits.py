"""What an edit changed, in any tool: the calls name it differently, but it is an old and a new text, or a patch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, NamedTuple

from cortext.model.message import Part

ADDED, REMOVED, SAME, SKIPPED = "+", "-", " ", "…"
CONTEXT = 3  # unchanged lines around a change
MOST_LINES = 4_000  # of either text; longer ones are shown as removed and added

_OLD = ("old_string", "oldString", "old_str", "oldText", "old_text")
_NEW = ("new_string", "newString", "new_str", "newText", "new_text")
_WHOLE = ("content", "file_text", "contents")
_PATHS = ("file_path", "filePath", "absolute_path", "target_file", "path", "filename", "file", "notebook_path")
_PATCHES = ("patch", "patchText", "input", "diff")
_WRITES = re.compile(r"write|create", re.IGNORECASE)
_HEADER = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\+\+\+ (?:b/)?(.+)$")


class DiffLine(NamedTuple):
    """A line of a diff; `sign` says whether it was added, removed, kept, or stands for lines that are left out."""

    sign: str
    text: str


class FileDiff(NamedTuple):
    """The changes to one file."""

    path: str
    lines: list[DiffLine]

    @property
    def added(self) -> int:
        """How many lines were added."""
        return sum(line.sign == ADDED for line in self.lines)

    @property
    def removed(self) -> int:
        """How many lines were removed."""
        return sum(line.sign == REMOVED for line in self.lines)


def edits_of(call: Part) -> list[FileDiff]:
    """Return the edits that a tool call made; empty if it is not an edit."""
    if isinstance(call.input, str):
        return list(_patched(call.input))
    if not isinstance(call.input, dict):
        return []
    fields: Mapping[str, Any] = call.input
    path = _text(fields, _PATHS)
    several = fields.get("edits")
    found = [_edit(path, each) for each in several if isinstance(each, dict)] if isinstance(several, list) else []
    if not any(found):
        found = [_edit(path, fields)]
    if edits := [edit for edit in found if edit is not None]:
        return edits
    for name in _PATCHES:
        if isinstance(patch := fields.get(name), str) and (edits := list(_patched(patch))):
            return edits
    whole = _text(fields, _WHOLE)
    if path and whole and (_WRITES.search(call.name) or fields.get("command") == "create"):
        return [FileDiff(path, [DiffLine(ADDED, text) for text in whole.splitlines()])]
    return []


def _edit(path: str, fields: Mapping[str, Any]) -> FileDiff | None:
    if not any(name in fields for name in _OLD) or not any(name in fields for name in _NEW):
        return None
    return FileDiff(_text(fields, _PATHS) or path, difference(_text(fields, _OLD), _text(fields, _NEW)))


def _text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), "")


def difference(old: str, new: str) -> list[DiffLine]:
    """Return the lines of both texts as a diff."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MOST_LINES:
        return [*(DiffLine(REMOVED, text) for text in before), *(DiffLine(ADDED, text) for text in after)]
    lines: list[DiffLine] = []
    groups = list(SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(CONTEXT))
    for group, following in pairwise([*groups, None]):
        for kind, start, end, new_start, new_end in group or ():
            if kind == "equal":
                lines += [DiffLine(SAME, text) for text in before[start:end]]
                continue
            lines += [DiffLine(REMOVED, text) for text in before[start:end]]
            lines += [DiffLine(ADDED, text) for text in after[new_start:new_end]]
        if following is not None:
            lines.append(DiffLine(SKIPPED, ""))
    return lines


def _patched(patch: str) -> Iterator[FileDiff]:
    """Yield the edits of a patch, unified or as Codex writes it."""
    path, lines = "", list[DiffLine]()
    inside = False
    for text in patch.splitlines():
        header = _HEADER.match(text)
        if header:
            if path and lines:
                yield FileDiff(path, lines)
            path, lines, inside = (header[1] or header[2]).strip(), [], header[1] is not None
        elif text.startswith(("*** ", "--- ", "diff --git ", "index ")):
            inside = False if text.startswith("*** End") else inside
        elif text.startswith("@@"):
            inside = True
            if lines:
                lines.append(DiffLine(SKIPPED, text[2:].strip(" @")))
        elif path and inside and text[:1] in (ADDED, REMOVED, SAME):
            lines.append(DiffLine(text[:1], text[1:]))
        elif path and inside and not text:
            lines.append(DiffLine(SAME, ""))
    if path and lines:
        yield FileDiff(path, lines)
