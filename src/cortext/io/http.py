"""Requests to servers that the user named: where a key may be sent, and which addresses are on this machine."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener


class _SameOrigin(HTTPRedirectHandler):
    """Follows redirects only to the same origin, because of the key."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if _origin(newurl) != _origin(req.full_url):
            return None  # then the redirect itself is the response, and an HTTPError
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener(url: str) -> OpenerDirector:
    """Return an opener for that address: it follows redirects only to the same origin.

    No proxy is used for addresses on this machine.
    """
    return build_opener(_SameOrigin, *([ProxyHandler({})] if is_loopback(url) else []))


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a host name, or not an address at all
        return False
