"""The application: which address is answered by which view, and the style sheets and scripts.

They are read once: an address names one of them, and never a file.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from cortext.errors import CortextError, NotFound
from cortext.safety import terminal
from cortext.web import actions, conversation, home, live, origins, see
from cortext.web.library import PageLibrary
from cortext.web.live import Background
from cortext.web.pages import problem
from cortext.web.security import Access, Guard, TooLarge

_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


class Asset(NamedTuple):
    """One file as it is sent."""

    body: bytes
    kind: str
    etag: str


@cache
def assets() -> dict[str, Asset]:
    """Return every file by its name."""
    found = {}
    for package in ("cortext.web.html", "cortext.web"):
        for file in files(package).joinpath("static").iterdir():
            kind = _KINDS.get(file.name.rpartition(".")[2])
            if kind:
                body = file.read_bytes()
                found[file.name] = Asset(body, kind, f'"{hashlib.blake2b(body, digest_size=8).hexdigest()}"')
    return found


async def asset(request: Request) -> Response:
    """Send one file."""
    found = assets().get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("not found", 404)
    headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.body, media_type=found.kind, headers=headers)


SESSION = "/c/{store}/{session}"
CHANGES = {
    "stop": actions.stop,
    "complete": actions.complete,
    "title": actions.title,
    "fork": actions.fork,
    "delete": actions.delete,
    "terminal": actions.open_terminal,
    "star": actions.star,
    "archive": actions.archive,
    "tag": actions.tag,
    "note": actions.note,
}


def routes() -> list[Route]:
    """Return every address; those that change something accept only POST."""
    return [
        Route("/", home.home),
        Route("/results", home.results),
        Route("/see", see.see),
        Route("/see/costs", see.old_costs),
        Route(origins.PATH, origins.why),
        Route("/live", live.follow_list),
        Route("/ping", actions.ping),
        Route("/static/{name}", asset),
        Route("/restore", actions.restore, methods=["POST"]),
        Route(SESSION, conversation.conversation),
        Route(f"{SESSION}/messages", conversation.pieces),
        Route(f"{SESSION}/m/{{seq:int}}", conversation.one),
        Route(f"{SESSION}/own", conversation.own),
        Route(f"{SESSION}/side", conversation.side),
        Route(f"{SESSION}/export", conversation.download),
        Route(f"{SESSION}/live", live.follow),
        Route(f"{SESSION}/continue", actions.choose),
        Route(f"{SESSION}/continue/{{tool}}", actions.receipt),
        *(Route(f"{SESSION}/{name}", actions.changing(do), methods=["POST"]) for name, do in CHANGES.items()),
    ]


def application(library: PageLibrary, access: Access) -> tuple[Starlette, Guard]:
    """Return the page, and the page as it is served: guarded."""
    app = Starlette(
        routes=routes(),
        exception_handlers={
            CortextError: _refused,
            Exception: _failed,
            HTTPException: _unknown,
            TooLarge: lambda request, error: PlainTextResponse("the request is too large", 413),
        },
    )
    app.state.library, app.state.access = library, access
    app.state.background = Background(lambda note: see.read(library.stores, note))
    app.state.stopping = asyncio.Event()
    app.state.following = set()
    return app, Guard(app, access)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer if something was not foreseen: the reader sees that, and the terminal one line, not a traceback."""
    name = f"{type(error).__name__}: {error}"
    sys.stderr.write(terminal.line(f"cortext: {request.method} {request.url.path} failed: {name}") + "\n")
    message = "something went wrong on the server"
    return problem(request, CortextError(message, kept="every conversation", hint="the terminal shows what it was"))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, CortextError)
    return problem(request, error)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem(request, NotFound("there is no such page", hint="go back to the list"))
    return PlainTextResponse(error.detail, error.status_code, headers=error.headers)
