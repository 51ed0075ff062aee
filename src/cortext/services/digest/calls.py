"""What a tool call did, in any tool: which files it read or changed, which command it ran, and how that ended.

The tools name the same things differently (`Edit`, `replace`, `apply_patch`; `file_path`, `filePath`, `path`), so a
call is understood by the words in its name and by the names of its fields. A line for a shell is taken apart into its
simple commands: not a parser, but enough to name what was run.

Only what stands in a text as a whole word, with its escapes resolved, may be a name, a path or a command.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, Part

# ── whole words ──────────────────────────────────────────────────────────────────────────────────────
# A tool's result is often JSON, in which `\n` and `\t` stand for the end of a line and for a tab. Read as letters they
# make `nOutput` of `Output`; resolved where they are none, they make `ew` of `C:\new`. So the texts of JSON are
# decoded, and elsewhere, where a backslash could be either, the word after it is neither.

_DEEPEST = 4  # JSON in a text of JSON, and so on
# A document or a line of JSON, also behind a line number or the file name that `grep` puts there.
_BEFORE = r"(?:[ \d]*(?:→|\t|[:|] ?)|[\w./@-]{1,200}:(?:\d+:)?)?"
_DOCUMENT = re.compile(r'\s*(?:[\[{]\s*){1,9}"')
_LINE = re.compile(rf'^{_BEFORE}[ \t]*(?:[\[{{][ \t]*){{1,9}}".*$', re.MULTILINE)
_LITERAL = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)("|\\?\Z)', re.DOTALL)
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))""")
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")  # and the erasing of a line, as `grep` puts them inside words
_WINDOWS = re.compile(r"(?<!\w)[A-Za-z]:(?:\\{1,2}[\w.$@+-]+)+")
_ESCAPES = "abefnrtuvx0"  # the letters that a backslash may stand before without being part of a path
_JOINED = re.compile("[\\w\\\\\u0300-\u036f]")  # beside one of these, a word is not whole


def decoded(text: str) -> str:
    """Return the text with the escapes of JSON in it resolved, without colours, and with `/` in Windows paths."""
    if "\x1b" in text or "\\" in text:
        text = _resolved(text, _DEEPEST)
        text = _WINDOWS.sub(_with_slashes, _COLOUR.sub("", text))
    return text


def _resolved(text: str, depth: int) -> str:
    if "\\" not in text or not depth:
        return text

    def literal(match: re.Match[str]) -> str:
        return f'"{_resolved(_ESCAPE.sub(_meant, match[1]), depth - 1)}{match[2]}'

    if _DOCUMENT.match(text):
        return _LITERAL.sub(literal, text)
    return _LINE.sub(lambda line: _LITERAL.sub(literal, line[0]), text)


def _meant(match: re.Match[str]) -> str:
    code = int(match[1] or "0", 16)
    if match[1]:
        return chr(code) if not 0xD800 <= code <= 0xDFFF else "\ufffd"
    return _MEANT.get(match[2], match[2])


def _with_slashes(match: re.Match[str]) -> str:
    """Return a path with `/`, unless its backslashes could all begin an escape."""
    names = re.split(r"\\+", match[0])[1:]
    return match[0].replace("\\", "/") if any(name[0] not in _ESCAPES for name in names) else match[0]


def beginning(text: str, most: int) -> str:
    """Return the first characters of a text, at most so many, without a word that would be cut."""
    end = most
    if len(text) > most:
        while end and (text[end - 1].isalnum() or text[end - 1] in "_\\./@-"):
            end -= 1
    return text[:end]


def stands_in(text: str, word: str) -> bool:
    """Whether a decoded text has this name, path or command as a whole word, nowhere only as part of a longer one."""
    start = text.find(word) if word else -1
    while start >= 0:
        around = text[max(0, start - 1) : start], text[start + len(word) : start + len(word) + 1]
        if not _JOINED.match(around[0]) and not (around[1] != "\\" and _JOINED.match(around[1])):
            return True
        start = text.find(word, start + 1)
    return False


READ, CHANGED, CREATED, DELETED = "read", "changed", "created", "deleted"

_PATH_KEYS = (
    *("file_path", "filePath", "filepath", "absolute_path", "notebook_path", "target_file"),
    *("path", "filename", "file", "paths", "files"),
)
_COMMAND_KEYS = ("command", "cmd", "script")
_DELETES = re.compile(r"delete|remove|unlink", re.IGNORECASE)
_CREATES = re.compile(r"create|new_?file", re.IGNORECASE)
CHANGES = re.compile(r"write|edit|replace|patch|create|update|insert|append|modify", re.IGNORECASE)
_SEARCHES = re.compile(r"grep|glob|search|find|list|^ls$|tree|director", re.IGNORECASE)
_CREATED = re.compile(r"\bcreated\b|\bnew file\b", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_PATCH_STATES = {"Add": CREATED, "Update": CHANGED, "Delete": DELETED, None: CREATED}
# A path with an extension; `main..HEAD` is none.
_FILE_NAME = re.compile(
    r"(?:~|\.{0,2})/?(?:[\w@+-][\w.@+-]*/|\.{1,2}/)*(?!\S*\.\.)[\w@+.-]+\.(?:[a-z]\w{0,7}|[A-Z]{1,2})"
)
_PRINTS = re.compile(r"(?:cat|bat|head|tail|less|nl|wc|sed|rm|mv|cp|touch|vi|vim|nano|diff|git \w+)\b")
_REMOVES = re.compile(r"(?:git\s+)?rm\s")
# As the tools report it: at the beginning of a line, or as a field. A script that is printed may have "exit 1" in it.
_EXIT = re.compile(
    r"(?:^|\n|Process |completed with |[{,]\s*\")exit(?:ed)?(?: with)?[ _](?:code|status)\"?\s*:?\s*(-?\d{1,3})\b",
    re.IGNORECASE,
)
_SHELLS = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh")
_STATUS_IN = 400  # characters at either end of a result in which its exit status is looked for

_SIMPLE = re.compile(r"""(?:[^&;\n"']|"(?:\\.|[^"\\])*"|'[^']*'|(?<!&)&(?!&)|["'])+""")
_SCRIPT = re.compile(r"\b(?:for|while|until|if|case)\b[^\n]*?(?:;|\n)\s*(?:do|then)\b|\bcase\b.*\bin\b|\w+\(\)\s*\{")
_HEREDOC = re.compile(r"(?:[\"']?\$\(\s*cat\s*)?<<-?\s*['\"]?\w")

LONGEST_COMMAND = 120  # characters of a command
HALF_LIFE = 100  # messages after which a run counts half
_PREPARES = re.compile(r"(?:cd|source|export|set|echo|sleep|true|pwd)\b|\w+=\S*$|#|\W*$")
# What only shortens the output: the command before it is the same.
_FILTERED = re.compile(r"\s*(?:2>&1|2>/dev/null)?\s*(?:\|\s*(?:tail|head|grep|rg|wc|sort|uniq|less|cat)\b[^|]*)*$")


class FileUse(NamedTuple):
    """A file that a call used, and what the call did to it."""

    path: str
    state: str


class ToolCall(NamedTuple):
    """A tool call with its result, if there is one, the index of its message, and what it did."""

    part: Part
    result: Part | None
    at: int
    command: str  # for a shell; empty if it ran none
    files: list[FileUse]

    @property
    def failed(self) -> bool:
        """Whether the tool reported an error."""
        return _failed(self.result)


def calls_in(messages: Sequence[Message], names: Collection[str] = ()) -> list[ToolCall]:
    """Return every tool call with its result, in order; with `names`, only those whose input contains one of them."""
    calls = []
    for part, result, index in paired(messages):
        if names and not contains(part, names):
            continue
        command = command_in(part.input)
        calls.append(ToolCall(part, result, index, command, files_of(part, result, command)))
    return calls


def contains(part: Part, names: Collection[str]) -> bool:
    """Whether a text in the input of a call contains one of these names: a quick test before it is looked into."""
    return any(name in text for text in strings_in(part.input) for name in names)


def paired(messages: Sequence[Message]) -> Iterator[tuple[Part, Part | None, int]]:
    """Yield every tool call with its result and the index of its message, without looking into them."""
    results: dict[str, Part] = {}
    for message in messages:
        for part in message.parts or ():
            if part.type == TOOL_RESULT and part.call_id:
                results[part.call_id] = part
    for index, message in enumerate(messages):
        for part in message.parts or ():
            if part.type == TOOL_CALL:
                yield part, results.get(part.id) if part.id else None, index


def _failed(result: Part | None) -> bool:
    return result is not None and result.is_error


def files_of(part: Part, result: Part | None, command: str) -> list[FileUse]:
    """Return the files that a call used; `command` is what it ran. A call that failed changed nothing."""
    name, fields, failed = part.name, part.input, _failed(result)
    patched = [use for text in strings_in(fields) if "*** " in text for use in _patched(text)]
    if patched:
        return [] if failed else patched
    if command:
        return [] if failed else _in_command(command)
    paths = list(paths_in(fields))
    if _SEARCHES.search(name) and not CHANGES.search(name):
        paths = [path for path in paths if _FILE_NAME.fullmatch(path)]  # else the folder that is searched
    if failed:
        return [FileUse(path, READ) for path in paths] if CHANGES.search(name) else []
    state = _state(name, fields, result.output if result is not None else "")
    return [FileUse(path, state) for path in paths]


def command_in(fields: Any) -> str:
    """Return the shell command that a call runs; empty if it runs none."""
    if not isinstance(fields, dict) or (_has_path(fields) and "description" not in fields):
        return ""  # an editor whose `command` is "view" or "create"
    for key in _COMMAND_KEYS:
        value = fields.get(key)
        if isinstance(value, list):
            words = [word for word in value if isinstance(word, str)]
            is_shell = len(words) > 2 and words[0] in _SHELLS and words[1].startswith("-")
            return words[2] if is_shell else " ".join(words)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def status_of(call: ToolCall) -> str:
    """Return how a command ended: `ok`, `exit 1`, `failed`, or nothing if that is unknown."""
    return status_in(call.result)


def status_in(result: Part | None) -> str:
    """Return how the command with this result ended."""
    if result is None:
        return ""
    found = _EXIT.search(result.output[:_STATUS_IN]) or _EXIT.search(result.output[-_STATUS_IN:])
    if found and found[1] != "0":
        return f"exit {found[1]}"
    return "failed" if result.is_error else "ok"


def strings_in(value: Any) -> Iterator[str]:
    """Yield every text in the input of a call, at any depth."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            yield here
        elif isinstance(here, dict):
            waiting += reversed(list(here.values()))
        elif isinstance(here, list | tuple):
            waiting += reversed(here)


def _state(name: str, fields: Any, output: str) -> str:
    # One editor for everything says in a field what it does.
    action = fields.get("command") if isinstance(fields, dict) else None
    name = f"{name} {action}" if isinstance(action, str) and " " not in action else name
    if isinstance(action, str) and action in ("view", "read"):
        return READ
    if _DELETES.search(name):
        return DELETED
    if not CHANGES.search(name):
        return READ
    return CREATED if _CREATES.search(name) or _CREATED.search(output[:200]) else CHANGED


def paths_in(fields: Any) -> Iterator[str]:
    """Yield the paths that the input of a call names."""
    if not isinstance(fields, dict):
        return
    for key in _PATH_KEYS:
        value = fields.get(key)
        for path in value if isinstance(value, list) else (value,):
            if isinstance(path, str) and path.strip() and "\n" not in path and len(path) < 500:
                yield path.strip()


def _has_path(fields: dict[str, Any]) -> bool:
    return any(isinstance(fields.get(key), str) for key in _PATH_KEYS)


def _patched(text: str) -> Iterator[FileUse]:
    for found in _PATCHED.finditer(text):
        yield FileUse((found[2] or found[3]).strip(), _PATCH_STATES[found[1]])


def _in_command(line: str) -> list[FileUse]:
    """Return the files that a command line names: words with an extension, if they have a folder or it prints files."""
    found = []
    for command in simple_commands(line):
        prints = _PRINTS.match(command) is not None
        state = DELETED if _REMOVES.match(command) else READ
        words = (word.strip("'\"();,") for word in command.split())
        found += [FileUse(word, state) for word in words if ("/" in word or prints) and _FILE_NAME.fullmatch(word)]
    return found


def simple_commands(line: str) -> list[str]:
    """Return the commands that a line runs one after the other, each on one line, without a text that they are given.

    Loops and conditions stay in one piece.
    """
    heredoc = _HEREDOC.search(line)
    line = f"{line[: heredoc.start()].rstrip()} …" if heredoc else line
    line = line.replace("\\\n", " ")
    parts = [line] if _SCRIPT.search(line) else _SIMPLE.findall(line)
    return [squeezed for part in parts if (squeezed := " ".join(part.split()))]


class CommandRun(NamedTuple):
    """A command line, how it ended last, how often it was run, and the index of the message that ran it last."""

    line: str
    status: str
    times: int
    at: int


def runs(calls: Sequence[ToolCall], count: int) -> list[CommandRun]:
    """Return the commands among these calls, the likeliest to be needed first: run often, and lately.

    `count` is the number of messages.
    """
    found: dict[str, CommandRun] = {}
    weights: dict[str, float] = {}
    for call in calls:
        lines = _worth_showing(call.command)
        status = status_of(call) if lines else ""
        for position, line in enumerate(lines, 1):
            times = found[line].times + 1 if line in found else 1
            # Which command of a chain failed is unknown: most likely the last one that was run.
            known = status if status == "ok" or position == len(lines) else ""
            found[line] = CommandRun(line, known, times, call.at)
            weights[line] = weights.get(line, 0.0) + 0.5 ** ((count - call.at) / HALF_LIFE)
    return sorted(found.values(), key=lambda run: (-weights[run.line], -run.at))


def _worth_showing(line: str) -> list[str]:
    """Return the commands of a line, without those that only prepare others and without what shortens the output."""
    shown = (_FILTERED.sub("", part) for part in simple_commands(line) if not _PREPARES.match(part))
    said = " ".join(line.replace("\\\n", " ").split())
    short = (_short(part) for part in shown)
    return list(dict.fromkeys(part for part in short if part and _was_run(part, said)))


def _short(command: str) -> str:
    """Return a command cut after a whole word, with an ellipsis; empty if not even its first word is short."""
    if len(command) <= LONGEST_COMMAND:
        return command
    kept = command[: LONGEST_COMMAND - 1].rpartition(" ")[0]
    return f"{kept} …" if kept else ""


def _was_run(command: str, said: str) -> bool:
    """Whether every piece of a command, between what was left out of it, stands in the line as it was run."""
    pieces = [piece for piece in (piece.strip() for piece in command.split("…")) if piece]
    return all(stands_in(said, piece) for piece in pieces)
