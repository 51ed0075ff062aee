"""What `cortext tools` shows of the matrix of pairs: the data file in the package, from the results of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from cortext.services.workspace.installed_tools import PAIRS, ProvenPairs, code_of


class Result(Protocol):
    """The result for one pair in one kind of home: a row of the matrix."""

    @property
    def source(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def versions(self) -> tuple[str, ...]: ...

    @property
    def date(self) -> str: ...

    @property
    def passed(self) -> bool: ...

    @property
    def is_older(self) -> bool: ...


def proven(rows: Sequence[Result]) -> dict[str, ProvenPairs]:
    """Return the pairs of each tool. A pair has passed if it did in every home in which it was run.

    What was run with older code proves nothing about this version.
    """
    pairs: dict[tuple[str, str], bool] = {}
    found: dict[str, ProvenPairs] = {}
    for row in (row for row in rows if not row.is_older):
        pair = (row.source, row.target)
        pairs[pair] = pairs.get(pair, True) and row.passed
        for name, version in zip(pair, row.versions, strict=True):
            tool = found.setdefault(name, ProvenPairs(version=version, date=row.date, code=code_of(name)))
            tool.date = max(tool.date, row.date)
    for (source, target), passed in pairs.items():
        found[source].run_from += 1
        found[source].passed_from += passed
        found[target].run_to += 1
        found[target].passed_to += passed
    return found


def write(rows: Sequence[Result], path: Path = Path(PAIRS)) -> None:
    """Write the data file."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(proven(rows))) + b"\n")
