"""Every pair of programs: a conversation held in one is resumed in another, and the request is compared.

    python -m tests.tools.matrix                          all pairs of the programs that adapters can write for
    python -m tests.tools.matrix --tools claude,qwen,pi   only these
    python -m tests.tools.matrix --again                  hold the conversations again and run every pair
    python -m tests.tools.matrix --moves                  instead: projects that move, conversations that are put back
    python -m tests.tools.matrix --page                   write the page from the results so far

Each pair is run twice: in a home folder in which the target was never used, and in one in which it was used before with
another provider. Results are kept in `.cache/matrix`, and the conversations next to the programs, so that an
interrupted run continues where it stopped; a pair is run again when a program has another version or the adapters have
changed. A pair that did not pass leaves its home there in a folder `failed-…`. At the end `docs/pairs.md` is written.
CONTRIBUTING.md says what all this needs.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.support.ai_programs import programs_folder
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Request
from tests.support.pairs import (
    DATA,
    TURN_SECONDS,
    Conversation,
    captured_again,
    compare,
    copied,
    hold,
    imported,
    resumed,
)
from tests.support.runners import make_tool
from tests.tools import matrix_data, matrix_moves
from tests.tools.matrix_page import HOMES, RUNNERS, USED, Row, code_of, page, reason, versions

from cortext.services.library.stores import Found
from cortext.tools import registry
from cortext.wiring.stores import Stores

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pairs.md"
# Outside of this repository, which the programs would take for their project.
WORK = programs_folder().parent / "matrix"


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
        return [row for row in rows if row is not None]

    def put(self, row: Row) -> None:
        """Keep a result."""
        self._path(row.source, row.target, row.home).write_bytes(msgspec.json.format(msgspec.json.encode(row)))

    def _path(self, source: str, target: str, home: str) -> Path:
        return self._folder / f"{source}-{target}-{home}.json"


def run(names: Sequence[str], results: Results, work: Path, *, again: bool) -> None:
    """Run what has no result yet."""
    wanted = [pair for pair in in_order(names) if again or not is_done(results.get(*pair))]
    if again:
        shutil.rmtree(work, ignore_errors=True)
    held: dict[str, Conversation | str] = {}
    with ModelServer() as server:
        for source, target, home in wanted:
            if source not in held:
                held[source] = _held(source, work / f"{source}-{versions(source)[0]}", server)
            row = _row(held[source], source, target, home, work / "pair", server)
            results.put(row)
            _say(row)
            if not row.passed and (work / "pair").exists():  # to look at; the next pair uses the folder
                _copy(work / "pair", work / f"failed-{source}-{target}-{home}")


def is_done(row: Row | None) -> bool:
    """Whether a result need not be made again."""
    return row is not None and row.passed and not row.is_older


def in_order(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return every pair with every home. First come rounds that have every program in every home, then the others."""
    rounds = sorted(itertools.product(HOMES, range(1, len(names) + 1)), key=lambda round_: round_[1] > 1)
    return [
        (source, names[(number + distance) % len(names)], home)
        for home, distance in rounds
        for number, source in enumerate(names)
    ]


def _held(source: str, folder: Path, server: ModelServer) -> Conversation | str:
    """Hold the conversation, unless an earlier run did, and import it; if that could not be done, return why."""
    done = folder / "held.json"
    was_held = done.exists()
    if not was_held:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(folder / "bin", ignore_errors=True)
    desk = Desk(folder, server, names=(source,))
    server.forget()
    try:
        if not was_held:
            project = desk.project()
            held = Conversation(desk.home, project, hold(desk, source, project))
            done.write_bytes(msgspec.json.encode(held, enc_hook=str))
        held = msgspec.json.decode(done.read_bytes(), type=Conversation, dec_hook=_path)
        desk.tools[source].trust(held.project)
        for kept in (DATA, Path(".cache", "cortext")):  # of an earlier import, perhaps by older code
            shutil.rmtree(desk.home / kept, ignore_errors=True)
        with desk.environment():
            imported(desk, Stores(str(desk.home)), source, held.project)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return f"the conversation could not be held: {reason(error)}"
    return held


def _path(kind: type, value: object) -> Path:
    return Path(str(value))


def _row(held: Conversation | str, source: str, target: str, home: str, folder: Path, server: ModelServer) -> Row:
    """Resume a held conversation in a target."""
    row = Row(
        source=source,
        target=target,
        home=home,
        versions=versions(source, target),
        date=time.strftime("%Y-%m-%d"),
        code=code_of(source, target),
    )
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    try:
        if isinstance(held, str):
            row.error = held
        else:
            _run_pair(row, held, folder, server)
    except Exception as error:  # one failing pair must not end the run; it is reported
        row.error = reason(error)
    row.seconds = round(time.monotonic() - started, 1)
    return row


def _run_pair(row: Row, held: Conversation, folder: Path, server: ModelServer) -> None:
    if row.home == USED:
        _copy(_used_before(row.target, folder), folder)
    desk = Desk(folder, server, names=(row.target,))
    shutil.copytree(held.home / DATA, desk.home / DATA, dirs_exist_ok=True)
    desk.tools[row.target].trust(held.project)
    server.forget()
    with desk.environment():
        stores = Stores(str(desk.home))
        found = copied(_only_session(stores), row.target)
        plan, request = resumed(desk, stores, found, row.target, held.project)
        row.outcome = compare(request, plan, held.said)
        if _model(request) == desk.tools[row.target].another_model:
            row.outcome.problems.append(f"it asked {_model(request)}, which it was used with before")
        row.outcome.problems += captured_again(desk, found, row.target)


def _used_before(target: str, folder: Path) -> Path:
    """Return a copy of the folder after the program was used there with another provider, in another project."""
    kept = folder.parent / f"used-{target}-{versions(target)[0]}"
    if not kept.exists():
        with ModelServer() as other:
            tool = make_tool(RUNNERS[target], folder / "home", other.url)
            tool.choose_another_model()
            elsewhere = folder / "elsewhere"
            elsewhere.mkdir(parents=True)
            tool.trust(elsewhere)
            done = tool.run("Please put the kettle on.", cwd=elsewhere, timeout=TURN_SECONDS)
            assert done.returncode == 0, f"{target}: {done.stderr[-2000:]}"
            assert _model(other.turns[-1]) == tool.another_model, f"{target} asked {_model(other.turns[-1])}"
        _copy(folder, kept)
    return kept


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with a home. Paths are in a program's records, so a home is used only where it was made."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))


def _model(request: Request) -> str:
    """Return the model that a request asks; Gemini's API has it in the path."""
    return str(request.body.get("model") or request.path.rpartition("/")[2].partition(":")[0])


def _only_session(stores: Stores) -> Found:
    [found] = [Found(store, session) for store in stores.all() for session in store.store.sessions()]
    return found


def _say(row: Row) -> None:
    outcome = "passed" if row.passed else row.problem
    print(f"{row.source:9} → {row.target:9} {row.home:6} {row.seconds:6.1f} s  {outcome[:400]}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix and write the page; return 1 if a pair did not pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tools", default="", help="comma-separated names (default: all that can be run)")
    parser.add_argument("--again", action="store_true", help="hold the conversations again and run every pair")
    parser.add_argument("--moves", action="store_true", help="run moved projects and lost conversations, not the pairs")
    parser.add_argument("--page", action="store_true", help="run nothing: write the page from the results so far")
    parser.add_argument("--results", type=Path, default=ROOT / ".cache" / "matrix", help="where results are kept")
    parser.add_argument("--work", type=Path, default=WORK, help="where the conversations are held")
    chosen = parser.parse_args(arguments)
    known = [name for name in RUNNERS if registry.is_known(name)]
    names = [name.strip() for name in chosen.tools.split(",") if name.strip()] or known
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no program for {', '.join(unknown)}; use some of {', '.join(known)}")
    results, cases = Results(chosen.results), matrix_moves.Cases(chosen.results)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the program that is running is stopped, too
    if chosen.moves and not chosen.page:
        matrix_moves.run(names, cases, chosen.work, again=chosen.again)
    elif not chosen.page:
        run(names, results, chosen.work, again=chosen.again)
    rows = results.all(names)
    if names == known:
        PAGE.write_text(page(names, rows, matrix_moves.tables(cases.all())), encoding="utf-8")
        matrix_data.write(rows)
    passed = [case.passed for case in cases.all().values()] if chosen.moves else [row.passed for row in rows]
    print(f"{sum(passed)} of {len(passed)} passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
