"""The transcripts that can be captured: those on this machine, or those in a given folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from cortext.errors import NotFound
from cortext.model.wording import amount, listed
from cortext.tools.base import Collection, Leftover, NamesLeftovers, Transcript, TranscriptSource
from cortext.tools.shared.leftovers import described, has_ending, signs

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_PREFIX = 8  # of an id of this form: enough for a folder's name
_LEVELS = 3  # how far a transcript may be below the folder of its conversation
_NAMED = 3  # files that a warning names
_LISTED = 100  # files in a report for scripts

Work = list[tuple[TranscriptSource, Transcript]]

# Called with the name of the tool, the path and the error if transcripts cannot be listed.
Failed = Callable[[str, str, Exception], None]


def work_for(tools: Iterable[TranscriptSource], failed: Failed | None = None) -> Work:
    """Return every transcript that these tools have stored.

    A tool whose store cannot be read is reported to `failed`; without it, the error is raised.
    """
    work: Work = []
    for tool in tools:
        try:
            work.extend((tool, transcript) for transcript in tool.transcripts())
        except Exception as error:
            if failed is None:
                raise
            failed(tool.name, "", error)
    return work


def leftovers_of(tool: TranscriptSource, listed: Sequence[Transcript]) -> list[Leftover]:
    """Return what a tool's store holds beside these transcripts, if its adapter can tell."""
    return list(tool.leftovers(listed)) if isinstance(tool, NamesLeftovers) else []


def any_of(tools: Iterable[TranscriptSource]) -> bool:
    """Whether one of these tools has a transcript."""
    for tool in tools:
        try:
            if next(tool.transcripts(), None) is not None or leftovers_of(tool, ()):
                return True
        except Exception:  # noqa: BLE001 (a store that cannot be read is reported by an import)
            continue
    return False


def in_folder(
    tools: Iterable[TranscriptSource], folder: str, failed: Failed, others: Iterable[TranscriptSource] = ()
) -> tuple[Work, list[str]]:
    """Return the transcripts below a folder (or those in a file), each with the tool that recognises it.

    Returned, too, are the files that may be transcripts, and that neither these nor the `others` recognise.
    """
    tools = list(tools)
    others = [tool for tool in others if all(tool.name != chosen.name for chosen in tools)]
    work: Work = []
    known = _Conversations()
    rest: list[str] = []
    for path in _files(os.path.abspath(folder)):
        is_read = False
        for tool in tools:
            try:
                found = _transcripts_at(tool, path)
            except Exception as error:  # noqa: BLE001 (one tool must not stop the others)
                failed(tool.name, path, error)
                is_read = True
                continue
            if found:
                work.extend((tool, transcript) for transcript in found)
                known.add(found)
                is_read = True
                break
        if not (is_read or any(known.add(_found_by(tool, path)) for tool in others)) and has_ending(path):
            rest.append(path)
    return work, [path for path in rest if known.is_missing(path)]


class _Conversations:
    """The conversations that were recognised below a folder, by which their companion files are told from others."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._folders: set[str] = set()  # of one conversation each

    def add(self, found: Iterable[Transcript]) -> bool:
        """Add the conversations in a file; return whether there are any."""
        for transcript in found:
            key = transcript.key.lower()
            self._keys.add(key)
            own, prefix = os.path.dirname(transcript.path), key[:_PREFIX] if _UUID.fullmatch(key) else key
            for _ in range(_LEVELS):
                name = os.path.basename(own).lower()
                if name == key or (prefix != key and prefix in name):
                    self._folders.add(own)
                    break
                own = os.path.dirname(own)
        return bool(found)

    def is_missing(self, path: str) -> bool:
        """Whether an unrecognised file may be a conversation, and is part of none that was recognised."""
        parts = path.lower().split(os.sep)
        names = {name for part in parts for name in (part, part.partition(".")[0], *_UUID.findall(part))}
        if names & self._keys or any(folder in self._folders for folder in _folders_above(path)):
            return False
        said = signs(path)
        # A subagent's file, or a list of sessions, names the conversation that it belongs to.
        named = {found.lower() for found in _UUID.findall((said or b"").decode("utf-8", "replace"))}
        return said is not None and not named & self._keys


def _folders_above(path: str) -> Iterable[str]:
    while (above := os.path.dirname(path)) != path:
        yield above
        path = above


def _found_by(tool: TranscriptSource, path: str) -> list[Transcript]:
    try:
        return _transcripts_at(tool, path)
    except Exception:  # noqa: BLE001 (this tool is not asked for its transcripts)
        return []


def passed_over(tools: Sequence[TranscriptSource], folder: str, paths: Sequence[str]) -> str:
    """Return the warning about files below a folder that may be transcripts, and that no tool recognises."""
    named = listed(paths, _NAMED, lambda path: f"{os.path.relpath(path, folder)} ({described(path)})")
    were = "was" if len(paths) == 1 else "were"
    return f"{amount(len(paths), 'file')} {were} not recognised: {named}; {_expected(tools)}"


def each_passed_over(paths: Sequence[str]) -> list[str]:
    """Return a line for each of these files; very many are not all named."""
    named = [f"{path}: not recognised: it is {described(path)}" for path in paths[:_LISTED]]
    return [*named, *([f"… and {len(paths) - _LISTED} more"] if len(paths) > _LISTED else [])]


def not_recognised(tools: Sequence[TranscriptSource], path: str) -> NotFound:
    """Return the error for a file or folder that the user named, and in which no tool recognises a conversation."""
    found = f"it is {described(path)}"
    if os.path.isdir(path):
        count = sum(1 for _ in _files(path))
        found = f"it has {amount(count, 'file')}" + (f", {described(path).removeprefix('a ')}" if count else "")
    return NotFound(
        f"no conversation was recognised in {path}: {found}",
        kept="nothing was imported or changed",
        hint=_expected(tools),
    )


def _expected(tools: Sequence[TranscriptSource]) -> str:
    wanted = f"a transcript of {tools[0].title}" if len(tools) == 1 else "a transcript of a tool in `cortext tools`"
    export = "" if len(tools) == 1 else ", or a data export (.zip or conversations.json) of ChatGPT or Claude.ai"
    return f"expected {wanted}{export}; if it was cut, copy or download it again"


def nothing_readable(path: str, why: str) -> NotFound:
    """Return the error for a file that the user named, which is a conversation without a message that can be read."""
    return NotFound(
        f"no message in {path} can be read" + (f": {why}" if why else ""),
        kept="the file is unchanged",
        hint="if it was cut, copy or download it again",
    )


def _transcripts_at(tool: TranscriptSource, path: str) -> list[Transcript]:
    found = tool.transcript_at(path)
    if found is not None:
        return [found]
    return list(tool.transcripts_in(path)) if isinstance(tool, Collection) else []


def _files(path: str) -> Iterable[str]:
    if os.path.isfile(path):
        yield path
        return
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            yield os.path.join(folder, name)
