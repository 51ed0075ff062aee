"""The PostgreSQL driver, and the translation of its errors into ours."""

from __future__ import annotations

import logging
from typing import Any

from cortext.errors import ConfigError, CortextError, SessionBusy, StoreUnreachable, WriteFailed, install_hint

try:
    import psycopg
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError as problem:
    raise ConfigError(
        f"the store is a PostgreSQL server, but its driver is not installed ({problem})",
        kept="nothing was changed",
        hint=install_hint("postgres"),
    ) from None

# Broken connections are reported by our own errors: the driver's log lines must not reach the user's terminal.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

Connection = psycopg.Connection[tuple[Any, ...]]

__all__ = ["Connection", "ConnectionPool", "PoolTimeout", "as_error", "connection_lost", "login_refused", "psycopg"]

# How a server words a refused login. Errors that occur while connecting have no SQLSTATE.
_REFUSALS = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "is not permitted",
)
# The server is shutting down or starting up, ended our connection, or has too many clients: worth a retry.
_UNAVAILABLE = ("57P01", "57P02", "57P03", "57P05", "53300", "25P03", "08000", "08003", "08006", "08001", "08004")


def server_message(error: BaseException) -> str:
    """Return the first line of an error message of the driver or the server."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


def login_refused(error: psycopg.Error) -> bool:
    """Whether the server refused the login, so that a retry cannot help."""
    state = error.sqlstate or ""
    if state:
        return state.startswith(("28", "3D")) or state == "42501"
    return isinstance(error, psycopg.OperationalError) and any(text in str(error) for text in _REFUSALS)


def connection_lost(error: psycopg.Error) -> bool:
    """Whether the connection is lost, so that the outcome of the last statement is unknown."""
    if error.sqlstate in _UNAVAILABLE:
        return True
    # Errors that the driver itself detects have no SQLSTATE.
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None


def as_error(error: psycopg.Error, where: str) -> CortextError:
    """Return our error for an error of the driver or the server; `where` is the address without its password."""
    state = error.sqlstate or ""
    if login_refused(error):
        return ConfigError(
            f"login refused by {where}: {server_message(error)}",
            kept="nothing was changed",
            hint="check the user, password and database in the setting `store` (or CORTEXT_STORE)",
        )
    if connection_lost(error):
        return StoreUnreachable(
            f"no answer from {where}: {server_message(error)}",
            kept="everything that was acknowledged before",
            hint="check that the server is running and the address is right, then run `cortext doctor`",
        )
    if state == "55P03":
        return SessionBusy(
            f"timed out waiting for another process that writes the same session on {where}",
            kept="nothing was changed",
            hint="try again later",
        )
    return WriteFailed(
        f"{where} refused the statement: {server_message(error)}",
        kept="nothing was changed",
        hint="see the server's log for details, or run `cortext doctor` to check the store",
    )
