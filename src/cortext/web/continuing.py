"""Continue in…: the tools that are installed here, and for each the receipt and the command."""

from __future__ import annotations

import os
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cortext.errors import UsageError
from cortext.model.status import COMPLETED
from cortext.safety.languages import shell, typed
from cortext.services.library.listing import Row
from cortext.services.resume import terminals
from cortext.services.resume.handover import Plan
from cortext.services.resume.planning import caught_up_plan
from cortext.services.workspace.installed_tools import detect_all
from cortext.web.library import Library
from cortext.web.pages import address, library, page, shown
from cortext.wiring import tools

FRESH = 120.0  # seconds for which the installed tools are not asked again: each takes a second

Names = list[tuple[str, str]]  # of tools, each with its title

_installed: tuple[float, Names] = (-FRESH, [])


def installed() -> Names:
    """Return the tools on this machine that a conversation can be continued in."""
    global _installed
    if time.monotonic() - _installed[0] > FRESH:
        writers = tools.native_writers()
        detected = zip(writers, detect_all(writers), strict=True)
        here = [(tool.name, tool.title) for tool, found in detected if found is not None]
        _installed = (time.monotonic(), here)
    return _installed[1]


def command(row: Row, tool: str) -> str:
    """Return the command that continues a conversation in a tool."""
    words = ["cortext", "resume", row.id, "--ai", tool]
    return shell([*words, "--force"] if row.status == COMPLETED else words)


def planned(services: Library, row: Row, name: str) -> Plan:
    """Return what would be carried over to a tool. Raises UsageError if it is not installed here."""
    if name not in dict(installed()):
        raise UsageError(f"{name[:40]!r} is not a tool that is installed here", hint="choose one from the list")
    tool = tools.native_writer(name)
    budget = services.stores.settings.resume.native_tokens
    return caught_up_plan(services.found(row), tool, services.stores.caught_up, budget=budget)


async def choose(request: Request) -> Response:
    """Show the installed tools; the script, or a click, asks for each one's receipt."""
    services = library(request)
    row = await services.row(request.path_params["store"], request.path_params["session"])
    found = await services.in_reader(installed)
    chosen = request.query_params.get("tool", "")
    values: dict[str, Any] = {
        "row": row,
        "title": shown(row.name),
        "here": address(row),
        "tools": [(name, title, address(row, "continue", tool=name)) for name, title in found],
        "chosen": chosen,
        "receipt": await _receipt(services, row, chosen) if chosen else None,
    }
    return page(request, "continue.html", values)


async def receipt(request: Request) -> Response:
    """Send one receipt, for the script."""
    services = library(request)
    row = await services.row(request.path_params["store"], request.path_params["session"])
    made = await _receipt(services, row, request.path_params["tool"])
    return page(request, "receipt.html", {"receipt": made, "here": address(row)})


async def _receipt(services: Library, row: Row, name: str) -> dict[str, Any]:
    def made() -> dict[str, Any]:
        plan = planned(services, row, name)
        terminal = terminals.available(os.environ) if not services.remote else None
        line = command(row, name)
        carrying = services.stores.carrying(services.reading(row.root))
        plan.receipt.price = carrying.sentence(plan.session, plan.receipt.tokens, name)
        return {
            "tool": name,
            "title": dict(installed())[name],
            "how": plan.how,
            "project": plan.project,
            "receipt": plan.receipt,
            "price": carrying.price(plan.receipt.tokens, name),
            "warnings": [shown(text) for text in plan.warnings],
            "command": f"cd {typed([plan.project])} && {line}",
            "terminal": terminal.name if terminal is not None else "",
        }

    return await services.in_reader(made)
