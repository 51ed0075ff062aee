"""`cortext sync`: only what is new since the last time. The same as a second import, said shortly."""

from __future__ import annotations

from cortext.faces.cortext.commands import import_


def run(arguments: list[str]) -> int:
    """Take in what is new."""
    import_.parser("sync").parse_args(arguments)
    return import_.run(arguments)
