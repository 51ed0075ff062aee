"""Every pair of programs: a conversation held in one is resumed in another, and the request is compared.

    python -m tests.tools.matrix                          all pairs of the programs that adapters can write for
    python -m tests.tools.matrix --tools claude,qwen,pi   only these
    python -m tests.tools.matrix --from claude            only from this one, into each of them
    python -m tests.tools.matrix --again                  hold the conversations again and run every pair
    python -m tests.tools.matrix --moves                  instead: projects that move, conversations that are put back
    python -m tests.tools.matrix --newest                 instead: the newest package of each program, for every night
    python -m tests.tools.matrix --page                   write the page from the results so far

Each pair is launched as a user does it, with `cortext resume` in a terminal, twice: in a home folder in which the
target was never used, and in one in which it was used before with another provider. Then each program opens its own
session, where it was held. Results are kept in `.cache/matrix`, and the conversations next to the programs, so that an
interrupted run continues where it stopped; a pair is run again when a program has another version or the adapters have
changed. A pair that did not pass leaves its home there in a folder `failed-…`. At the end `docs/pairs.md` is written.
CONTRIBUTING.md says what all this needs.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.support.model_server import ModelServer
from tests.support.pairs import Conversation
from tests.tools import matrix_data, matrix_moves, matrix_newest
from tests.tools.matrix_page import HOMES, ITSELF, RUNNERS, Row, page, versions, with_state
from tests.tools.matrix_runs import WORK, copy, held_in, row_of

from cortext.services.workspace.installed_tools import proven_pairs
from cortext.tools import registry

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pairs.md"


class Results:
    """The results of this and of earlier runs, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, source: str, target: str, home: str) -> Row | None:
        """Return the result for the current versions of both programs, perhaps of older code; None if there is none."""
        try:
            row = msgspec.json.decode(self._path(source, target, home).read_bytes(), type=Row)
        except (OSError, msgspec.MsgspecError):
            return None
        return row if row.versions == versions(source, target) else None

    def all(self, names: Sequence[str]) -> list[Row]:
        """Return every result, by source and target."""
        rows = [self.get(source, target, home) for source in names for target in names for home in HOMES]
        rows += [self.get(name, name, ITSELF) for name in names]
        return [row for row in rows if row is not None]

    def put(self, row: Row) -> None:
        """Keep a result."""
        self._path(row.source, row.target, row.home).write_bytes(msgspec.json.format(msgspec.json.encode(row)))

    def _path(self, source: str, target: str, home: str) -> Path:
        return self._folder / f"{source}-{target}-{home}.json"


def run(names: Sequence[str], results: Results, work: Path, *, sources: Sequence[str], again: bool) -> None:
    """Run what has no result yet."""
    wanted = [pair for pair in in_order(names) if pair[0] in sources]
    wanted = [pair for pair in wanted if again or not is_done(results.get(*pair))]
    if again:
        shutil.rmtree(work, ignore_errors=True)
    held: dict[str, Conversation | str] = {}
    with ModelServer() as server:
        for source, target, home in wanted:
            if source not in held:
                held[source] = held_in(source, work / f"{source}-{versions(source)[0]}", server)
            row = row_of(held[source], source, target, home, work / "pair", server)
            results.put(row)
            print(row.line, flush=True)
            if not row.passed and (work / "pair").exists():  # to look at; the next pair uses the folder
                copy(work / "pair", work / f"failed-{source}-{target}-{home}")


def is_done(row: Row | None) -> bool:
    """Whether a result need not be made again."""
    return row is not None and row.passed and not row.is_older


def in_order(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return every program with its own session and every pair with every home; the first rounds have every program."""
    rounds = sorted(itertools.product(HOMES, range(1, len(names) + 1)), key=lambda round_: round_[1] > 1)
    pairs = [
        (source, names[(number + distance) % len(names)], home)
        for home, distance in rounds
        for number, source in enumerate(names)
    ]
    return [*((name, name, ITSELF) for name in names), *pairs]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix and write the page; return 1 if a pair did not pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tools", default="", help="comma-separated names (default: all that can be run)")
    parser.add_argument("--from", default="", dest="sources", help="comma-separated names (default: the same)")
    parser.add_argument("--again", action="store_true", help="hold the conversations again and run every pair")
    parser.add_argument("--moves", action="store_true", help="run moved projects and lost conversations, not the pairs")
    parser.add_argument("--newest", action="store_true", help="install the newest packages, run each, say what changed")
    parser.add_argument("--page", action="store_true", help="run nothing: write the page from the results so far")
    parser.add_argument("--results", type=Path, default=ROOT / ".cache" / "matrix", help="where results are kept")
    parser.add_argument("--work", type=Path, default=WORK, help="where the conversations are held")
    chosen = parser.parse_args(arguments)
    known = [name for name in RUNNERS if registry.is_known(name)]
    names = _names(chosen.tools) or known
    sources = _names(chosen.sources) or names
    unknown = [name for name in (*names, *sources) if name not in known]
    if unknown:
        parser.error(f"no program for {', '.join(unknown)}; use some of {', '.join(known)}")
    results, cases = Results(chosen.results), matrix_moves.Cases(chosen.results)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the program that is running is stopped, too
    if chosen.newest:
        return 0 if matrix_newest.run(names, chosen.work) else 1
    if chosen.moves and not chosen.page:
        matrix_moves.run(names, cases, chosen.work, again=chosen.again)
    elif not chosen.page:
        run(names, results, chosen.work, sources=sources, again=chosen.again)
    rows = results.all(names)
    if names == known and not rows:  # no run is kept here: the page stays, and says how old it is
        PAGE.write_text(with_state(PAGE.read_text(encoding="utf-8"), proven_pairs()), encoding="utf-8")
        return 0
    if names == known:
        PAGE.write_text(page(names, rows, matrix_moves.tables(cases.all())), encoding="utf-8")
        matrix_data.write(rows)
    passed = [case.passed for case in cases.all().values()] if chosen.moves else [row.passed for row in rows]
    print(f"{sum(passed)} of {len(passed)} passed")
    return 0 if all(passed) else 1


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]


if __name__ == "__main__":
    sys.exit(main())
