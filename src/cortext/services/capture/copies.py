"""Our copies of a tool's own file: the newest, and the largest of those before it.

A tool may rewrite its file; a power cut or a fault of the tool may leave it short or full of zeros. If the file is not
a continuation of our copy, the copy is set aside before it is made again, with the files next to it. One is enough: of
two copies that were set aside, the larger stays.
"""

from __future__ import annotations

import os

from cortext.io import durable, new_files
from cortext.store.files.layout_paths import NATIVE, earlier_copy, native_copy
from cortext.tools.base import Transcript, TranscriptSource


def copies_of(path: str) -> list[str]:
    """Return the copies in a session's folder, newest first."""
    return [copy for copy in (native_copy(path), earlier_copy(path)) if os.path.isfile(copy)]


def copy(tool: TranscriptSource, transcript: Transcript, path: str) -> None:
    """Copy a transcript, or what is new in it, into the folder of its session."""
    _set_aside(transcript.path, path)
    tool.copy(transcript, native_copy(path))
    earlier = earlier_copy(path)
    if os.path.isfile(earlier) and new_files.is_continued(native_copy(path), earlier):
        durable.remove_tree(os.path.dirname(earlier))  # all of it is in the newest copy


def _set_aside(source: str, path: str) -> None:
    """Set the copy in a session's folder aside, unless the tool's file continues it or a larger copy is kept."""
    copy, earlier = native_copy(path), earlier_copy(path)
    if not os.path.isfile(copy) or new_files.is_continued(source, copy):
        return
    folder, aside = os.path.dirname(copy), os.path.dirname(earlier)
    if os.path.exists(earlier):
        if os.path.getsize(copy) < os.path.getsize(earlier):
            return
        durable.remove_tree(aside)
    durable.ensure_folder(aside)
    # The copy itself is the last: if this process is killed before, the next capture moves the rest.
    beside = sorted(name for name in os.listdir(folder) if name.startswith(f"{NATIVE}."))
    for name in (*beside, NATIVE):
        durable.move(os.path.join(folder, name), os.path.join(aside, name))
