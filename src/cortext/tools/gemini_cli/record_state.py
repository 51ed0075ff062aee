"""What has been reported of a record so far, and the fingerprints by which a repeated text is recognised."""

from __future__ import annotations

import re
import zlib

import msgspec

# A text of this length or more is remembered by its fingerprint alone.
LONG = 10_000
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)


class RecordState(msgspec.Struct, array_like=True, gc=False):
    """What has been reported of a record so far: its text (or the fingerprint), the number of calls, the results."""

    text: str | int = ""
    has_message: bool = False
    calls: int = 0
    versions: int = 0
    answered: list[str] = []


def has_other_text(text: str, record_state: RecordState) -> bool:
    """Whether a record whose text was reported now has a different one."""
    if not text or text == record_state.text:
        return False
    return fingerprint(text) != (
        record_state.text if isinstance(record_state.text, int) else fingerprint(record_state.text)
    )


def fingerprint(text: str) -> int:
    """Return a checksum of a text that ignores what Gemini CLI strips: comments and surrounding whitespace."""
    if "<!--" in text:
        text = _COMMENTS.sub("", text)
    text = text.strip()
    return zlib.crc32(f"{len(text)}\0{text[:500]}\0{text[-500:]}".encode("utf-8", "surrogatepass"))
