"""The environment of a program that we start: without what only we need. Pure.

What the program itself may use stays, above all the API key of its model. Our server's password, our bot's token and
our settings must not reach it, nor a git hook, a pager, or whatever these start in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "CORTEXT_"
# Where our own processes that such a program starts (a hook, the MCP server) find what was held back.
HELD_BACK = "CORTEXT_ENVIRONMENT"
_FOR_OUR_HOOKS = ("CORTEXT_CONFIG", "CORTEXT_WORKSPACE", "CORTEXT_HOOKS", HELD_BACK)
_OUR_SERVER = ("PGPASSWORD", "PGSSLPASSWORD")
_OUR_BOT = ("TELEGRAM_BOT_TOKEN", "TELEGRAM_API_URL", "TELEGRAM_WEBHOOK_SECRET")


def for_child(environ: Mapping[str, str]) -> dict[str, str]:
    """Return this environment for a program that is not ours."""
    return {name: value for name, value in environ.items() if not _is_ours(name) and name not in _OUR_BOT}


def held_back(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what such a program does not get, but our own processes that it starts still need."""
    return {name: value for name, value in environ.items() if _is_ours(name)}


def _is_ours(name: str) -> bool:
    return name in _OUR_SERVER or (name.startswith(PREFIX) and name not in _FOR_OUR_HOOKS)
