"""Which transcripts there are to take in: on this machine, or in a folder that somebody names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from cortext.tools.base import Transcript, TranscriptSource

Work = list[tuple[TranscriptSource, Transcript]]


# Takes the name of the tool, the path and the reason, where transcripts cannot even be looked for.
Failed = Callable[[str, str, Exception], None]


def work_for(tools: Iterable[TranscriptSource], failed: Failed | None = None) -> Work:
    """Every transcript that these tools have stored. What is wrong with the store of one is that tool's alone."""
    work: Work = []
    for tool in tools:
        try:
            work.extend((tool, transcript) for transcript in tool.transcripts())
        except Exception as error:
            if failed is None:
                raise
            failed(tool.name, "", error)
    return work


def in_folder(tools: Iterable[TranscriptSource], folder: str, failed: Failed) -> Work:
    """The transcripts below a folder (or the one that a path names), each with the tool that knows its form."""
    tools = list(tools)
    work: Work = []
    for path in _files(os.path.abspath(folder)):
        for tool in tools:
            try:
                transcript = tool.transcript_at(path)
            except Exception as error:  # noqa: BLE001 (as above)
                failed(tool.name, path, error)
                continue
            if transcript is not None:
                work.append((tool, transcript))
                break
    return work


def _files(path: str) -> Iterable[str]:
    if os.path.isfile(path):
        yield path
        return
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            yield os.path.join(folder, name)
