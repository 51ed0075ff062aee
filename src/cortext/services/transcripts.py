"""Which transcripts there are to take in: on this machine, or in a folder that somebody names."""

from __future__ import annotations

import os
from collections.abc import Iterable

from cortext.tools.base import Tool, Transcript

Work = list[tuple[Tool, Transcript]]


def work_for(tools: Iterable[Tool]) -> Work:
    """Every transcript that these tools have stored."""
    return [(tool, transcript) for tool in tools for transcript in tool.transcripts()]


def in_folder(tools: Iterable[Tool], folder: str) -> Work:
    """The transcripts below a folder (or the one that a path names), each with the tool that knows its form."""
    tools = list(tools)
    work: Work = []
    for path in _files(os.path.abspath(folder)):
        for tool in tools:
            transcript = tool.transcript_at(path)
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
