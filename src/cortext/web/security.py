"""Who may talk to the page: this machine's browser with the token of the printed address, and nobody else.

- The `Host` header must name this server: a foreign name that resolves to loopback (DNS rebinding) gets nothing. If it
  listens on every address, any address is a name of it: rebinding needs a name that is not one.
- A request that another site caused is refused by its `Origin`, and has no cookie (`SameSite=Strict`).
- The token in the printed address works once; it is exchanged for a cookie that scripts cannot read.
- A change needs a second secret from the page itself (CSRF), checked where forms are read (`actions`).
- Every answer forbids scripts, styles and connections that are not this server's.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cortext.web.html.rendering import load_template

MOST_BODY = 64 << 10  # bytes of a request's body
MOST_TARGET = 4096  # bytes of its path and query
BURST, PER_SECOND = 240, 60  # requests without the cookie from one address
MOST_ADDRESSES = 1_000  # whose requests are counted
FAILURES, FAILURE_SECONDS = 10, 60.0  # wrong passwords from one address in that time; nobody guesses a token
COOKIE_SECONDS = 30 * 86_400

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with `no-referrer`, a browser hides the origin even of our own forms
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), interest-cohort=()"),
)


class Access:
    """The secrets of one server, and whether a request has them."""

    def __init__(
        self,
        port: int,
        names: Sequence[str],
        password: str = "",
        *,
        by_address: bool = False,
        proxied: Sequence[str] = (),
    ) -> None:
        self.hosts = frozenset(f"{name}:{port}" for name in names) | ({*names} if port == 80 else set()) | {*proxied}
        self._port_of_any_address = str(port) if by_address else ""
        self.token = secrets.token_urlsafe(32)
        self.cookie = f"cortext-{port}"
        self.spent = False
        self._session = secrets.token_urlsafe(32)
        self._salt = secrets.token_bytes(16)
        self._password = self._slow(password) if password else b""
        self.is_proxied = bool(proxied)
        self._failures: dict[str, list[float]] = {}
        self._one_password = asyncio.Lock()

    @property
    def csrf(self) -> str:
        """The secret that every form of the page contains."""
        return hmac.new(self._session.encode(), b"csrf", hashlib.sha256).hexdigest()

    @property
    def asks_password(self) -> bool:
        """Whether the page is opened with a password instead of the printed address."""
        return bool(self._password)

    def is_host(self, header: str) -> bool:
        """Whether a `Host` header names this server."""
        name, _, port = header.rpartition(":")
        return header in self.hosts or (port == self._port_of_any_address != "" and _is_address(name))

    def spend(self, token: str) -> bool:
        """Whether this is the token; it works once."""
        right = self.is_token(token)
        self.spent = self.spent or right
        return right

    def is_token(self, token: str) -> bool:
        """Whether this is the token, and it has not been used."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()) and not self.spent

    def is_password(self, text: str) -> bool:
        """Whether this is the password. Takes as long for any other text."""
        return bool(self._password) and hmac.compare_digest(self._slow(text), self._password)

    def _slow(self, text: str) -> bytes:
        return hashlib.scrypt(text.encode("utf-8", "replace"), salt=self._salt, n=1 << 14, r=8, p=1)

    def is_csrf(self, text: str) -> bool:
        """Whether a form came from the page."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.csrf.encode())

    def has_cookie(self, header: str) -> bool:
        """Whether a `Cookie` header holds ours."""
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode("utf-8", "replace"), self._session.encode())

    def set_cookie(self) -> str:
        """Return the value of `Set-Cookie`."""
        return f"{self.cookie}={self._session}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict"

    async def try_password(self, text: str, address: str) -> bool | None:
        """Whether this is the password; None if it is not looked at, after too many wrong ones from this address.

        One is compared at a time, in a thread: that takes a while on purpose, and others are answered meanwhile.
        """
        now = time.monotonic()
        recent = {key: [moment for moment in moments if now - moment < FAILURE_SECONDS]
                  for key, moments in self._failures.items()}  # fmt: skip
        self._failures = {key: moments for key, moments in recent.items() if moments}
        if len(self._failures.get(address, ())) >= FAILURES:
            return None
        self._failures.setdefault(address, []).append(now)  # before it is compared: many may come at once
        async with self._one_password:
            right = await asyncio.to_thread(self.is_password, text)
        if right:
            self._failures.pop(address, None)
        return right


class Rate:
    """How many requests are answered: a burst, and then so many each second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._allowance, self._at = float(BURST), clock()

    def allows(self) -> bool:
        """Whether one more is answered; it counts."""
        now = self._clock()
        self._allowance = min(float(BURST), self._allowance + (now - self._at) * PER_SECOND)
        self._at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True


class Guard:
    """The ASGI application around the page: answers everything that may not reach it."""

    def __init__(self, app: ASGIApp, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._access = app, access
        # Only of those without the cookie, and apart, so that nobody who asks all the time keeps another out.
        self._clock, self._strangers = clock, dict[str, Rate]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        protected = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer(protected, *refusal)
            return
        headers = _headers(scope)
        path, method = scope["path"], scope["method"]
        if path.startswith("/static/") and method in ("GET", "HEAD"):
            await self._app(scope, receive, protected)
        elif self._access.has_cookie(headers.get("cookie", "")):
            await self._app(scope, _bounded(receive), protected)
        elif self._access.asks_password and path == "/login" and method == "POST":
            try:
                await self._log_in(_bounded(receive), protected, _address(scope))
            except TooLarge:
                await _answer(protected, 413, "the request is too large")
        else:
            await self._enter(scope, protected)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return why a request is refused before anything else is looked at."""
        headers = _headers(scope)
        if not self._access.has_cookie(headers.get("cookie", "")) and not self._allows(scope):
            return 429, "too many requests"
        host = headers.get("host", "").lower()
        if not self._access.is_host(host):
            return 421, "this is not the host you asked for"
        origin = headers.get("origin")
        # Behind a proxy with TLS the browser says https.
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return 403, "another site asked for this"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return 403, "another site asked for this"
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_TARGET:
            return 414, "the address is too long"
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > MOST_BODY:
            return 413, "the request is too large"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET, HEAD and POST are answered"
        return None

    def _allows(self, scope: Scope) -> bool:
        """Whether a request without the cookie is answered."""
        address = _address(scope)
        rate = self._strangers.pop(address, None) or Rate(self._clock)
        self._strangers[address] = rate  # the last again
        if len(self._strangers) > MOST_ADDRESSES:
            del self._strangers[next(iter(self._strangers))]
        return rate.allows() or self._has_token(scope)

    def _has_token(self, scope: Scope) -> bool:
        return not self._access.asks_password and self._access.is_token(_token(scope))

    async def _enter(self, scope: Scope, send: Send) -> None:
        """Exchange the token for a cookie, or say how to get one."""
        token = _token(scope)
        if not self._access.asks_password and self._access.spend(token):
            # A page that leads on, not a redirect: the browser must see the next request as coming from here.
            page = load_template("web/enter.html").render()
            await _answer(send, 200, page, [(b"set-cookie", self._access.set_cookie().encode())], html=True)
            return
        locked = load_template("web/locked.html")
        await _answer(send, 401, locked.render(password=self._access.asks_password, wrong=bool(token)), html=True)

    async def _log_in(self, receive: Receive, send: Send, address: str) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        password = parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]
        right = await self._access.try_password(password, address)
        if right is None:
            await _answer(send, 429, "too many wrong passwords: wait a minute")
            return
        if right:
            headers = [(b"set-cookie", self._access.set_cookie().encode()), (b"location", b"/")]
            await _answer(send, 303, "", headers)
            return
        page = load_template("web/locked.html")
        await _answer(send, 401, page.render(password=True, wrong=True), html=True)


def _is_address(name: str) -> bool:
    """Whether the host of an address is a number: 192.0.2.7 or [2001:db8::7]."""
    try:
        return bool(ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name))
    except ValueError:
        return False


def _address(scope: Scope) -> str:
    """Return where a request comes from. Whoever has one address of a network or of this machine has all of them."""
    try:
        address = ipaddress.ip_address((scope.get("client") or ("",))[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return "loopback"
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def cookie_of(scope: Scope) -> str:
    """Return the `Cookie` header of a request."""
    return _headers(scope).get("cookie", "")


class TooLarge(Exception):
    """A body is longer than its announced or allowed length."""


def _bounded(receive: Receive) -> Receive:
    """Return a `receive` that ends a body without a length, or with a wrong one, at the limit."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BODY:
            raise TooLarge
        return message

    return bounded


def _token(scope: Scope) -> str:
    """Return the token in the address; empty if there is none."""
    query: bytes = scope["query_string"]
    return parse_qs(query[:MOST_TARGET].decode("latin-1")).get("token", [""])[0]


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers; one that is given twice has both values, which no check accepts."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found and key != "cookie" else text
    return found


def _with_headers(send: Send) -> Send:
    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*headers, *HEADERS]}
        await send(message)

    return protected


async def _answer(
    send: Callable[[Message], Awaitable[None]],
    status: int,
    text: str,
    headers: Sequence[tuple[bytes, bytes]] = (),
    *,
    html: bool = False,
) -> None:
    body = text.encode()
    kind = b"text/html; charset=utf-8" if html else b"text/plain; charset=utf-8"
    fields = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
