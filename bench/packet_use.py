"""What a stretch of conversation used: files, symbols and commands. Apart from the product, which is measured by it.

A file is named by a tool call: by a field for a path, by a patch, or by a word of a command that is a path with a
folder and an extension. A symbol is a word that only code has: with an underscore or a capital letter inside. A
command is a line for a shell, without `cd`, redirections and what it is piped into.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, Message

_FILE_KEYS = ("file_path", "filePath", "absolute_path", "notebook_path", "filename", "path")
_COMMAND_KEYS = ("command", "cmd")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w{3,}")
_INNER = re.compile(r"[A-Za-z0-9]_+[A-Za-z0-9]|[a-z0-9][A-Z]")
_PATH = re.compile(r"(?<![\w:/.])[\w.~@-]*(?:/[\w@-][\w.@-]*)+(?<!\.)\.[A-Za-z]\w{0,5}(?![\w./])")
_UNPREFIXED = re.compile(r"^\s*(?:cd\s+\S+\s*(?:&&|;)\s*|\w+=\S*\s+)+")
_ENDS = re.compile(r"\s*(?:\d?>{1,2}|<|\||&&|;|\n)")


class Use(NamedTuple):
    """What was used, by kind."""

    files: frozenset[str]
    symbols: frozenset[str]
    commands: frozenset[str]


def used_in(messages: Iterable[Message]) -> Use:
    """Return what the model itself used: in its texts and its tool calls."""
    files: set[str] = set()
    symbols: set[str] = set()
    commands: set[str] = set()
    for message in messages:
        if message.role == ASSISTANT:
            symbols |= symbols_in(message.content)
        for part in message.parts or ():
            if part.type == TOOL_CALL:
                files |= files_of(part.input)
                commands |= commands_of(part.input)
                for text in _strings(part.input):
                    symbols |= symbols_in(text)
    return Use(frozenset(files), frozenset(symbols), frozenset(commands))


def text_of(messages: Iterable[Message]) -> str:
    """Return all that was said, called and answered, for asking whether something occurred in it."""
    return "\n".join(text_parts(messages))


def text_parts(messages: Iterable[Message]) -> Iterator[str]:
    """Yield each text that was said, called or answered."""
    for message in messages:
        yield message.content
        for part in message.parts or ():
            if part.type == TOOL_CALL:
                yield from _strings(part.input)
            elif part.type == TOOL_RESULT:
                yield part.output


def symbols_in(text: str) -> set[str]:
    """Return the words that only code has."""
    return {word for word in _WORD.findall(text) if _INNER.search(word)}


def files_of(call: Any) -> set[str]:
    """Return the paths of files that the input of a tool call names."""
    found: set[str] = set()
    if isinstance(call, dict):
        for key in _FILE_KEYS:
            value = call.get(key)
            # `path` is also the folder in which a search begins.
            if isinstance(value, str) and value and (key != "path" or "." in value.rpartition("/")[2].strip(".")):
                found.add(value)
        for key in _COMMAND_KEYS:
            found |= set(_PATH.findall(_line(call.get(key))))
    for text in _strings(call):
        found |= set(_PATCHED.findall(text))
    return found


def commands_of(call: Any) -> set[str]:
    """Return the command lines that a tool call runs, each reduced to its first simple command."""
    if not isinstance(call, dict):
        return set()
    lines = (_UNPREFIXED.sub("", _line(call.get(key))) for key in _COMMAND_KEYS)
    return {short for line in lines if len(short := " ".join(_ENDS.split(line, maxsplit=1)[0].split())) > 3}


def _line(value: Any) -> str:
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        return words[-1] if words[:2] in (["bash", "-lc"], ["bash", "-c"], ["sh", "-c"]) else " ".join(words)
    return value if isinstance(value, str) else ""


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def distinct_name(path: str, others: Iterable[str]) -> str:
    """Return the shortest end of a path, of whole names, that no other of these paths ends with."""
    names = path.strip("./").split("/")
    rivals = [f"/{other.strip('./')}" for other in others]
    for count in range(1, len(names)):
        ending = f"/{'/'.join(names[-count:])}"
        # A relative path and an absolute one that ends with it are the same file.
        if all(_same(f"/{path.strip('./')}", rival) for rival in rivals if rival.endswith(ending)):
            return ending[1:]
    return path.strip("./")


def _same(path: str, other: str) -> bool:
    return path.endswith(other) or other.endswith(path)
