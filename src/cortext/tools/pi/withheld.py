"""What Pi does not send to the model when it resumes a session of its own."""

from __future__ import annotations

from cortext.tools.base import Counts, Withheld
from cortext.tools.pi.records import COMPACTION, EDIT, SESSION, Record, decoder
from cortext.tools.shared.lines import ForeignLines

REMOVED = "message that was removed from the context of Pi"
REPLACED = "message that Pi sends with another text"


def withheld(path: str) -> Withheld | None:
    """Return what was edited on the current branch; None after a compaction, which leaves a summary."""
    lines = ForeignLines(path, 0, Counts())
    records = (record for line in lines for record in lines.decode(line, decoder, Record))
    found = {record.id: record for record in records if record.id and record.type != SESSION}
    edits: dict[str, bool] = {}  # the newest edit of each entry: whether it removes it
    record = next(reversed(found.values()), None)
    while record is not None:
        if record.type == COMPACTION:
            return None
        if record.type == EDIT and record.targetId:
            edits.setdefault(record.targetId, record.replacement is None)
        found.pop(record.id)
        record = found.get(record.parentId or "")
    removed = {target for target, removes in edits.items() if removes}
    replaced = len(edits) - len(removed)
    return Withheld(messages={REMOVED: removed} if removed else {}, changed={REPLACED: replaced} if replaced else {})
