"""The driver for PostgreSQL, and what its errors mean. No other module below has to know."""

from __future__ import annotations

import logging
from typing import Any

from cortext.errors import ConfigError, CortextError, SessionBusy, StoreUnreachable, WriteFailed, install_hint

try:
    import psycopg
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError as problem:
    raise ConfigError(
        f"the store is a PostgreSQL server, and the driver for it is not here ({problem})",
        kept="nothing was changed",
        hint=install_hint("postgres"),
    ) from None

# A line that breaks is ours to tell: the driver's own words about it would land on the user's screen.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

Connection = psycopg.Connection[tuple[Any, ...]]

__all__ = ["Connection", "ConnectionPool", "PoolTimeout", "as_error", "lost", "psycopg", "server_message", "unwanted"]

# What a server says to somebody whom it does not want. While connecting, errors have no code.
_UNWANTED = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "is not permitted",
)
# The server goes down, comes up, was told to let go of us, or has no room for one more: worth another try.
_GONE = ("57P01", "57P02", "57P03", "57P05", "53300", "25P03", "08000", "08003", "08006", "08001", "08004")


def server_message(error: BaseException) -> str:
    """The first line of what the driver or the server said."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


def unwanted(error: psycopg.Error) -> bool:
    """Whether the server answered and does not let us in: trying again cannot help."""
    state = error.sqlstate or ""
    if state:
        return state.startswith(("28", "3D")) or state == "42501"
    return isinstance(error, psycopg.OperationalError) and any(words in str(error) for words in _UNWANTED)


def lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, so that nobody knows what became of the last statement."""
    if error.sqlstate in _GONE:
        return True
    # The driver itself noticed: such an error has no code from the server.
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None


def as_error(error: psycopg.Error, where: str) -> CortextError:
    """Our error for what the server refused."""
    state = error.sqlstate or ""
    if unwanted(error):
        return ConfigError(
            f"{where} does not let us in: {server_message(error)}",
            kept="nothing was changed",
            hint="check user, password and database in the setting `store` (or CORTEXT_STORE)",
        )
    if lost(error):
        return StoreUnreachable(
            f"no answer from {where}: {server_message(error)}",
            kept="what was acknowledged before; nothing else was promised",
            hint="is the server up, and the address right? `cortext doctor` looks at it",
        )
    if state == "55P03":
        return SessionBusy(
            f"another process has been writing the same session on {where} for too long",
            kept="nothing was changed",
            hint="try again when it is done",
        )
    return WriteFailed(
        f"{where} refused: {server_message(error)}",
        kept="everything as it was before",
        hint="the server's own log says more; `cortext doctor` looks at it",
    )
