"""What was proven about pairs of tools: a conversation held in one program and resumed in another (docs/pairs.md).

`python -m tests.tools.matrix` runs the pairs with the real programs and writes `pairs.json` beside this module.
"""

from __future__ import annotations

import os

import msgspec

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pairs.json")


class ProvenPairs(msgspec.Struct, kw_only=True):
    """One tool's pairs, that with itself included: how many were run and how many passed, from it and to it.

    `date` is the day of the last run.
    """

    version: str
    date: str
    run_from: int = 0
    passed_from: int = 0
    run_to: int = 0
    passed_to: int = 0


def load() -> dict[str, ProvenPairs]:
    """Return the pairs by tool, as they ship with this version; empty if none were run."""
    try:
        with open(PATH, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, ProvenPairs])
    except FileNotFoundError:
        return {}
