"""Exports as users download them, for the tests of the adapters that read them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from cortext.tools.base import Transcript
from cortext.tools.shared.exports import ExportTool

Tool = TypeVar("Tool", bound=ExportTool)


def listing(tool: Tool, path: Callable[[], Path]) -> Tool:
    """Return the adapter with one export that it always lists: by itself it lists none, and the suite needs one."""

    def transcripts(project: str | None = None) -> Iterator[Transcript]:
        return iter(()) if project else tool.transcripts_in(str(path()))

    tool.transcripts = transcripts  # type: ignore[method-assign]
    return tool


def save_zip(path: Path, text: bytes, member: str = "conversations.json") -> None:
    """Write an archive with the other files that it usually has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", "{}")
        archive.writestr(member, text)
        archive.writestr("chat.html", "<html></html>")
