"""Our copies of a tool's own file: the newest, and the largest of those before it; and how one is put back.

A tool may rewrite its file; a power cut or a fault of the tool may leave it short or full of zeros. If the file is not
a continuation of our copy, the copy is set aside before it is made again, with the files next to it. One is enough: of
two copies that were set aside, the larger stays.
"""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet

from cortext.errors import CortextError, DamagedData
from cortext.io import durable, new_files
from cortext.model.wording import amount
from cortext.store.files.layout_paths import NATIVE, earlier_copy, native_copy
from cortext.tools.base import NativeWriter, Purges, Refuses, Transcript, TranscriptSource
from cortext.tools.shared.lines import ends_whole


class NotPutBack(DamagedData):
    """The tool has a damaged file of the session, which was not changed."""


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


def contents(tool: NativeWriter, transcript: Transcript) -> tuple[set[str], str]:
    """Return the ids of the messages in a transcript, and what is wrong with it."""
    try:
        reading = tool.read(transcript)
        ids = {message.id for message in reading}
        is_file = os.path.isfile(transcript.path)
        if is_file and not ends_whole(transcript.path):
            return ids, "ends within a record"
        damaged = sum(reading.counts.damaged.values())
        return ids, f"has {amount(damaged, 'record')} that cannot be read" if damaged else ""
    except (CortextError, OSError) as error:
        return set(), f"cannot be read: {error}"


def refusal_of(tool: NativeWriter, transcript: Transcript) -> str:
    """Return why the tool could not continue a session of its own, or a copy of it; empty if it could."""
    return tool.refusal(transcript) if isinstance(tool, Refuses) else ""


def whole_copy(tool: NativeWriter, path: str, wanted: AbstractSet[str]) -> tuple[str, str]:
    """Return the newest copy in a session's folder that is whole and has the wanted messages, or why there is none.

    That is what is wrong with the copy that has most of them: a tool may have left an almost empty file behind, whose
    copy is newer.
    """
    why, most = "", -1
    for copy in copies_of(path):
        kept = tool.transcript_at(copy)
        ids, fault = contents(tool, kept) if kept is not None else (set(), "cannot be read")
        if kept is not None and not fault and (refusal := refusal_of(tool, kept)):
            fault = f"could not be continued: {refusal}"
        if not fault and wanted <= ids:
            return copy, ""
        if len(wanted & ids) > most:
            most = len(wanted & ids)
            why = f"cortext's copy of the tool's own file {fault}" if fault else "it was continued elsewhere since"
    return "", why or "there is no copy of the tool's own file"


def put_back(tool: NativeWriter, copy: str, *, project: str, wanted: AbstractSet[str]) -> str:
    """Restore a copy into the tool's store and check that the tool has it; return the tool's id of the session.

    It counts as used now, so that the tool does not delete it at its next start. Raise NotPutBack if the tool has a
    file in its place that does not hold the wanted messages.
    """
    key = tool.put_back(copy, project=project)
    found = next((item for item in tool.transcripts(project) if item.key == key), None)
    ids, fault = contents(tool, found) if found is not None else (set(), "cannot be read")
    if fault or not wanted <= ids:
        raise NotPutBack(
            f"{tool.title} has a file of session {key} that {fault or 'lacks messages'}",
            kept="that file is unchanged",
            hint="write a new session with --rewrite",
        )
    if isinstance(tool, Purges):
        tool.renew(key, project=project)
    return key
