"""The edits in a conversation, whatever the tool: the file, the text that was replaced, the text that was written.

The tools name the same things differently, so an edit is recognised by the names of its fields, and by the notations
for patches that models are taught: `apply_patch`, search-and-replace blocks, unified diffs, and here-documents.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cortext.model.message import ASSISTANT, Message, Part
from cortext.services.digest.calls import CHANGES, command_in, contains, paired, paths_in, status_in, strings_in

_OLD = ("old_string", "oldString", "old_str", "oldText", "old_text", "old", "search", "find")
_NEW = (
    *("new_string", "newString", "new_str", "newText", "new_text", "new", "replace", "replacement"),
    *("new_source", "code_edit", "insert_text"),
)
_WHOLE = ("content", "contents", "file_text", "fileText", "new_content", "text")
_APPENDS = re.compile(r"append|insert", re.IGNORECASE)
_SAVES = re.compile(r"save|diff", re.IGNORECASE)

_PATCH_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_PATCH_MOVE = "*** Move to: "
_SEARCH = re.compile(r"(?:<{5,9}|-{5,9}) ?(?:SEARCH|ORIGINAL)\b.*")
_BETWEEN = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r"(?:>{5,9}|\+{5,9}) ?(?:REPLACE|UPDATED)\b.*")
_LINE_NUMBER = re.compile(r":(?:start|end)_line:.*|-{5,9}\s*")  # between SEARCH and the text, in one dialect
_DIFF_FILE = re.compile(r"\+\+\+ (?:b/)?([^\t\n]+)")
_DIFF_OLD = re.compile(r"--- \S")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*(.*)")
_NAMED_FENCE = re.compile(r"(save|append|patch)\s+(\S.*)")
_PATH_LINE = re.compile(r"[\s*`#]*([^\s`*#:<>|]+[./][^\s`*:<>|]+)[\s*`:]*")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_TARGET = re.compile(r"(?<![0-9&>])(>>?)\s*(['\"]?)([^\s'\"|&;<>]+)\2")
_TEE = re.compile(r"\btee\s+(-a\s+)?(['\"]?)([^\s'\"|&;<>-][^\s'\"|&;<>]*)\2")


class Edit(NamedTuple):
    """A text that was written into a file, and the text that it replaced, as far as the call says.

    With `whole`, `new` is the whole file. `at` is the index of the message, `name` that of the tool call.
    """

    path: str
    old: str
    new: str
    whole: bool = False
    at: int = 0
    name: str = ""


def edits_in(messages: Sequence[Message], names: Collection[str] = ()) -> list[Edit]:
    """Return the edits of a conversation, in order, without those that failed.

    With `names`, calls that contain none of them are skipped, which is faster.

    In a conversation without a single call, the tool takes the edits from the text of the answers.
    """
    calls = list(paired(messages))
    answered = any(result is not None for _, result, _ in calls)
    found: list[Edit] = []
    for part, result, index in calls:
        # A call without a result was interrupted, unless this tool records no results.
        if (result is not None or not answered) and (not names or contains(part, names)):
            found += (edit._replace(at=index, name=part.name) for edit in _in_call(part, result))
    if not calls:
        for index, message in enumerate(messages):
            if message.role == ASSISTANT and not message.partial:
                found += (edit._replace(at=index) for edit in edits_in_text(message.content))
    return [edit for edit in found if edit.path and (edit.new.strip() or edit.old.strip())]


def _in_call(part: Part, result: Part | None) -> Iterator[Edit]:
    if status_in(result) not in ("", "ok"):
        return
    patches = [text for text in strings_in(part.input) if _PATCH_FILE.search(text)]
    command = command_in(part.input)
    if patches:
        for text in patches:
            yield from _in_patch(text)
    elif command:
        yield from _in_command(command)
    elif isinstance(part.input, dict):
        yield from _in_fields(part.name, part.input)


def _in_fields(name: str, fields: dict[str, Any]) -> Iterator[Edit]:
    """Yield the edits that the fields of a call describe."""
    path = next(paths_in(fields), "")
    pairs = list(_pairs(fields))
    if pairs:
        for own_path, old, new in pairs:
            yield Edit(own_path or path, old, new)
        return
    if not (CHANGES.search(name) or _SAVES.search(name)):
        # One editor for everything says in a field what it does.
        action = fields.get("command")
        if not isinstance(action, str) or not CHANGES.search(action):
            return
    texts = [text for key, text in fields.items() if isinstance(text, str) and "\n" in text and key not in _OLD]
    for text in texts:
        found = [*_in_blocks(text, path), *_in_diff(text, path)]
        if found:
            yield from found
            return
    for key in (*_WHOLE, *_NEW):
        value = fields.get(key)
        if isinstance(value, str):
            part = key in _NEW or _APPENDS.search(name) or fields.get("mode") == "append"
            yield Edit(path, "", value, whole=not part)
            return


def _pairs(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield path (if it is named beside them), old and new text of each replacement, at any depth."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            waiting += reversed(here)
        elif isinstance(here, dict):
            old, new = _first(here, _OLD), _first(here, _NEW)
            if old is not None and new is not None:
                yield next(paths_in(here), ""), old, new
            else:
                waiting += reversed([inner for inner in here.values() if isinstance(inner, dict | list)])


def _first(fields: dict[str, Any], names: Iterable[str]) -> str | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), None)


def _in_patch(text: str) -> Iterator[Edit]:
    """Yield the edits of a patch as `apply_patch` takes it."""
    path = kind = ""
    old: list[str] = []
    new: list[str] = []
    for line in [*text.splitlines(), "*** End Patch"]:
        named = _PATCH_FILE.match(line)
        if line.startswith(("@@", "*** ")):
            if path and (old or new):
                yield Edit(path, "\n".join(old), "\n".join(new), whole=kind == "Add")
            old, new = [], []
        if named:
            kind, path = named[1], named[2].strip()
        elif line.startswith(_PATCH_MOVE):
            path = line.removeprefix(_PATCH_MOVE).strip()
        elif not line.startswith(("@@", "*** ")):
            _take(line, old, new)


def _take(line: str, old: list[str], new: list[str]) -> None:
    """Sort a line of a patch into the old and the new text."""
    if line[:1] in ("-", " ", ""):
        old.append(line[1:])
    if line[:1] in ("+", " ", ""):
        new.append(line[1:])


def _in_diff(text: str, path: str) -> Iterator[Edit]:
    """Yield the edits of a unified diff; `path` is the file if the diff names none."""
    if "\n@@" not in f"\n{text}":
        return
    old: list[str] = []
    new: list[str] = []
    inside = False
    for line in [*text.splitlines(), "@@"]:
        named = _DIFF_FILE.match(line)
        if line.startswith("@@") or named or (_DIFF_OLD.match(line) and not inside):
            if path and (old or new):
                yield Edit(path, "\n".join(old), "\n".join(new))
            old, new, inside = [], [], line.startswith("@@")
            path = named[1].strip() if named else path
        elif line.startswith(("diff --git ", "```")):
            inside = False
        elif inside:
            _take(line, old, new)


def _in_blocks(text: str, path: str) -> Iterator[Edit]:
    """Yield the edits of search-and-replace blocks; `path` is the file unless a line before the block names one."""
    old: list[str] = []
    new: list[str] = []
    taking: list[str] | None = None
    before = ""
    for line in text.splitlines():
        if taking is None and _SEARCH.fullmatch(line.strip()):
            old, new = [], []
            taking = old
            path = before or path
        elif taking is old and _BETWEEN.fullmatch(line):
            taking = new
        elif taking is new and _REPLACE.fullmatch(line.strip()):
            if path:
                yield Edit(path, "\n".join(old), "\n".join(new))
            taking = None
        elif taking is not None:
            if taking or not _LINE_NUMBER.fullmatch(line):
                taking.append(line)
        elif not _FENCE.match(line) and line.strip():
            named = _PATH_LINE.fullmatch(line)
            before = named[1] if named else ""


def edits_in_text(text: str) -> list[Edit]:
    """Return the edits that an answer describes, for tools that take them from there (Aider, gptme)."""
    if "```" not in text and "~~~" not in text and "<<<<<" not in text:
        return []
    found = list(_in_blocks(text, ""))
    fence = tag = ""
    body: list[str] = []
    for line in text.splitlines():
        opened = _FENCE.fullmatch(line)
        if not fence and opened:
            fence, tag, body = opened[1], opened[2].strip(), []
        elif fence and line.strip() == fence:
            found += _in_fence(tag, "\n".join(body))
            fence = ""
        elif fence:
            body.append(line)
    return found


def _in_fence(tag: str, body: str) -> Iterator[Edit]:
    named = _NAMED_FENCE.fullmatch(tag)
    if named and named[1] == "patch":
        yield from _in_blocks(body, named[2].strip())
    elif named:
        yield Edit(named[2].strip(), "", body, whole=named[1] == "save")
    elif tag == "diff":
        yield from _in_diff(body, "")


def _in_command(command: str) -> Iterator[Edit]:
    """Yield what a command line writes into files from here-documents."""
    lines = command.splitlines()
    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        heredoc = _HEREDOC.search(line)
        if not heredoc:
            continue
        body: list[str] = []
        while index < len(lines) and lines[index].strip() != heredoc[2]:
            body.append(lines[index])
            index += 1
        index += 1
        target, tee = _TARGET.search(line), _TEE.search(line)
        if target:
            yield Edit(target[3], "", "\n".join(body), whole=target[1] == ">")
        elif tee:
            yield Edit(tee[3], "", "\n".join(body), whole=not tee[1])
