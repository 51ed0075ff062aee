"""Every light program: its project moves, and it loses a conversation that is put back (`tests.tools.matrix --moves`).

The conversation of each program is held once and kept; each move and each loss begins with a copy of it, at the path
at which it was held, because paths are in a program's records.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from tests.support.ai_programs import PROGRAMS
from tests.support.desk import Desk
from tests.support.losses import LOSSES, WITHOUT_LINES, problems_after_loss
from tests.support.model_server import ModelServer
from tests.support.moves import MOVES, Place, after_move, hold_about_a_note, make_project
from tests.tools.matrix_page import RUNNERS, line, reason, short, table, versions

from cortext.services.workspace.installed_tools import code_of

LIGHT = [name for name, runner in RUNNERS.items() if not PROGRAMS[runner].heavy]
CASES = [*MOVES, *LOSSES]
INTRODUCTION = """## When a project moves

A conversation about a file was held in each program that the test command installs, and imported. Then its project
moved, and it was continued there in the same program. Its model received the paths of today in every text and call, as
many as the receipt says, and none of the old ones; what was said there was captured again, and nothing else. In each
cell: how many paths were mapped, and what the program itself did with a plain copy of its own file, the control: it did
not find the session from the new folder, or it sent the old paths.

*cloned*: and the first folder deleted. *another user*: the folder with the home and the project has another name.
*another machine*: a clone in another home, with what cortext has kept and without the program's files.
"""
PUT_BACK = """## When a program loses a conversation

The same conversation was lost and put back with `cortext restore --into`. After that the program's own list showed it,
and its own resume sent it to the model, with the tool call and its result.

*removed*: its file or folder is deleted. *hidden*: the folder with all conversations has another name, as after an
update that looks for them elsewhere. *broken*: a record in the middle of its file is cut (n/a where a conversation is
not a file of records).
"""


class Case(msgspec.Struct, kw_only=True):
    """The result for one program and one move or loss."""

    tool: str
    name: str
    version: str
    date: str
    code: str
    seconds: float = 0.0
    said: str = ""
    problems: list[str]

    @property
    def passed(self) -> bool:
        """Whether nothing was lost."""
        return not self.problems

    @property
    def is_older(self) -> bool:
        """Whether the code has changed since."""
        return self.code != code_of(self.tool)


class Cases:
    """The results of this and of earlier runs, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "moves"
        self._folder.mkdir(parents=True, exist_ok=True)

    def get(self, tool: str, name: str) -> Case | None:
        """Return the result for the current version of the program, perhaps of older code; None if there is none."""
        try:
            case = msgspec.json.decode(self._path(tool, name).read_bytes(), type=Case)
        except (OSError, msgspec.MsgspecError):
            return None
        return case if (case.version,) == versions(tool) else None

    def all(self) -> dict[tuple[str, str], Case]:
        """Return every result."""
        found = {(tool, name): self.get(tool, name) for tool in LIGHT for name in CASES}
        return {key: case for key, case in found.items() if case is not None}

    def put(self, case: Case) -> None:
        """Keep a result."""
        self._path(case.tool, case.name).write_bytes(msgspec.json.format(msgspec.json.encode(case)))

    def _path(self, tool: str, name: str) -> Path:
        return self._folder / f"{tool}-{name.replace(' ', '-')}.json"


def run(names: Sequence[str], cases: Cases, work: Path, *, again: bool) -> None:
    """Run what has no result yet."""
    for tool in (name for name in names if name in LIGHT):
        for name in CASES:
            case = cases.get(tool, name)
            is_done = case is not None and case.passed and not case.is_older
            if applies(tool, name) and (again or not is_done):
                case = result_of(tool, name, work)
                cases.put(case)
                said = short("; ".join(case.problems)) or f"passed {case.said}"
                print(f"{tool:9} {name:16} {case.seconds:6.1f} s  {said}", flush=True)


def applies(tool: str, name: str) -> bool:
    """Whether a program can have that happen."""
    return not (name == "broken" and tool in WITHOUT_LINES)


def result_of(tool: str, name: str, work: Path) -> Case:
    """Run a move or a loss with the real program."""
    [version] = versions(tool)
    case = Case(tool=tool, name=name, version=version, date=time.strftime("%Y-%m-%d"), code=code_of(tool), problems=[])
    started = time.monotonic()
    try:
        with ModelServer() as server:
            place, key = _held(tool, version, work, server)
            if name in MOVES:
                after = after_move(MOVES[name], place, key)
                case.problems, case.said = after.problems, f"{after.paths}; {after.control}"
            else:
                case.problems = problems_after_loss(LOSSES[name], place, key)
    except Exception as error:  # one failing case must not end the run; it is reported
        case.problems = [reason(error)]
    case.seconds = round(time.monotonic() - started, 1)
    return case


def _held(tool: str, version: str, work: Path, server: ModelServer) -> tuple[Place, str]:
    """Return the machine as it was when the conversation ended, and the conversation's id in the program."""
    kept, folder = work / f"note-{tool}-{version}", work / f"move-{tool}" / "bob"
    shutil.rmtree(folder.parent, ignore_errors=True)
    if not kept.exists():
        desk = Desk(folder, server, [tool])
        (folder / "key").write_text(hold_about_a_note(desk, tool, make_project(desk)), encoding="utf-8")
        ignored = shutil.ignore_patterns("bin", "*.sock")
        shutil.copytree(folder, kept, symlinks=True, ignore=ignored)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder, symlinks=True)
    place = Place(Desk(folder, server, [tool]), folder / "pond")
    place.desk.tools[tool].trust(place.project)
    return place, (folder / "key").read_text(encoding="utf-8")


def tables(cases: Mapping[tuple[str, str], Case]) -> list[str]:
    """Return the part of docs/pairs.md about moves and losses."""
    lines: list[str] = []
    for introduction, names in ((INTRODUCTION, list(MOVES)), (PUT_BACK, list(LOSSES))):
        lines += ["", *introduction.splitlines(), "", *table("tool", *names)]
        lines += [line(tool, *(_cell(tool, name, cases.get((tool, name))) for name in names)) for tool in LIGHT]
    failed = [case for case in cases.values() if not case.passed]
    if failed:
        lines += ["", "What did not pass:", "", *table("tool", "what", "what happened")]
        lines += [line(case.tool, case.name, short(" ".join("; ".join(case.problems).split()))) for case in failed]
    return lines


def _cell(tool: str, name: str, case: Case | None) -> str:
    if case is None:
        return "–" if applies(tool, name) else "n/a"
    older = ", *older*" if case.is_older else ""
    return f"{'✓' if case.passed else '✗'} {case.said}".rstrip() + older
