"""The environment of an AI tool that we start: our own variables are held back.

The tool in turn starts processes of ours (hooks, the MCP server), which need the settings that came from the
environment: which store, which password. They find them in a file that only the user can read, named by the process
that waits for the tool; the next launch after that process has ended removes it.
"""

from __future__ import annotations

import json
import os
import stat

import msgspec

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import durable
from cortext.safety.credentials import HELD_BACK, for_child, held_back

_LARGEST = 1 << 20


def environment(added: dict[str, str]) -> dict[str, str]:
    """Return the environment of the tool that this process is about to start; `added` is what its launch needs."""
    environ = {**for_child(os.environ), **added}
    folder = _folder()
    _sweep(folder)
    held = held_back(os.environ)
    if held:
        path = os.path.join(folder, f"{os.getpid()}.json")
        durable.ensure_folder(folder)
        durable.replace_file(path, [msgspec.json.encode(held)])
        environ[HELD_BACK] = path
    return environ


def take_back() -> None:
    """Remove the file again: the tool could not be started."""
    durable.remove(os.path.join(_folder(), f"{os.getpid()}.json"))


def adopt() -> None:
    """Adopt what was held back from the tool that started us. Variables that are already set stay."""
    path = os.environ.pop(HELD_BACK, "")
    if not path or os.path.dirname(path) != _folder():
        return

    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except (OSError, CortextError):
        return  # removed, because the tool that it was for has ended
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return
        found = json.loads(os.read(descriptor, _LARGEST))
    except (OSError, ValueError):
        return
    finally:
        os.close(descriptor)
    for name, value in found.items() if isinstance(found, dict) else ():
        if isinstance(value, str) and name in held_back({name: value}):
            os.environ.setdefault(name, value)


def _folder() -> str:
    return os.path.join(folders.state(), "handed")


def _sweep(folder: str) -> None:
    """Remove the files of tools that have ended."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        number = name.removesuffix(".json")
        if number.isdigit() and not os.path.exists(f"/proc/{number}") and not _alive(int(number)):
            durable.remove(os.path.join(folder, name))


def _alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
