"""The bot's token, and its log without that or other secrets: not in our lines, the library's or a traceback."""

from __future__ import annotations

import logging
import re
import sys
import threading
from types import TracebackType

from cortext.safety import terminal
from cortext.safety.secrets.masking import mask

TOKEN = "TELEGRAM_BOT_TOKEN"  # the variable
LOG = logging.getLogger("alfred.telegram")
_ANY_TOKEN = re.compile(r"\b\d{5,16}(?::|%3A)[A-Za-z0-9_-]{30,}", re.IGNORECASE)


class WithoutToken(logging.Formatter):
    """Formats a record with its traceback, then removes whatever is or looks like a token."""

    def __init__(self, token: str) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._secrets = [part for part in {token, token.partition(":")[2]} if len(part) > 8]

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        record.exc_text = None  # the base class caches the traceback: other handlers must format their own
        return terminal.block(self.clean(text))

    def clean(self, text: str) -> str:
        """Return the text without the token and any other secret."""
        for secret in self._secrets:
            text = text.replace(secret, "<token>")
        return mask(_ANY_TOKEN.sub("<token>", text)).text


def begin(token: str, *, verbose: bool = False) -> None:
    """Log to standard error. The libraries log the address, which contains the token, so only their warnings appear."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(WithoutToken(token))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    LOG.setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in ("httpx", "httpcore", "telegram", "tornado"):
        logging.getLogger(name).setLevel(logging.WARNING)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        LOG.critical("stopped by an internal error", exc_info=(kind, error, trace))

    sys.excepthook = uncaught
    threading.excepthook = lambda given: LOG.error(
        "a thread stopped", exc_info=given.exc_value if given.exc_value is not None else True
    )
