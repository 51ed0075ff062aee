"""`alfred telegram`: the assistant as a Telegram bot."""

from __future__ import annotations

import argparse
import asyncio
import os

from cortext.agents.telegram import logs
from cortext.agents.telegram.logs import TOKEN
from cortext.distribution import install_hint
from cortext.errors import ConfigError

_EPILOG = """\
The token comes from the environment: TELEGRAM_BOT_TOKEN=… (from @BotFather). Only listed users are served:
  [telegram]
  allowed_users = "4711, 4712"        # numeric ids, in the settings file
Write to the bot to learn your id: in a private chat it tells a user who is not on the list, once an hour.
"""


def run(arguments: list[str]) -> int:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(
        prog="alfred telegram",
        description="Serve the assistant as a Telegram bot.",
        epilog=_EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100),
    )
    parser.add_argument("--webhook", metavar="URL", help="let Telegram call this https address instead of polling")
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8443", help="where the webhook listens")
    parser.add_argument("--model", default="", help="provider/name (default: from the settings)")
    parser.add_argument("--no-worker", action="store_true", help="leave summaries and vectors to `alfred worker`")
    parser.add_argument("--verbose", action="store_true", help="log more")
    options = parser.parse_args(arguments)
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise ConfigError(
            f"{TOKEN} is not set",
            kept="nothing was started",
            hint="create a bot with @BotFather and put its token into the environment",
        )
    # Opts in to durations instead of numbers, which the library warns about otherwise.
    os.environ.setdefault("PTB_TIMEDELTA", "true")
    try:
        import telegram  # noqa: F401
        import tornado  # noqa: F401
    except ImportError:
        raise ConfigError("python-telegram-bot is not installed", hint=install_hint("telegram")) from None
    from cortext.agents.telegram import serving

    logs.begin(token, verbose=options.verbose)
    return asyncio.run(serving.serve_bot(token, options))
