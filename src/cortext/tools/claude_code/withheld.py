"""Which messages Claude Code does not send to the model when it resumes a session: those before a compaction.

The file keeps every record. Claude Code follows parents back from the last record. The record of a compaction has no
parent, so it stops there, and its summary replaces everything before.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.base import Counts, Withheld
from cortext.tools.shared.lines import ForeignLines
from cortext.tools.shared.mark import Mark

BEFORE = "message before the tool's own compaction (the model gets the tool's summary instead)"


class _Link(msgspec.Struct):
    """The fields of a record that link it to others."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    isSidechain: bool | None = None
    compactMetadata: dict[str, Any] | None = None
    cortext: Mark | None = None


_links = msgspec.json.Decoder(_Link)


def withheld(path: str) -> Withheld:
    """Return the messages before the last compaction on the branch of the newest record."""
    lines = ForeignLines(path, 0, Counts())
    links = [link for line in lines for link in lines.decode(line, _links, _Link)]
    indices = {link.uuid: index for index, link in enumerate(links) if link.uuid}
    conversation = [link for link in links if link.type in ("user", "assistant") and not link.isSidechain]
    compaction = _last_compaction(links, indices, conversation[-1]) if conversation else None
    if compaction is None:
        return Withheld()
    kept = _preserved(links, indices, links[compaction])
    before = {
        name
        for link in links[:compaction]
        if link.uuid and link.uuid not in kept
        for name in (link.uuid, link.cortext.id if link.cortext else "")
        if name
    }
    return Withheld(messages={BEFORE: before})


def _last_compaction(links: list[_Link], indices: dict[str, int], leaf: _Link) -> int | None:
    link = leaf
    for _ in links:
        index = indices.get(link.uuid or "")
        if index is not None and link.subtype == "compact_boundary":
            return index
        parent = indices.get(link.parentUuid or "")
        if parent is None:
            return None
        link = links[parent]
    return None


def _preserved(links: list[_Link], indices: dict[str, int], compaction: _Link) -> set[str]:
    """Return the ids of the records that a compaction keeps: a range that it names by its first and last record."""
    segment = (compaction.compactMetadata or {}).get("preservedSegment")
    if not isinstance(segment, dict):
        return set()
    kept: set[str] = set()
    name = segment.get("tailUuid")
    while isinstance(name, str) and name in indices and name not in kept:
        kept.add(name)
        name = None if name == segment.get("headUuid") else links[indices[name]].parentUuid
    return kept
