"""What Qwen Code does not send to the model when it resumes a session of its own."""

from __future__ import annotations

from cortext.tools.base import Counts, Withheld
from cortext.tools.qwen_code.records import COMPACTION, SPOKEN, Record, decoder
from cortext.tools.shared.lines import ForeignLines

CALLS = "message of a voice call (Qwen Code does not send it again)"


def withheld(path: str) -> Withheld | None:
    """Return the messages of voice calls; None after a compaction, which leaves a summary of what was said before."""
    lines = ForeignLines(path, 0, Counts())
    found = {record.uuid: record for line in lines for record in lines.decode(line, decoder, Record) if record.uuid}
    spoken: set[str] = set()
    record = next(reversed(found.values()), None)
    while record is not None:  # back along the branch that Qwen Code resumes
        if record.subtype == COMPACTION:
            return None
        if record.subtype == SPOKEN:
            spoken.add(record.uuid)
        found.pop(record.uuid)
        record = found.get(record.parentUuid or "")
    return Withheld(messages={CALLS: spoken} if spoken else {})
