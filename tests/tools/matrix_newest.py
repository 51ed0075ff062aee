"""The newest package of each program, beside the tested one: what is new, and whether conversations still cross.

For a nightly run: `python -m tests.tools.matrix --newest`. Each program with a newer package is installed, and a
conversation is held in it. It opens its own session, receives a conversation of the tested Claude Code, and its own
one is resumed there, each time as `cortext resume` does it. What it records is read, and unknown kinds are counted.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from tests.support.ai_programs import PROGRAMS, ensure, use
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.pairs import Conversation
from tests.tools.matrix_page import FRESH, ITSELF, RUNNERS, Row, reason, versions
from tests.tools.matrix_runs import held_in, row_of

from cortext.wiring import tools

REFERENCE = "claude"


class Newest(msgspec.Struct, kw_only=True):
    """What was found out about the newest package of a program."""

    tool: str
    tested: str
    newest: str = ""
    rows: list[Row] = []
    unread: dict[str, int] = {}  # what its records have that the adapter does not know or could not read, by kind
    error: str = ""

    @property
    def is_newer(self) -> bool:
        """Whether there is a package that the tests do not run with."""
        return bool(self.newest) and self.newest != self.tested

    @property
    def passed(self) -> bool:
        """Whether everything works as with the tested version."""
        return not self.error and not self.unread and all(row.passed for row in self.rows)

    def lines(self) -> Iterator[str]:
        """Yield the report: a line for the program, and one for each thing that is not as it was."""
        what = f"{self.tested} → {self.newest}" if self.is_newer else f"{self.tested} is the newest"
        works = f"{sum(row.passed for row in self.rows)} of {len(self.rows)} launches passed"
        ending = self.error or (works if self.is_newer else "")
        yield f"{self.tool:9} {what}{f': {ending}' if ending else ''}"
        yield from (f"  {row.source} → {row.target} ({row.home}): {row.problem}" for row in self.rows if not row.passed)
        yield from (f"  not read: {count} × {kind}" for kind, count in self.unread.items())


def run(names: Sequence[str], work: Path) -> bool:
    """Try the newest package of each program and print the report; return whether everything works."""
    found = []
    with ModelServer() as server:
        for name in names:
            found.append(tried(name, work, server))
            print("\n".join(found[-1].lines()), flush=True)
    newer = [one for one in found if one.is_newer]
    print(
        f"{len(newer)} of {len(found)} programs have a newer package, {sum(one.passed for one in newer)} work with it"
    )
    return all(one.passed for one in found)


def tried(name: str, work: Path, server: ModelServer) -> Newest:
    """Try the newest package of a program, if it is newer than the tested one."""
    program = PROGRAMS[RUNNERS[name]]
    result = Newest(tool=name, tested=program.version)
    try:
        result.newest = program.newest()
        if result.is_newer:
            with _version_of(RUNNERS[name], result.newest):
                ensure(RUNNERS[name])
                result.rows, result.unread = _launched(name, work / "newest", server)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        result.error = reason(error)
    return result


@contextmanager
def _version_of(program: str, version: str) -> Iterator[None]:
    """Use another version of a program in the block."""
    tested = PROGRAMS[program].version
    use(program, version)
    try:
        yield
    finally:
        use(program, tested)


def _launched(name: str, work: Path, server: ModelServer) -> tuple[list[Row], dict[str, int]]:
    """Return the launches of a program, and what of its own conversation is not read."""
    folders = {one: work / f"{one}-{versions(one)[0]}" for one in (name, REFERENCE)}
    held = {one: held_in(one, folder, server) for one, folder in folders.items()}
    pairs = [(name, name, ITSELF), (REFERENCE, name, FRESH), (name, REFERENCE, FRESH)]
    rows = [row_of(held[pair[0]], *pair, work / "pair", server) for pair in dict.fromkeys(pairs)]
    own = held[name]
    return rows, _unread(name, own, server) if isinstance(own, Conversation) else {}


def _unread(name: str, held: Conversation, server: ModelServer) -> dict[str, int]:
    """Count what a program recorded and its adapter does not know, or could not read."""
    counts = Counter[str]()
    folder = held.home.parent
    shutil.rmtree(folder / "bin", ignore_errors=True)
    with Desk(folder, server, names=(name,)).environment():
        tool = tools.native_writer(name)
        for transcript in tool.transcripts(str(held.project)):
            reading = tool.read(transcript)
            for _ in reading:
                pass
            counts.update(reading.counts.unknown)
            counts.update(reading.counts.damaged)
    return dict(counts)
