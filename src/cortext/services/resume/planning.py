"""A plan to continue a conversation in a tool, with everything a person should know before: what every face shows."""

from __future__ import annotations

from collections.abc import Callable

from cortext.services.cost.carrying import carrying, sentence
from cortext.services.cost.prices import Prices
from cortext.services.library.listing import Listing
from cortext.services.library.stores import Found
from cortext.services.resume.handover import Plan, make_plan, warnings_for
from cortext.services.resume.notes import up_to_date
from cortext.services.workspace.registry import command_text
from cortext.tools.base import NativeWriter

MOST_PRICES = 3  # tools whose price a receipt names


def plan_for(
    found: Found, tool: NativeWriter, *, budget: int, rewrite: bool = False, missing: list[str] | None = None
) -> Plan:
    """Return the plan and its warnings; nothing is changed. `missing` are notes about what could not be captured."""
    session = found.session
    command = command_text(found.root, session.type, session.title)
    topicless = command_text(found.root, session.type, "(the one of this conversation)")
    plan = make_plan(found, tool, command=command, topicless=topicless, budget=budget, rewrite=rewrite)
    plan.warnings += [*(missing or ()), *warnings_for(found, tool, plan)]
    return plan


def price(listing: Listing, plan: Plan, can_resume: Callable[[str], bool], model: str = "") -> str:
    """Return what it costs to carry the conversation into the tool, and into others, as far as that is known."""
    prices = Prices()
    session = plan.session
    used = {session.origin.tool: session.agent_config.model} if session.origin.tool else {}
    used |= listing.index.calls().models()
    others = [name for name in dict.fromkeys((*used, *prices.assumed)) if can_resume(name)]
    wanted = [plan.receipt.target, *(name for name in others if name != plan.receipt.target)]
    return sentence(carrying(plan.receipt.tokens, wanted, prices, model=model, used=used)[:MOST_PRICES])


def caught_up_plan(found: Found, tool: NativeWriter, caught_up: Callable[[Found], Found], *, budget: int) -> Plan:
    """Return the plan for the conversation with everything its tool has written by now."""
    current, missing = up_to_date(found, caught_up)
    return plan_for(current, tool, budget=budget, missing=missing)
