"""A plan to continue a conversation in a tool, with everything a person should know before: what every face shows."""

from __future__ import annotations

from collections.abc import Callable

from cortext.services.library.stores import Found
from cortext.services.resume.handover import Plan, make_plan, warnings_for
from cortext.services.resume.notes import up_to_date
from cortext.services.workspace.registry import command_text
from cortext.tools.base import NativeWriter


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
