"""What we note in the records that we write for Codex."""

from __future__ import annotations

from cortext.tools.shared import mark


class Mark(mark.Mark, omit_defaults=True, gc=False):
    """`of` says how many records the message has, `more` that this is not the first of them."""

    of: int = 1
    more: bool = False
    title: str = ""
