"""What a person changes on the page: titles, statuses, tags, stars, notes and the archive, and where to continue.

Each change is a form with the page's secret, and does what a command does. "Continue in…" offers the tools that are
installed here, and for each the receipt and the command.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from cortext.config.load import settings_of
from cortext.errors import UsageError, not_in_trash
from cortext.model.session import COMPLETED, PAUSED, TITLED_BY_USER, Change
from cortext.model.wording import amount
from cortext.safety.languages import shell, typed
from cortext.services.library.listing import Row, row_of
from cortext.services.library.stores import StoredConversation
from cortext.services.resume import terminals
from cortext.services.resume.planning import Plan, caught_up_plan
from cortext.services.workspace import creating, lifecycle, order
from cortext.web.library import PageLibrary
from cortext.web.pages import access, address, library, page, shown
from cortext.wiring import tools
from cortext.wiring.stores import SHARED

FRESH = 120.0  # seconds for which the installed tools are not asked again: each takes a second

Names = list[tuple[str, str]]  # of tools, each with its title

_installed: tuple[float, Names] = (-FRESH, [])


def installed() -> Names:
    """Return the tools on this machine that a conversation can be continued in."""
    global _installed
    if time.monotonic() - _installed[0] > FRESH:
        _installed = (time.monotonic(), [(tool.name, tool.title) for tool in tools.installed_writers()])
    return _installed[1]


def command(row: Row, tool: str) -> str:
    """Return the command that continues a conversation in a tool."""
    words = ["cortext", "resume", row.id, "--ai", tool]
    return shell([*words, "--force"] if row.status == COMPLETED else words)


def planned(services: PageLibrary, row: Row, name: str) -> Plan:
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


async def _receipt(services: PageLibrary, row: Row, name: str) -> dict[str, Any]:
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


MOST_TAGS = 20  # in one form


def _saved(conversation: StoredConversation, row: Row, said: str) -> str:
    """Save a conversation, so that the change reaches other machines; return where to go next, with what was said."""
    note = order.save(conversation.named_store, [row.id])
    return address(row, note=f"{said} Note: {note}." if note else said)


def _is_on(form: FormData) -> bool:
    return form.get("on", "yes") == "yes"


def star(services: PageLibrary, row: Row, form: FormData) -> str:
    """Give it a star, or take it away."""
    conversation = services.found(row)
    order.set_star(conversation.named_store, conversation.session, on=_is_on(form))
    return _saved(conversation, row, "Starred." if _is_on(form) else "The star was removed.")


def archive(services: PageLibrary, row: Row, form: FormData) -> str:
    """Hide it from lists, or show it again."""
    conversation = services.found(row)
    order.set_archived(conversation.named_store, conversation.session, on=_is_on(form))
    return _saved(
        conversation, row, "Archived: still found by a search." if _is_on(form) else "Taken out of the archive."
    )


def tag(services: PageLibrary, row: Row, form: FormData) -> str:
    """Add tags, or remove them."""
    tags = [order.checked_tag(word) for word in str(form.get("tags", "")).replace(",", " ").split()]
    if not tags or len(tags) > MOST_TAGS:
        raise UsageError("no tag was given" if not tags else "too many tags", kept="nothing was changed")
    conversation = services.found(row)
    order.set_tags(conversation.named_store, conversation.session, tags, on=_is_on(form))
    names = " ".join(f"#{name}" for name in tags)
    return _saved(conversation, row, f"Tagged {names}." if _is_on(form) else f"Removed {names}.")


def note(services: PageLibrary, row: Row, form: FormData) -> str:
    """Add a note, or remove one by its number."""
    conversation = services.found(row)
    number = str(form.get("remove", ""))
    if number.isascii() and number.isdigit() and len(number) < 9:
        order.remove_note(conversation.named_store, conversation.session, int(number))
        return _saved(conversation, row, "The note was removed.")
    order.add_note(conversation.named_store, conversation.session, str(form.get("text", "")))
    return _saved(conversation, row, "Noted.")


MOST_FIELDS = 20
MOST_TITLE = 300  # characters

Do = Callable[[PageLibrary, Row, FormData], str]  # returns the address to show next


async def _form(request: Request) -> FormData:
    """Return the fields. Raises UsageError if the form did not come from the page.

    Raises ConfigError or UnsafePath if the settings file of the workspace is broken.
    """
    form = await request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=MOST_TITLE * 16)
    sent = request.headers.get("x-csrf-token", "") or str(form.get("csrf", ""))
    if not access(request).is_csrf(sent):
        raise UsageError("this form has expired", kept="nothing was changed", hint="reload the page and try again")
    library(request).check_settings()
    return form


def changing(do: Do) -> Callable[[Request], Awaitable[Response]]:
    """Return the view of a change to one conversation."""

    async def view(request: Request) -> Response:
        form = await _form(request)
        services = library(request)
        row = await services.row(request.path_params["store"], request.path_params["session"])
        try:
            return RedirectResponse(await services.in_reader(lambda: do(services, row, form)), 303)
        finally:
            services.changed()

    return view


def _save(services: PageLibrary, row: Row, status: str) -> str:
    conversation = services.stores.caught_up(services.found(row))
    is_workspace = conversation.named_store.kind == "workspace"
    commit = is_workspace and settings_of(conversation.root).workspace.commit
    saved = lifecycle.save(conversation.named_store, row.id, status, commit=commit)
    note = lifecycle.confirmation(saved).splitlines()[2]
    return address(row, note=note)


def stop(services: PageLibrary, row: Row, form: FormData) -> str:
    """Save and pause a conversation."""
    return _save(services, row, PAUSED)


def complete(services: PageLibrary, row: Row, form: FormData) -> str:
    """Save a conversation and mark it as completed."""
    return _save(services, row, COMPLETED)


def title(services: PageLibrary, row: Row, form: FormData) -> str:
    """Change the title."""
    new = " ".join(str(form.get("title", "")).split())[:MOST_TITLE]
    if not new:
        raise UsageError("the new title is empty", kept="the old one stays", hint="type at least one word")
    conversation = services.found(row)
    conversation.store.update(row.id, Change(title=new, extra=dict(TITLED_BY_USER)))
    return address(row, note="The title has been changed.")


def fork(services: PageLibrary, row: Row, form: FormData) -> str:
    """Make a new conversation from this one, up to a message."""
    text = str(form.get("at", ""))
    if text and not (text.isascii() and text.isdigit() and len(text) < 16):
        raise UsageError(f"invalid message number {text[:40]!r}", kept="nothing was changed", hint="use its #number")
    conversation = services.found(row)
    home = services.stores.home_store()
    made = creating.fork(conversation.named_store, conversation.session, int(text) if text else None, home=home)
    place = home if row.kind == SHARED else conversation.named_store  # a copy of somebody else's is mine
    new = row_of(made, place.root, place.kind)
    return address(new, note=f"Forked from {row.id}: {amount(made.message_count, 'message')}.")


def delete(services: PageLibrary, row: Row, form: FormData) -> str:
    """Move a conversation to the trash; the next page offers to undo it."""
    trashed = services.found(row).store.delete(row.id)
    return f"/?{urlencode({'trashed': trashed.key})}"


def open_terminal(services: PageLibrary, row: Row, form: FormData) -> str:
    """Open a terminal in which the conversation continues. The person has confirmed it on the page."""
    if form.get("confirmed") != "yes":
        raise UsageError("opening a terminal was not confirmed", kept="nothing was changed", hint="tick the box first")
    terminal = terminals.available(os.environ) if not services.remote else None  # nobody starts programs from afar
    if terminal is None:
        raise UsageError("no terminal can be opened from here", hint="paste the command into a terminal yourself")
    tool = str(form.get("tool", ""))
    plan = planned(services, row, tool)
    program = shutil.which("cortext")
    words = [program] if program else [sys.executable, "-m", "cortext.faces.cortext.main"]
    terminals.open_in(terminal, [*words, *shlex.split(command(row, tool))[1:]], plan.project)
    return address(row, note=f"Opened in {terminal.name}.")


async def restore(request: Request) -> Response:
    """Undo a deletion."""
    form = await _form(request)
    key = str(form.get("key", ""))
    services = library(request)

    def undone() -> str:
        for named_store in services.stores.all():
            # Only a key that the trash lists is passed on.
            if any(item.key == key for item in named_store.store.trash()):
                session = named_store.store.restore(key)
                return address(row_of(session, named_store.root, named_store.kind), note="Restored.")
        raise not_in_trash(repr(key[:80]))

    try:
        return RedirectResponse(await services.in_reader(undone), 303)
    finally:
        services.changed()


async def ping(request: Request) -> Response:
    """Say that the server is there, for the script that was disconnected."""
    return PlainTextResponse("here")
