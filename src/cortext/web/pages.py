"""What all views share: the services of a request, templates with the values that every page needs, addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from cortext import __version__
from cortext.errors import ConfigError, CortextError, NotFound, SessionBusy, TransitionRefused, UnsafePath, UsageError
from cortext.safety import terminal
from cortext.safety.secrets.masking import mask
from cortext.services.library.listing import Row
from cortext.web.html.rendering import load_template
from cortext.web.library import PageLibrary, store_key
from cortext.web.security import Access

MOST_NUMBER = 2**53


def library(request: Request) -> PageLibrary:
    """Return the services of this server."""
    found: PageLibrary = request.app.state.library
    return found


def access(request: Request) -> Access:
    """Return the secrets of this server."""
    found: Access = request.app.state.access
    return found


def page(request: Request, template: str, values: Mapping[str, object], status: int = 200) -> Response:
    """Return a page, or a piece of one."""
    made = load_template(f"web/{template}")
    shared = {"csrf": access(request).csrf, "version": __version__, "path": request.url.path}
    return HTMLResponse(made.render({**shared, **values}), status)


def problem(request: Request, error: CortextError) -> Response:
    """Return the page for an error: what happened, what was kept, what to do next."""
    status = 500
    if isinstance(error, NotFound):
        status = 404
    elif isinstance(error, UsageError):
        status = 400
    elif isinstance(error, ConfigError | SessionBusy | TransitionRefused | UnsafePath):
        status = 409
    values = {"message": shown(error.message), "kept": shown(error.kept), "hint": shown(error.hint)}
    return page(request, "problem.html", values, status)


def shown(text: str) -> str:
    """Return a title, a summary or a message without secrets."""
    return mask(text).text


def stored(given: str, known: Iterable[str]) -> list[str]:
    """Return the values that a field of a form can mean: the value itself, or all that are shown like it."""
    values = list(known)
    return [given] if given in values else [value for value in values if terminal.line(value) == given] or [given]


def address(row: Row, *rest: str, **query: object) -> str:
    """Return the address of a conversation, or of something below it."""
    path = "/".join(["/c", store_key(row.root), row.id, *rest])
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def number(request: Request, name: str, otherwise: int = -1) -> int:
    """Return a whole number from the address. Raises UsageError if it is not one."""
    text = request.query_params.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit()) or int(text) > MOST_NUMBER:
        raise UsageError(f"invalid number {text[:40]!r}", hint="follow a link of the page")
    return int(text)
