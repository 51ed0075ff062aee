"""The chats that are running in AI tools right now: the list each was shown, and whether the model is working in it.

One small file per chat in the state folder, outside every repository. Written by the hooks; without hooks or files, a
number refers to the list as it is now, and the asking chat is not guessed. Beside them, one file for each of our MCP
servers that an AI tool has asked for its tools: its model has them, which not every tool's own records say.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from cortext.config import folders
from cortext.io import durable
from cortext.model.session import Origin
from cortext.tools.base import Hooks

KEPT = 30 * 86_400.0  # seconds that a chat's file is kept after its last change
LONGEST_TURN = 3_600.0  # a turn that began longer ago was interrupted without our noticing


class Chat(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What we know about one chat: the tool's session `key`, in a workspace."""

    tool: str
    key: str
    workspace: str = ""
    working_since: float = 0.0  # when the turn that the model is working on began; 0: it waits for the user
    numbers: list[tuple[str, str]] = []  # the sessions of the last list: (store, id), from number 1
    answered_by: str = ""  # the kind of event that answered the command of this turn: a tool may report it twice
    compacted: bool = False  # the tool has compacted the chat, and the model has not got back what that dropped
    restored: str = ""  # the id of the newest message when the model got that back
    seen: str = ""  # the id of the newest message of the conversation at the last prompt
    paused_after: float | None = None  # quiet minutes after which its conversation was paused, until the user is told
    owed: str = ""  # what the model is to receive at the end of its answer, where that is the only way


def load(tool: str, key: str, workspace: str = "") -> Chat:
    """Return what is known about a chat; a new one if nothing is."""
    found = _read(_path(tool, key))
    return found if found is not None else Chat(tool=tool, key=key, workspace=workspace)


def save(chat: Chat) -> None:
    """Store it. Files that were not changed for a month are removed."""
    folder = _folder()
    durable.ensure_folder(folder)
    durable.replace_file(_path(chat.tool, chat.key), [msgspec.json.encode(chat)])
    for path in _files():
        try:
            if time.time() - os.stat(path).st_mtime > KEPT:
                durable.remove(path)
        except FileNotFoundError:  # another process cleans up, too
            continue


def at_work(tool: str, workspace: str) -> list[Chat]:
    """Return a tool's chats in a workspace in which the model is working."""
    since = time.time() - LONGEST_TURN
    chats = (_read(path) for path in _files())
    return [
        chat
        for chat in chats
        if chat is not None and (chat.tool, chat.workspace) == (tool, workspace) and chat.working_since > since
    ]


def asking_chat(
    environ: Mapping[str, str],
    workspace: str,
    tools: Sequence[Hooks],
    *,
    long_lived: bool = False,
    client: str = "",
) -> Chat | None:
    """Return the chat of one of these tools that this process was started for; None if that is not certain.

    A long-lived process (an MCP server) may have been started for another chat of the same window: its environment
    counts only if the model is working there. `client` is how the program that calls it names itself.
    """
    tool = _named(client, tools) or _started_by(environ, tools)
    if tool is None:
        return None
    busy = at_work(tool.name, workspace)
    named = environ.get(tool.session_variable, "")
    if named and (not long_lived or any(chat.key == named for chat in busy)):
        return load(tool.name, named, workspace)
    return busy[0] if len(busy) == 1 else None


def remember_list(chat: Chat | None, workspace: str, numbers: Sequence[tuple[str, str]]) -> None:
    """Store the numbers of a list that was shown: for its chat, and for whoever asks next in this workspace."""
    everyone = Chat(tool="", key=workspace, workspace=workspace)
    for shown in (chat, everyone):
        if shown is not None:
            shown.numbers = list(numbers)
            save(shown)


def note_pause(origin: Origin, workspace: str, minutes: float) -> None:
    """Note that the conversation of a chat was paused after so many quiet minutes: its next prompt says so."""
    if origin.tool:
        chat = load(origin.tool, origin.session_id, workspace)
        chat.paused_after = minutes
        save(chat)


def numbers_of(chat: Chat | None, workspace: str) -> list[tuple[str, str]]:
    """Return the numbers of the last list: of this chat, else of this workspace."""
    return (chat.numbers if chat else []) or load("", workspace).numbers


def _named(client: str, tools: Sequence[Hooks]) -> Hooks | None:
    """Return the tool whose name is a word of an MCP client's name: `copilot-cli` is Copilot.

    Our MCP entry for Claude Code is in `.mcp.json`, which Copilot and Kimi Code read, too.
    """
    words = re.split(r"\W+|_", client.lower())
    found = [tool for tool in tools if tool.name in words]
    return found[0] if len(found) == 1 else None


def _started_by(environ: Mapping[str, str], tools: Sequence[Hooks]) -> Hooks | None:
    """Return the tool that started this process: according to our own MCP entry, else to the tool's variable."""
    own = environ.get("CORTEXT_TOOL", "")
    if own:
        return next((tool for tool in tools if tool.name == own), None)
    found = [tool for tool in tools if environ.get(tool.started_by)]
    return found[0] if len(found) == 1 else None  # one inside another: it is unclear which


# ── our MCP servers ─────────────────────────────────────────────────────────────────────────────────


class RunningServer(msgspec.Struct):
    """One of our MCP servers: the process that started it, and the tools that it has."""

    parent: int
    workspace: str
    tools: list[str]


def note_server(workspace: str, tools: Sequence[str]) -> None:
    """Note that the program that started this MCP server has asked for its tools. Files of servers that ended go."""
    folder = _servers()
    durable.ensure_folder(folder)
    for name in os.listdir(folder):
        number = name.removesuffix(".json")
        if number.isdigit() and not _runs(int(number)):
            durable.remove(os.path.join(folder, name))
    path = os.path.join(folder, f"{os.getpid()}.json")
    durable.replace_file(path, [msgspec.json.encode(RunningServer(os.getppid(), workspace, list(tools)))])


def forget_server() -> None:
    """Note that this MCP server ends."""
    with suppress(FileNotFoundError):
        durable.remove(os.path.join(_servers(), f"{os.getpid()}.json"))


def tools_at_hand(workspace: str) -> list[str]:
    """Return our MCP tools that the program has which started this process (as a hook): its own server is there."""
    try:
        names = os.listdir(_servers())
    except OSError:
        return []
    servers = [_server(os.path.join(_servers(), name)) for name in names if name.endswith(".json")]
    here = [server for server in servers if server is not None and server.workspace == workspace]
    above = _ancestors() if here else set()
    return sorted({tool for server in here if server.parent in above for tool in server.tools})


def _servers() -> str:
    return os.path.join(folders.state(), "servers")


def _server(path: str) -> RunningServer | None:
    try:
        number = os.path.basename(path).removesuffix(".json")
        if not number.isdigit() or not _runs(int(number)):
            return None
        return msgspec.json.decode(durable.read_file(path), type=RunningServer)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user
        return True
    return True


def _ancestors() -> set[int]:
    """Return the processes above this one, but not the first of the machine."""
    found: set[int] = set()
    process = os.getppid()
    while process > 1 and process not in found:
        found.add(process)
        process = _parent_of(process)
    return found


def _parent_of(process: int) -> int:
    try:
        if os.path.isdir("/proc/self"):
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                return int(file.read().rpartition(")")[2].split()[1])
        return _parent_said_by_ps(process)
    except (OSError, ValueError, IndexError):
        return 0  # it has ended


def _parent_said_by_ps(process: int) -> int:
    import subprocess  # hooks import this module, and most machines have /proc

    try:
        listed = subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], capture_output=True, check=False, timeout=5)
    except subprocess.TimeoutExpired:
        return 0
    return int(listed.stdout or 0)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


def _folder() -> str:
    return os.path.join(folders.state(), "chats")


def _path(tool: str, key: str) -> str:
    name_hash = hashlib.sha256(f"{tool}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return os.path.join(_folder(), f"{name_hash}.json")


def _files() -> Iterator[str]:
    try:
        names = os.listdir(_folder())
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from (os.path.join(_folder(), name) for name in names if name.endswith(".json"))


def _read(path: str) -> Chat | None:
    try:
        return msgspec.json.decode(durable.read_file(path), type=Chat)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
