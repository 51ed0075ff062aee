"""The files that a conversation touched, each with its last known state."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cortext.model.message import ASSISTANT, USER, Message
from cortext.services.digest.calls import CHANGED, CREATED, DELETED, READ, Call
from cortext.services.digest.words import beginning, decoded, stands_in

HALF_LIFE = 100  # messages after which a mention counts half
LONGEST = 10_000  # characters of a text that are searched
_AROUND = "`'\"()[]{}<>,;*|"  # what may stand around a path
_NAMED = re.compile(r"(?:/|~/|\.{1,2}/)?(?:[\w@.-]+/)+[\w@-][\w.@-]*\.[A-Za-z]\w{0,5}")
_QUOTED = re.compile(r"`([\w@-]+\.[a-z]\w{0,5})`")
_SHORTEST_ROOT = 3  # names in a folder that is worth being left out: /home/user/project


class Touched(NamedTuple):
    """A file, the last known state of it, how often it was used, and the index of the message that used it last."""

    path: str
    state: str
    times: int
    at: int


def touched(calls: Sequence[Call]) -> list[Touched]:
    """Return the files that these calls used, the last used first."""
    uses = [(as_named(path), state, call.at) for call in calls for path, state in call.files]
    whole = whole_paths({path for path, _, _ in uses})
    found: dict[str, Touched] = {}
    for path, state, index in uses:
        path = whole.get(path, path)
        before = found.pop(path, None)
        known = before.state if before else READ
        found[path] = Touched(path, _after(known, state), before.times + 1 if before else 1, index)
    return list(reversed(found.values()))


def as_named(path: str) -> str:
    """Return a path without needless pieces such as `./`, unless it would be one that stood nowhere."""
    plain = os.path.normpath(path)
    return plain if stands_in(path, plain) else path


def whole_paths(paths: Iterable[str]) -> dict[str, str]:
    """Return the absolute path, among these, that an end of it stands for, unless it could be two.

    Tools name the same file by its path and, in commands, from the folder that they are in.
    """
    named: dict[str, list[str]] = {}
    for path in paths:
        for ending in endings(path) if os.path.isabs(path) else ():
            named.setdefault(ending, []).append(path)
    return {ending: found[0] for ending, found in named.items() if len(found) == 1}


def endings(path: str) -> list[str]:
    """Return every end of a path that begins with a name: `a/b.py` has `a/b.py` and `b.py`."""
    names = path.strip("/").split("/")
    return ["/".join(names[index:]) for index in range(len(names))]


def _after(known: str, state: str) -> str:
    """Return the state of a file after another use: a file that was created here and then edited is still new."""
    if state == READ:
        return known if known != DELETED else READ
    return CREATED if known == CREATED and state == CHANGED else state


def mentioned(messages: Sequence[Message], calls: Sequence[Call], root: str = "") -> list[str]:
    """Return the files that were only named, in a text or a result, relative to the root: often and lately first."""
    weights: dict[str, float] = {}

    def note(text: str, index: int) -> None:
        text = decoded(beginning(text, LONGEST))
        chunks = {chunk for chunk in text.split() if "/" in chunk} if "/" in text else ()
        words = {chunk.strip(_AROUND).partition(":")[0].rstrip(".") for chunk in chunks}  # as in `a/b.py:12:`
        quoted = _QUOTED.findall(text) if "`" in text else ()
        for found in {word for word in words if _NAMED.fullmatch(word)} | set(quoted):
            path = relative(as_named(found), root)
            if not stands_in(text, path):
                continue
            weights[path] = weights.get(path, 0.0) + 0.5 ** ((len(messages) - index) / HALF_LIFE)

    for index, message in enumerate(messages):
        if message.role in (USER, ASSISTANT) and message.content:
            note(message.content, index)
    for call in calls:
        if call.result is not None:
            note(call.result.output, call.at)
    return sorted(weights, key=lambda path: (-weights[path], path))


def common_root(paths: Sequence[str]) -> str:
    """Return the folder that most of the absolute paths are in; empty if it is not worth naming."""
    absolute = [os.path.dirname(path) for path in paths if os.path.isabs(path)]
    if len(absolute) < 2:
        return ""
    # A few files elsewhere (a temporary one, one of the user's home) must not shorten the root to nothing.
    counts: dict[str, int] = {}
    for folder in absolute:
        while folder.count("/") >= _SHORTEST_ROOT:
            counts[folder] = counts.get(folder, 0) + 1
            folder = os.path.dirname(folder)
    most = [folder for folder, count in counts.items() if 4 * count >= 3 * len(absolute)]
    return max(most, key=len, default="")


def relative(path: str, root: str) -> str:
    """Return a path as it is shown: from the root if it is in there."""
    return path[len(root) + 1 :] if root and path.startswith(f"{root}/") else path
