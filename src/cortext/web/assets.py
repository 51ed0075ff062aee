"""The style sheets and scripts, read once: an address names one of them, and never a file."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

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
