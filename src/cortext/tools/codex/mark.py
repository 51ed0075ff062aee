"""Our own field in the records that we write for Codex."""

from __future__ import annotations

from cortext.tools.shared import mark


class Mark(mark.Mark, omit_defaults=True, gc=False):
    """`of` is the number of records of the message; `more` is set on all but the first of them."""

    of: int = 1
    more: bool = False
    title: str = ""
