"""Every pair of programs: a conversation held in one is resumed in another, and the request is compared.

    python -m tests.tools.matrix                          all pairs of the programs that adapters can write for
    python -m tests.tools.matrix --tools claude,qwen,pi   only these
    python -m tests.tools.matrix --again                  also the pairs that passed before

Each pair is run twice: in a home folder in which the target was never used, and in one in which it was used before with
another provider. Results are kept in `.cache/matrix`, so that an interrupted run continues where it stopped; a pair is
run again when a program has another version. At the end `docs/pairs.md` is written. Twelve programs need about 4 GB of
disk (see CONTRIBUTING.md).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from tests.support.ai_programs import PROGRAMS
from tests.support.desk import MORE_NAMES, NAMES, Desk
from tests.support.model_server import ModelServer
from tests.support.pairs import DATA, Outcome, Said, captured_again, compare, copied, hold, imported, resumed
from tests.support.runners import make_tool
from tests.tools import matrix_data

from cortext.services.library.stores import Found
from cortext.tools import registry
from cortext.wiring.stores import Stores

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pairs.md"
FRESH, USED = "fresh", "used"
HOMES = {FRESH: "In a new home folder", USED: "Where the target was used before, with another provider"}
INTRODUCTION = """# Pairs of tools

A conversation was held in the program of each row and resumed in the program of each column. It has a paste of 30 kB,
two tool calls at once, a call that fails, a message that begins with `/`, an `@file` and Unicode. What the model then
received was compared with the receipt: every text in its order and role, every call paired with its result.
`python -m tests.tools.matrix` repeats it.

Each cell: messages, tool calls. † something was changed or left out on the way (see below). ✗ did not pass.
"""
RUNNERS = NAMES | MORE_NAMES


class Row(msgspec.Struct, kw_only=True):
    """The result for one pair and one kind of home."""

    source: str
    target: str
    home: str
    versions: tuple[str, ...]
    date: str
    seconds: float = 0.0
    outcome: Outcome | None = None
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether the conversation arrived as the receipt says."""
        return self.outcome is not None and not self.outcome.problems


class Results:
    """The results of this and of earlier runs, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, source: str, target: str, home: str) -> Row | None:
        """Return the result for the current versions of both programs; None if there is none."""
        try:
            row = msgspec.json.decode(self._path(source, target, home).read_bytes(), type=Row)
        except (OSError, msgspec.MsgspecError):
            return None
        return row if row.versions == versions(source, target) else None

    def put(self, row: Row) -> None:
        """Keep a result."""
        self._path(row.source, row.target, row.home).write_bytes(msgspec.json.format(msgspec.json.encode(row)))

    def _path(self, source: str, target: str, home: str) -> Path:
        return self._folder / f"{source}-{target}-{home}.json"


def versions(*names: str) -> tuple[str, ...]:
    """Return the versions of programs that the tests use."""
    return tuple(PROGRAMS[RUNNERS[name]].version for name in names)


def run(names: Sequence[str], results: Results, *, again: bool) -> list[Row]:
    """Run what has no result yet, and return all rows."""
    for source in names:
        wanted = [
            (target, home)
            for target in names
            for home in (FRESH, USED)
            if again or not ((row := results.get(source, target, home)) and row.passed)
        ]
        if wanted:
            with tempfile.TemporaryDirectory(prefix="matrix-") as folder, ModelServer() as server:
                _run_source(source, wanted, results, Path(folder), server)
    rows = [results.get(source, target, home) for source in names for target in names for home in (FRESH, USED)]
    return [row for row in rows if row is not None]


def _run_source(
    source: str, wanted: Sequence[tuple[str, str]], results: Results, folder: Path, server: ModelServer
) -> None:
    """Hold the conversation once and resume it in every wanted target."""
    desk = Desk(folder / "source", server, names=(source,))
    project = desk.project()
    said: list[Said] = []
    failed = ""
    try:
        said = hold(desk, source, project)
        with environment(desk):
            imported(desk, Stores(str(desk.home)), source, project)
    except (AssertionError, OSError) as error:
        failed = f"the conversation could not be held: {error}"
    for target, home in wanted:
        row = Row(
            source=source,
            target=target,
            home=home,
            versions=versions(source, target),
            date=time.strftime("%Y-%m-%d"),
            error=failed,
        )
        started = time.monotonic()
        if not failed:
            _run_pair(row, desk, said, project, folder / f"{target}-{home}")
        row.seconds = round(time.monotonic() - started, 1)
        results.put(row)
        _say(row)


def _run_pair(row: Row, source: Desk, said: Sequence[Said], project: Path, folder: Path) -> None:
    try:
        if row.home == USED:
            _use_before(row.target, folder)
        desk = Desk(folder, source.server, names=(row.target,))
        shutil.copytree(source.home / DATA, desk.home / DATA, dirs_exist_ok=True)
        desk.tools[row.target].trust(project)
        source.server.forget()
        with environment(desk):
            stores = Stores(str(desk.home))
            found = copied(_only_session(stores), row.target)
            plan, request = resumed(desk, stores, found, row.target, project)
            row.outcome = compare(request, plan, said)
            row.outcome.problems += captured_again(desk, found, row.target)
    except Exception as error:  # one failing pair must not end the run; it is reported
        row.error = f"{type(error).__name__}: {error}"


def _use_before(target: str, folder: Path) -> None:
    """Hold a conversation in the program with another provider, in another project."""
    with ModelServer() as other:
        tool = make_tool(RUNNERS[target], folder / "home", other.url)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir(parents=True)
        tool.trust(elsewhere)
        done = tool.run("Please put the kettle on.", cwd=elsewhere)
        assert done.returncode == 0, f"{target}: {done.stderr[-2000:]}"


def _only_session(stores: Stores) -> Found:
    [found] = [Found(store, session) for store in stores.all() for session in store.store.sessions()]
    return found


@contextmanager
def environment(desk: Desk) -> Iterator[None]:
    """Use the environment of a desk in this process, as `cortext` would have it there."""
    before = dict(os.environ)
    os.environ.update(desk.env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# ── the report ───────────────────────────────────────────────────────────────────────────────────────


def _say(row: Row) -> None:
    outcome = "passed" if row.passed else row.error or "; ".join(row.outcome.problems if row.outcome else ())
    print(f"{row.source:9} → {row.target:9} {row.home:6} {row.seconds:6.1f} s  {outcome[:400]}", flush=True)


def page(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return docs/pairs.md."""
    passed = sum(row.passed for row in rows)
    dates = sorted({row.date for row in rows})
    lines = [INTRODUCTION]
    if dates:
        lines.append(f"{passed} of {len(rows)} runs passed, {dates[0]} to {dates[-1]}.")
    for home, title in HOMES.items():
        cells = {(row.source, row.target): row for row in rows if row.home == home}
        lines += ["", f"## {title}", "", "| from \\ to | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        lines += [
            f"| {source} | " + " | ".join(_cell(cells.get((source, target))) for target in names) + " |"
            for source in names
        ]
    lines += ["", "## What was changed", "", "| to | change |", "|---|---|"]
    for target in names:
        kinds = sorted({kind for row in rows if row.target == target and row.outcome for kind in row.outcome.changed})
        lines += [f"| {target} | {', '.join(kinds)} |"] if kinds else []
    lines += ["", "## Versions", "", "| tool | program | version |", "|---|---|---|"]
    lines += [f"| {name} | {registry.title_of(name)} | {versions(name)[0]} |" for name in names]
    return "\n".join(lines) + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.outcome is None:
        return "✗"
    outcome = row.outcome
    mark = ("†" if outcome.changed or outcome.left_out else "") + ("" if row.passed else " ✗")
    return f"{outcome.messages}/{outcome.of_messages}, {outcome.calls}/{outcome.of_calls}{mark}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix and write the page; return 1 if a pair did not pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tools", default="", help="comma-separated names (default: all that can be run)")
    parser.add_argument("--again", action="store_true", help="also run the pairs that passed before")
    parser.add_argument("--results", type=Path, default=ROOT / ".cache" / "matrix", help="where results are kept")
    chosen = parser.parse_args(arguments)
    known = [name for name in RUNNERS if registry.is_known(name)]
    names = [name.strip() for name in chosen.tools.split(",") if name.strip()] or known
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no program for {', '.join(unknown)}; use some of {', '.join(known)}")
    rows = run(names, Results(chosen.results), again=chosen.again)
    if names == known:
        PAGE.write_text(page(names, rows), encoding="utf-8")
        matrix_data.write(rows)
    failed = [row for row in rows if not row.passed]
    print(f"{len(rows) - len(failed)} of {len(rows)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
