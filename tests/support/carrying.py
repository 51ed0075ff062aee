"""Carrying a conversation from one real program to another on a `Desk`, and looking at what the model received."""

from __future__ import annotations

from pathlib import Path

from cortext.model.message import Message, thread
from cortext.safety.framing import GO_ON
from cortext.services.library.resolve import with_exact_id
from cortext.services.library.stores import Found
from cortext.services.resume.handover import Plan, carry_out, make_plan
from cortext.tools.base import Launch
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.support.desk import Desk
from tests.support.model_server import Request

COMMAND = "# A way to talk\n\nTopic: herons\n\nBe brief, and never guess."


def imported(desk: Desk, stores: Stores, name: str, project: Path) -> Found:
    """Import the only conversation that a program has of this project, and return it."""
    done = desk.cortext("import", "--from", name, cwd=project)
    assert done.code == 0, done.err
    rows = desk.cortext("list", "--tool", name, "--json", cwd=project).json
    found = [with_exact_id(stores.all(), row["id"])[0] for row in rows]
    of_project = [item for item in found if item.session.extra.get("project") == str(project)]
    assert len(of_project) == 1, [item.session for item in found]
    return of_project[0]


def messages_of(found: Found) -> list[Message]:
    """Return the messages of a stored conversation."""
    return thread(found.store.read(found.session.id))


def carried(found: Found, target: str, project: Path, stores: Stores) -> tuple[Plan, Launch]:
    """Carry a conversation into a program, as `cortext resume` does; return the plan and how to start the program."""
    tool = tools.native_writer(target)
    plan = make_plan(found, tool, command=COMMAND, project=str(project))
    return plan, carry_out(plan, found, tool, stores.capture(), force=True)


def continued(desk: Desk, target: str, plan: Plan, project: Path, words: str, answer: str) -> Request:
    """Say something in the program that a conversation was carried into; return the request that the model received."""
    before = len(desk.server.turns)
    desk.server.push(answer)
    prompt = GO_ON if tools.native_writer(target).prompt_is_public else plan.prompt
    done = desk.tools[target].run(f"{prompt}\n\n{words}", cwd=project, resume=plan.key)
    assert done.returncode == 0, f"{target}: {done.stderr[-3000:]}"
    return next(turn for turn in desk.server.turns[before:] if words in str(turn.body))
