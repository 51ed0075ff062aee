"""Serving the bot until it is told to stop: by polling, or by a webhook, which Telegram calls.

A request to the webhook without the secret is refused, and success is reported only when the update is durable:
otherwise Telegram sends it again.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import secrets
import signal
import threading
import warnings
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from telegram import Bot
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError
from telegram.request import HTTPXRequest
from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from cortext.agents.assistant.build import bot_updates, build_assistant, build_worker
from cortext.agents.assistant.commands import Commands
from cortext.agents.assistant.turn import Assistant
from cortext.agents.assistant.worker import ChatWorker, error_text
from cortext.agents.telegram.answering import STOP_HELP, Answering
from cortext.agents.telegram.bot import LONGEST_PAUSE, TelegramBot
from cortext.agents.telegram.incoming import ASKED, number_of
from cortext.agents.telegram.logs import LOG, TOKEN
from cortext.agents.telegram.sending import seconds_of
from cortext.agents.telegram.shared import ChatClaims, SharedBot
from cortext.config import folders
from cortext.errors import ConfigError, CortextError, SessionBusy, StoreUnreachable, UsageError, WriteFailed
from cortext.store.assistant import SharedUpdates
from cortext.wiring.stores import Stores

EVERY = 60.0  # seconds between two passes of the worker
SOON = 3.0  # seconds until the first one
POLL = 20  # seconds that a long poll may last; a claim on a server expires after thirty
LARGEST_UPDATE = 512 * 1024  # bytes: a real update has a few thousand
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"

# Our own code parses updates and trusts none of them; the library warns that it would rather do it itself.
warnings.filterwarnings("ignore", r"Please use 'Bot\.getUpdates'")

Take = Callable[[Sequence[Any]], Awaitable[None]]


def allowed_users(listed: str) -> frozenset[int]:
    """Return the listed ids; raises ConfigError if one is not a number."""
    try:
        return frozenset(int(number) for number in listed.replace(",", " ").split())
    except ValueError:
        raise ConfigError(
            f"invalid telegram.allowed_users {listed!r}",
            hint='use numeric ids separated by commas, such as "4711, 4712"; write to the bot to learn yours',
        ) from None


def _how_to_allow(has_users: bool, user: int) -> str:
    if has_users:
        return f"This is a private assistant. Your user id is {user}: its owner can add it to the list."
    return (
        f"This is a private assistant, and no user is allowed yet. Your user id is {user}. If it is yours, write this "
        f'to the settings file that its log names, and start it again:\n\n[telegram]\nallowed_users = "{user}"'
    )


async def serve_bot(token: str, options: argparse.Namespace) -> int:
    """Serve until told to stop; return the exit code."""
    stores = Stores()
    allowed = allowed_users(stores.settings.telegram.allowed_users)
    bot_id = int(token.partition(":")[0]) if token.partition(":")[0].isdigit() else 0
    if not bot_id:
        raise ConfigError(f"{TOKEN} is not a token", hint="it looks like 123456:ABC…, as @BotFather gave it")
    assistant = build_assistant(stores, options.model)
    updates = bot_updates(stores, bot_id)
    # The chats of the bot that this process answers; None if it answers all of them.
    shared = ChatClaims(updates) if isinstance(updates, SharedUpdates) else None
    if shared is None or not options.webhook:
        await _hold(updates.hold, patient=shared is not None)
    api = stores.settings.telegram.api_url.rstrip("/")
    bot = Bot(
        token,
        base_url=f"{api}/bot",
        base_file_url=f"{api}/file/bot",
        request=HTTPXRequest(connection_pool_size=64, read_timeout=20, connect_timeout=10, pool_timeout=30),
        get_updates_request=HTTPXRequest(connection_pool_size=2, connect_timeout=10),
    )
    commands = Commands(assistant, own_help=[STOP_HELP])
    # With the sessions on a server, several processes may serve one bot.
    kind: Callable[..., TelegramBot] = TelegramBot if shared is None else partial(SharedBot, chats=shared)
    served = kind(
        bot,
        Answering(assistant, commands, updates, bot_id),
        updates,
        allowed=allowed,
        longest=stores.settings.telegram.longest_message,
        every_group_message=stores.settings.telegram.groups == "all",
        parallel=stores.settings.telegram.parallel,
        how_to_allow=lambda user: _how_to_allow(bool(allowed), user),
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, served.stopping.set)
    if not allowed:
        LOG.warning(
            "telegram.allowed_users is empty: every user is refused. Write to the bot to learn your id; list it in %s",
            folders.user_file(),
        )
    worker = _Worker(partial(build_worker, stores, assistant)) if not options.no_worker else None
    try:
        await served.start()
        LOG.info("serving @%s", bot.username)
        left = served.go_on()
        if left:
            LOG.info("answering %d earlier messages", left)
        threading.Thread(target=_warm, args=(assistant,), daemon=True, name="warm").start()
        if worker is not None:
            worker.start()
        if options.webhook:
            await _by_webhook(served, options, token if shared else "")
        else:
            await served.patiently(bot.delete_webhook)
            await by_polling(served)
    finally:
        if worker is not None:
            worker.stop()
        await served.stop()
        assistant.background.finish(2.0)
        await bot.shutdown()
        updates.release()
    LOG.info("stopped")
    return 0


async def _hold(hold: Callable[[], None], *, patient: bool) -> None:
    """Become the one process that serves the bot. On a server, the claim of a dead process has to expire first."""
    tries = 20 if patient else 1
    while True:
        try:
            hold()
            return
        except SessionBusy:
            tries -= 1
            if not tries:
                raise
            await asyncio.sleep(2)


def _warm(assistant: Assistant) -> None:
    """Import what the first answer needs before it is needed, and say so if there is no model to answer."""
    try:
        model = assistant.models.take()
        model.warm()
        assistant.models.give_back(model)
    except CortextError as error:
        why = "; ".join(filter(None, (error.message, error.hint)))
        LOG.warning("messages are kept, but cannot be answered yet: %s", why)


async def by_polling(served: TelegramBot) -> None:
    """Poll Telegram for updates until we are told to stop."""
    offset: int | None = None
    pause = 1.0
    while not served.stopping.is_set():
        try:
            bodies = await _ask(served, offset)
            await served.take(bodies)
            numbers = [number for number in map(number_of, bodies) if number >= 0]
            if numbers:
                offset = max(numbers) + 1
            pause = 1.0
        except RetryAfter as error:
            await served.pause(seconds_of(error))
        except InvalidToken:
            raise ConfigError("the bot token is no longer valid", hint="check whether it was revoked") from None
        except Conflict as error:
            LOG.error("another process polls for this bot's updates (%s): retrying", error)
            await served.pause(pause * 5)
        except (TelegramError, WriteFailed, StoreUnreachable) as error:
            LOG.warning("no updates (%s): retrying in %.0f s", error, pause)
            await served.pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


async def _ask(served: TelegramBot, offset: int | None) -> list[Any]:
    """Return the next updates, unparsed. Stopping ends the wait at once."""
    request = asyncio.ensure_future(
        served.bot.do_api_request(
            "getUpdates",
            {"offset": offset, "timeout": POLL, "allowed_updates": list(ASKED)},
            read_timeout=POLL + 10,
        )
    )
    stop = asyncio.ensure_future(served.stopping.wait())
    try:
        await asyncio.wait([request, stop], return_when=asyncio.FIRST_COMPLETED)
        return list(await request) if request.done() else []
    finally:
        request.cancel()
        stop.cancel()


async def _by_webhook(served: TelegramBot, options: argparse.Namespace, shared: str) -> None:
    """Listen. `shared` is the token of a bot that several processes serve: they need a common secret."""
    host, _, port = options.listen.rpartition(":")
    path = urlsplit(options.webhook).path or "/"
    if not port.isdigit() or not options.webhook.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise UsageError(
            "--webhook needs an https address, and --listen a HOST:PORT", hint="see `alfred telegram --help`"
        )
    secret = common_secret(shared, options.webhook) if shared else new_secret()
    server = listen(path, secret, served.take, host or "127.0.0.1", int(port))
    try:
        # Telegram allows this about once a second per bot: processes that start together take turns.
        await served.patiently(
            lambda: served.bot.set_webhook(options.webhook, secret_token=secret, allowed_updates=list(ASKED))
        )
        await served.stopping.wait()
    finally:
        server.stop()
        await server.close_all_connections()


class _Worker:
    """The worker in a thread of the bot: one pass a minute."""

    def __init__(self, build: Callable[[], ChatWorker]) -> None:
        self._build = build
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="worker")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        worker = self._build()
        pause = SOON
        while not self._stop.wait(pause):
            pause = EVERY
            try:
                done = worker.run()
            except CortextError as error:
                LOG.error("the worker waits: %s", error_text(error))
                continue
            except Exception:
                LOG.exception("the worker stopped at an internal error")
                continue
            for session_id, why in done.failed.items():
                LOG.warning("session %s waits: %s", session_id, why)


def new_secret() -> str:
    """Return a secret for this run: Telegram is given it and sends it with every update."""
    return secrets.token_urlsafe(32)


def common_secret(token: str, address: str) -> str:
    """Return the secret that all processes serving this bot at this address share; it does not reveal the token."""
    return hmac.new(token.encode(), b"cortext webhook " + address.encode(), "sha256").hexdigest()


def listen(path: str, secret: str, take: Take, host: str, port: int) -> HTTPServer:
    """Listen. A proxy in front of it terminates TLS."""
    application = Application([(path, _Updates, {"secret": secret, "take": take})], log_function=_log_refused)
    server = HTTPServer(
        application, max_body_size=LARGEST_UPDATE, max_header_size=16 * 1024, idle_connection_timeout=60
    )
    server.listen(port, host)
    return server


def _log_refused(handler: RequestHandler) -> None:
    if handler.get_status() >= 400:
        LOG.warning("refused: a call to the webhook from %s (%d)", handler.request.remote_ip, handler.get_status())


class _Updates(RequestHandler):
    def initialize(self, secret: str, take: Take) -> None:
        self._secret, self._take = secret, take

    async def post(self) -> None:
        given = self.request.headers.get(SECRET_HEADER, "")
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
