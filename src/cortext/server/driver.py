"""The PostgreSQL driver, and the translation of its errors into ours."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from cortext.distribution import install_hint
from cortext.errors import ConfigError, CortextError, SessionBusy, StoreUnreachable, WriteFailed

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

__all__ = [
    "CHANGEABLE",
    "GRANTS",
    "Connection",
    "ConnectionPool",
    "PoolTimeout",
    "as_error",
    "connection_lost",
    "is_refused",
    "limited",
    "lost_prepared_statement",
    "psycopg",
]

# How a server words a refused login. Errors that occur while connecting have no SQLSTATE.
_REFUSALS = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "is not permitted",
)
# The server is shutting down or starting up, ended our connection, has too many clients, or became a replica: worth a
# retry.
_UNAVAILABLE = ("57P01", "57P02", "57P03", "57P05", "53300", "25P03", "25006")
# How a distributed engine words that it lost one of its own nodes; the SQLSTATE differs.
_NODE_LOST = (
    "unexpected postmaster exit",
    "ssl syscall error",
    "server closed the connection unexpectedly",
    "connection to the remote node",
    "could not connect to any active placements",
    "could not establish any connections to the node",
    "could not commit transaction for shard",
    "failed to copy to shard",
    "failure on connection marked as essential",
    "connection not open",
    "terminating connection",
)
_STATEMENT_TOO_SLOW = "57014"
# The statement was prepared in another session of the server: a pooler is in between.
_PREPARED = ("26000", "42P05")
# What this version needs of each table; any other object needs the usage of the schema. The key, the owner and the
# space of a session never change: a role that may change them could take over what is shared with it.
CHANGEABLE = (
    "deleted_at, record, type, title, status, agent, tool, summary, last_active, next_seq, message_count, token_count, "
    "straight, archived_before, summary_vector, next_note, fence, holder, token, held_since, held_until, "
    "embedded_before, summarised_before, due_embed, due_summarise, last_hour"
)
GRANTS = {
    "schema_version": "SELECT",
    "sessions": f"SELECT, INSERT, UPDATE ({CHANGEABLE})",
    "messages": "SELECT, INSERT, UPDATE, DELETE",
    "notes": "SELECT, INSERT, UPDATE",
    "quarantine": "SELECT, INSERT",
    "claims": "SELECT, INSERT, UPDATE",
    "chats": "SELECT, INSERT, UPDATE",
    "updates": "SELECT, INSERT, UPDATE, DELETE",
    "facts": "SELECT, INSERT, UPDATE",
    "vectors": "SELECT, INSERT, UPDATE",
    "shares": "SELECT, INSERT, UPDATE, DELETE",
    "audit": "SELECT, INSERT",
}


def server_message(error: BaseException) -> str:
    """Return the first line of an error message of the driver or the server."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


def limited(generator: Any, connection: Connection, seconds: float) -> Any:
    """Return the generator of a statement with a time limit: OperationalError if the server is silent for longer.

    The driver resumes a generator at least every tenth of a second, even if nothing has arrived.
    """
    deadline = time.monotonic() + seconds
    ready = None
    while True:
        try:
            ready = yield generator.send(ready)
        except StopIteration as end:
            return end.value
        if not ready and time.monotonic() >= deadline:
            connection.close()
            raise psycopg.OperationalError(f"no reply to a statement within {seconds:g} s")


def login_refused(error: psycopg.Error) -> bool:
    """Whether the server refused the login."""
    state = error.sqlstate or ""
    if state:
        return state.startswith(("28", "3D"))
    return isinstance(error, psycopg.OperationalError) and any(text in str(error) for text in _REFUSALS)


def is_refused(error: psycopg.Error) -> bool:
    """Whether the server refused the login or a permission, so that a retry cannot help."""
    return login_refused(error) or isinstance(error, psycopg.errors.InsufficientPrivilege)


def connection_lost(error: psycopg.Error) -> bool:
    """Whether a connection is lost, ours or one between the server's nodes: the outcome of the statement is unknown."""
    state = error.sqlstate
    if state is None:
        # Errors that the driver itself detects have no SQLSTATE.
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if state in _UNAVAILABLE or state.startswith("08"):
        return True
    text = str(error).lower()
    return any(words in text for words in _NODE_LOST)


def lost_prepared_statement(error: psycopg.Error) -> bool:
    """Whether a prepared statement is not where the driver left it; the statement was not executed."""
    return error.sqlstate in _PREPARED


def as_error(error: psycopg.Error, where: str, role: str = "") -> CortextError:
    """Return our error for an error of the driver or the server; `where` is the address without its password."""
    state = error.sqlstate or ""
    if login_refused(error):
        return ConfigError(
            f"login refused by {where}: {server_message(error)}",
            kept="nothing was changed",
            hint="check the user, password and database in the setting `store` (or CORTEXT_STORE)",
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return ConfigError(
            f"{where} does not permit this: {server_message(error)}",
            kept="nothing was changed",
            hint=f"ask an administrator of the database: {missing_grant(error, role)}",
        )
    if connection_lost(error):
        return StoreUnreachable(
            f"no answer from {where}: {server_message(error)}",
            kept="everything that was acknowledged before; it is unknown whether this change was made",
            hint="check that the server is running and the address is right, then repeat the command: nothing is "
            "stored twice",
        )
    if state == "55P03":
        return SessionBusy(
            f"timed out waiting for another process that writes the same session on {where}",
            kept="nothing was changed",
            hint="try again later",
        )
    if state == _STATEMENT_TOO_SLOW:
        return StoreUnreachable(
            f"{where} stopped a statement that took too long: {server_message(error)}",
            kept="nothing was changed",
            hint="try again later, or raise the setting `store.statement_seconds`",
        )
    unknown = state.startswith(("XX", "58", "40003"))  # an internal error says nothing about what was done
    return WriteFailed(
        f"{where} refused the statement: {server_message(error)}",
        kept="it is unknown whether this change was made" if unknown else "nothing was changed",
        hint="see the server's log for details, or run `cortext doctor` to check the store",
    )


def missing_grant(error: psycopg.Error, role: str) -> str:
    """Return the statement that permits what the server refused."""
    found = re.search(r"permission denied for (?:table|relation|view) (\w+)", str(error))
    to = '"' + (role or "ROLE").replace('"', '""') + '"'
    if found:
        return f"GRANT {GRANTS.get(found[1], 'SELECT')} ON cortext.{found[1]} TO {to}"
    if "permission denied for schema" in str(error):
        return f"GRANT USAGE ON SCHEMA cortext TO {to}"
    return "run `cortext store migrate` as the owner of the tables"
