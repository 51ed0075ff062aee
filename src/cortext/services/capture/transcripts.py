"""The transcripts that can be captured: those on this machine, or those in a given folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from cortext.errors import NotFound
from cortext.model.amounts import amount
from cortext.tools.base import Collection, Leftover, NamesLeftovers, Transcript, TranscriptSource

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


def in_folder(tools: Iterable[TranscriptSource], folder: str, failed: Failed) -> Work:
    """Return the transcripts below a folder (or those in a file), each with the tool that recognises it."""
    tools = list(tools)
    work: Work = []
    for path in _files(os.path.abspath(folder)):
        for tool in tools:
            try:
                found = _transcripts_at(tool, path)
            except Exception as error:  # noqa: BLE001 (one tool must not stop the others)
                failed(tool.name, path, error)
                continue
            if found:
                work.extend((tool, transcript) for transcript in found)
                break
    return work


def not_recognised(tools: Sequence[TranscriptSource], path: str) -> NotFound:
    """Return the error for a file or folder that the user named, and in which no tool recognises a conversation."""
    from cortext.tools.shared.leftovers import described

    found = f"it is {described(path)}"
    if os.path.isdir(path):
        count = sum(1 for _ in _files(path))
        found = f"it has {amount(count, 'file')}" + (f", {described(path).removeprefix('a ')}" if count else "")
    wanted = f"a transcript of {tools[0].title}" if len(tools) == 1 else "a transcript of a tool in `cortext tools`"
    export = "" if len(tools) == 1 else ", or a data export (.zip or conversations.json) of ChatGPT or Claude.ai"
    return NotFound(
        f"no conversation was recognised in {path}: {found}",
        kept="nothing was imported or changed",
        hint=f"expected {wanted}{export}; if it was cut, copy or download it again",
    )


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
