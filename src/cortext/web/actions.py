"""What a person changes on the page. Each change is a form with the page's secret, and does what a command does."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from cortext.config.trust import settings_of
from cortext.errors import UsageError, not_in_trash
from cortext.model.amounts import amount
from cortext.model.session import TITLED_BY_USER, Change
from cortext.model.status import COMPLETED, PAUSED
from cortext.services.library.json_views import row_of
from cortext.services.library.listing import Row
from cortext.services.resume import terminals
from cortext.services.workspace import lifecycle
from cortext.web.continuing import command, planned
from cortext.web.library import Library
from cortext.web.pages import access, address, library
from cortext.wiring.stores import SHARED

MOST_FIELDS = 20
MOST_TITLE = 300  # characters

Do = Callable[[Library, Row, FormData], str]  # returns the address to show next


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


def _save(services: Library, row: Row, status: str) -> str:
    found = services.stores.caught_up(services.found(row))
    is_workspace = found.named_store.kind == "workspace"
    commit = is_workspace and settings_of(found.root).workspace.commit
    saved = lifecycle.save(found.named_store, row.id, status, commit=commit)
    note = lifecycle.confirmation(saved).splitlines()[2]
    return address(row, note=note)


def stop(services: Library, row: Row, form: FormData) -> str:
    """Save and pause a conversation."""
    return _save(services, row, PAUSED)


def complete(services: Library, row: Row, form: FormData) -> str:
    """Save a conversation and mark it as completed."""
    return _save(services, row, COMPLETED)


def title(services: Library, row: Row, form: FormData) -> str:
    """Change the title."""
    new = " ".join(str(form.get("title", "")).split())[:MOST_TITLE]
    if not new:
        raise UsageError("the new title is empty", kept="the old one stays", hint="type at least one word")
    found = services.found(row)
    found.store.update(row.id, Change(title=new, extra=dict(TITLED_BY_USER)))
    return address(row, note="The title has been changed.")


def fork(services: Library, row: Row, form: FormData) -> str:
    """Make a new conversation from this one, up to a message."""
    text = str(form.get("at", ""))
    if text and not (text.isascii() and text.isdigit() and len(text) < 16):
        raise UsageError(f"invalid message number {text[:40]!r}", kept="nothing was changed", hint="use its #number")
    found = services.found(row)
    home = services.stores.home_store()
    made = lifecycle.fork(found.named_store, found.session, int(text) if text else None, home=home)
    place = home if row.kind == SHARED else found.named_store  # a copy of somebody else's is mine
    new = row_of(made, place.root, place.kind)
    return address(new, note=f"Forked from {row.id}: {amount(made.message_count, 'message')}.")


def delete(services: Library, row: Row, form: FormData) -> str:
    """Move a conversation to the trash; the next page offers to undo it."""
    trashed = services.found(row).store.delete(row.id)
    return f"/?{urlencode({'trashed': trashed.key})}"


def open_terminal(services: Library, row: Row, form: FormData) -> str:
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
