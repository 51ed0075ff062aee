"""Updates by webhook: Telegram calls us. Requests without the secret are refused, and success is reported only when the
update is durable: otherwise Telegram sends it again."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from cortext.agents.telegram.logs import LOG
from cortext.errors import CortextError

LARGEST = 512 * 1024  # bytes: a real update has a few thousand
HEADER = "X-Telegram-Bot-Api-Secret-Token"

Take = Callable[[Sequence[Any]], Awaitable[None]]


def new_secret() -> str:
    """Return a secret for this run: Telegram is given it and sends it with every update."""
    return secrets.token_urlsafe(32)


def common_secret(token: str, address: str) -> str:
    """Return the secret that all processes serving this bot at this address share; it does not reveal the token."""
    return hmac.new(token.encode(), b"cortext webhook " + address.encode(), "sha256").hexdigest()


def serve(path: str, secret: str, take: Take, host: str, port: int) -> HTTPServer:
    """Listen. A proxy in front of it terminates TLS."""
    application = Application([(path, _Updates, {"secret": secret, "take": take})], log_function=_log)
    server = HTTPServer(application, max_body_size=LARGEST, max_header_size=16 * 1024, idle_connection_timeout=60)
    server.listen(port, host)
    return server


def _log(handler: RequestHandler) -> None:
    if handler.get_status() >= 400:
        LOG.warning("refused: a call to the webhook from %s (%d)", handler.request.remote_ip, handler.get_status())


class _Updates(RequestHandler):
    def initialize(self, secret: str, take: Take) -> None:
        self._secret, self._take = secret, take

    async def post(self) -> None:
        given = self.request.headers.get(HEADER, "")
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            self.send_error(403)
            return
        try:
            body = json.loads(self.request.body)
        except (ValueError, RecursionError):
            self.send_error(400)
            return
        try:
            await self._take([body])
        except CortextError as error:
            LOG.error("an update could not be accepted: %s", error.message)
            self.send_error(503)  # Telegram retries
            return
        self.set_status(200)

    def write_error(self, status_code: int, **given: Any) -> None:
        """Send no body: it would describe us."""
        self.finish()
