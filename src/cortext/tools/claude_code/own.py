"""What Claude Code sends to the model when it opens a session of its own: nothing from before a compaction.

The file keeps every record. The program walks back from the last one; a compaction is a record without a parent, so
the walk ends there, and a summary of the program's own stands for what came before.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.base import Counts, Withheld
from cortext.tools.shared.lines import ForeignLines
from cortext.tools.shared.mark import Mark

BEFORE = "message before the tool's own compaction (the model gets the tool's summary instead)"


class _Link(msgspec.Struct):
    """What the walk needs of a record."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    isSidechain: bool | None = None
    compactMetadata: dict[str, Any] | None = None
    cortext: Mark | None = None


_links = msgspec.json.Decoder(_Link)


def withheld(path: str) -> Withheld:
    """The messages that lie before the last compaction on the way from the newest record back."""
    lines = ForeignLines(path, 0, Counts())
    links = [link for line in lines for link in lines.decode(line, _links, _Link)]
    places = {link.uuid: place for place, link in enumerate(links) if link.uuid}
    talk = [link for link in links if link.type in ("user", "assistant") and not link.isSidechain]
    border = _last_compaction(links, places, talk[-1]) if talk else None
    if border is None:
        return Withheld()
    kept = _preserved(links, places, links[border])
    before = {
        name
        for link in links[:border]
        if link.uuid and link.uuid not in kept
        for name in (link.uuid, link.cortext.id if link.cortext else "")
        if name
    }
    return Withheld(messages={BEFORE: before})


def _last_compaction(links: list[_Link], places: dict[str, int], leaf: _Link) -> int | None:
    link = leaf
    for _ in links:
        place = places.get(link.uuid or "")
        if place is not None and link.subtype == "compact_boundary":
            return place
        above = places.get(link.parentUuid or "")
        if above is None:
            return None
        link = links[above]
    return None


def _preserved(links: list[_Link], places: dict[str, int], border: _Link) -> set[str]:
    """What a compaction leaves in place: a stretch of records that it names by its ends."""
    segment = (border.compactMetadata or {}).get("preservedSegment")
    if not isinstance(segment, dict):
        return set()
    kept: set[str] = set()
    name = segment.get("tailUuid")
    while isinstance(name, str) and name in places and name not in kept:
        kept.add(name)
        name = None if name == segment.get("headUuid") else links[places[name]].parentUuid
    return kept
