"""Which tool a conversation is continued in, and the plan with everything a person should know before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cortext.model.session import Session
from cortext.services.capture.capture import Capture
from cortext.services.capture.copies import NotPutBack
from cortext.services.library.stores import Found
from cortext.services.resume.handover import Plan, carry_out, make_plan, warnings_for
from cortext.services.resume.notes import up_to_date
from cortext.services.workspace.installed_tools import detect_all
from cortext.services.workspace.registry import command_text
from cortext.tools.base import Launch, NativeWriter


def tool_to_continue_in(
    session: Session,
    named: str,
    setting: str,
    *,
    can_resume: Callable[[str], bool],
    writers: Callable[[], Sequence[NativeWriter]],
    choose: Callable[[list[str]], str],
) -> str:
    """Return the tool that is named, else the conversation's own, else that of the setting `resume.tool`.

    Without any of these it is the only one installed here; of several, or none, `choose` decides.
    """
    own = session.origin.tool
    name = named or (own if can_resume(own) else "") or setting
    if name:
        return name
    tools = writers()
    here = [tool.name for tool, found in zip(tools, detect_all(tools), strict=True) if found is not None]
    return here[0] if len(here) == 1 else choose(here)


def plan_for(
    found: Found, tool: NativeWriter, *, budget: int, rewrite: bool = False, missing: list[str] | None = None
) -> Plan:
    """Return the plan and its warnings; nothing is changed. `missing` are notes about what could not be captured."""
    session = found.session
    command = command_text(found.root, session.type, session.title)
    topicless = command_text(found.root, session.type, "(the topic of this conversation)")
    plan = make_plan(found, tool, command=command, topicless=topicless, budget=budget, rewrite=rewrite)
    plan.warnings += [*(missing or ()), *warnings_for(found, tool, plan)]
    return plan


def caught_up_plan(found: Found, tool: NativeWriter, caught_up: Callable[[Found], Found], *, budget: int) -> Plan:
    """Return the plan for the conversation with everything its tool has written by now."""
    current, missing = up_to_date(found, caught_up)
    return plan_for(current, tool, budget=budget, missing=missing)


def carry_out_or_rewrite(
    plan: Plan,
    found: Found,
    tool: NativeWriter,
    capture: Capture,
    *,
    budget: int,
    missing: Sequence[str] = (),
    model: str = "",
    force: bool = False,
) -> tuple[Plan, Launch]:
    """Carry out a plan; if the tool's own session cannot be put back, a new plan that writes a new one.

    Returned is the plan that was carried out. See `handover.carry_out` for the errors.
    """
    try:
        return plan, carry_out(plan, found, tool, capture, model=model, force=force)
    except NotPutBack as error:
        plan = plan_for(found, tool, budget=budget, rewrite=True, missing=[*missing, error.message])
        return plan, carry_out(plan, found, tool, capture, model=model, force=force)
