"""One pair of the matrix: a conversation is held in one real program and resumed in another, in a home of its own."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from tests.support.ai_programs import programs_folder
from tests.support.desk import Desk
from tests.support.launching import captured_again, launched
from tests.support.model_server import ModelServer, Request
from tests.support.pairs import DATA, TURN_SECONDS, Conversation, copied, hold, imported
from tests.support.runners import make_tool
from tests.tools.matrix_page import ITSELF, RUNNERS, USED, Row, reason, versions

from cortext.services.library.stores import StoredConversation
from cortext.services.resume.planning import OWN
from cortext.services.workspace.installed_tools import code_of
from cortext.wiring.stores import Stores

# Outside of this repository, which the programs would take for their project.
WORK = programs_folder().parent / "matrix"


def held_in(source: str, folder: Path, server: ModelServer) -> Conversation | str:
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


def row_of(held: Conversation | str, source: str, target: str, home: str, folder: Path, server: ModelServer) -> Row:
    """Resume a held conversation in a target."""
    row = Row(
        source=source,
        target=target,
        home=home,
        versions=versions(source, target),
        date=time.strftime("%Y-%m-%d"),
        code=code_of(source, target),
        launched=True,
    )
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    try:
        if isinstance(held, str):
            row.error = held
        else:
            with _as_it_was(held.home.parent, folder.with_name("as-it-was")):
                _run_pair(row, held, folder, server)
    except Exception as error:  # one failing pair must not end the run; it is reported
        row.error = reason(error)
    row.seconds = round(time.monotonic() - started, 1)
    return row


def _run_pair(row: Row, held: Conversation, folder: Path, server: ModelServer) -> None:
    if row.home == ITSELF:  # paths are in a program's records, so its session is opened where it is
        folder = held.home.parent
        shutil.rmtree(folder / "bin")
    if row.home == USED:
        copy(_used_before(row.target, folder), folder)
    desk = Desk(folder, server, names=(row.target,))
    if row.home != ITSELF:
        shutil.copytree(held.home / DATA, desk.home / DATA, dirs_exist_ok=True)
    desk.tools[row.target].trust(held.project)
    server.forget()
    with desk.environment():
        stores = Stores(str(desk.home))
        conversation = _only_session(stores)
        if row.home != ITSELF:
            conversation = copied(conversation, row.target)
        result = launched(desk, stores, conversation, row.target, held.project)
        row.outcome = result.outcome(held.said)
        refused = any("cannot continue its own session" in why for why in result.plan.warnings)
        row.is_refused = row.home == ITSELF and refused
        if (result.plan.how == OWN) != (row.home == ITSELF and not refused):
            row.outcome.problems.append(f"it was opened as {result.plan.how}")
        if _model(result.request) == desk.tools[row.target].another_model:
            row.outcome.problems.append(f"it asked {_model(result.request)}, which it was used with before")
        row.outcome.problems += captured_again(desk, conversation, row.target)


@contextmanager
def _as_it_was(folder: Path, spare: Path) -> Iterator[None]:
    """Restore a folder at the end of the block, so that the next pair finds the same project and home."""
    copy(folder, spare)
    try:
        yield
    finally:
        copy(spare, folder)


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
            asked = [_model(turn) for turn in other.turns]  # gptme asks a small one for a name, before or after
            assert tool.another_model in asked, f"{target} asked {asked}"
        copy(folder, kept)
    return kept


def copy(source: Path, target: Path) -> None:
    """Copy a folder with a home. Paths are in a program's records, so a home is used only where it was made."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))


def _model(request: Request) -> str:
    """Return the model that a request asks; Gemini's API has it in the path."""
    return str(request.body.get("model") or request.path.rpartition("/")[2].partition(":")[0])


def _only_session(stores: Stores) -> StoredConversation:
    [found] = [StoredConversation(store, session) for store in stores.all() for session in store.store.sessions()]
    return found
