"""The tables on the server: numbered migrations, applied once and in order, never changed and only added to."""

from __future__ import annotations

import os
import time

from cortext.errors import ConfigError
from cortext.store.postgres.driver import Connection, psycopg

FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
_VERSION = b"SELECT version FROM cortext.schema_version WHERE one"
_BEGIN = (
    "CREATE SCHEMA IF NOT EXISTS cortext",
    "CREATE TABLE IF NOT EXISTS cortext.schema_version (one boolean PRIMARY KEY, version bigint NOT NULL)",
    "INSERT INTO cortext.schema_version VALUES (true, 0) ON CONFLICT (one) DO NOTHING",
)

# What the second of two who make the same thing at the same moment may hear: a table is a type and a row too.
_THERE = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateObject,
)


def known() -> dict[int, str]:
    """The migrations that this version of cortext has: number and file."""
    return {int(name[:4]): os.path.join(FOLDER, name) for name in sorted(os.listdir(FOLDER)) if name[:4].isdigit()}


def prepare(connection: Connection, where: str) -> None:
    """Bring the tables up to date; ConfigError where a newer cortext made them."""
    try:
        found = version(connection)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        found = -1
    newest = max(known())
    if found < newest:
        found = _upgrade(connection, where)
        enable_vectors(connection)
    if found > newest:
        raise ConfigError(
            f"{where} was made by a newer cortext (its tables are version {found}, this one knows {newest})",
            kept="nothing was read or changed",
            hint="upgrade cortext on this machine",
        )


def version(connection: Connection) -> int:
    """The version of the tables that are there."""
    row = connection.execute(_VERSION).fetchone()
    return int(row[0]) if row else -1


def _upgrade(connection: Connection, where: str) -> int:
    row = connection.execute(b"SHOW server_encoding").fetchone()
    if row is not None and row[0].upper() not in ("UTF8", "UTF-8"):
        raise ConfigError(
            f"{where} keeps text as {row[0]}, which has no room for every character",
            kept="nothing was changed",
            hint="create a database with `ENCODING 'UTF8'`",
        )
    for statement in _BEGIN:
        _begin(connection, statement)
    found = 0
    for number, path in known().items():
        with open(path, encoding="utf-8") as file:
            script = file.read()
        # The row is the lock: of many processes that start at once, one migrates and the others wait for it.
        with connection.transaction():
            connection.execute(b"SET LOCAL lock_timeout = 60000")
            row = connection.execute(_VERSION + b" FOR UPDATE").fetchone()
            found = int(row[0]) if row else 0
            if found < number:
                connection.execute(script.encode())
                connection.execute(b"UPDATE cortext.schema_version SET version = %s WHERE one", (number,))
                found = number
    return found


def _begin(connection: Connection, statement: str) -> None:
    """Even IF NOT EXISTS fails for one of two that come at the same moment: that one looks again."""
    for _ in range(5):
        try:
            connection.execute(statement.encode())
            return
        except _THERE:
            time.sleep(0.05)
    connection.execute(statement.encode())


def enable_vectors(connection: Connection) -> bool:
    """Make the table, if the extension is there or can be had; whether it is there now."""
    if has_vectors(connection):
        return True
    try:
        row = connection.execute(b"SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'").fetchone()
        if row is None or not row[0]:
            return False
        connection.execute(b"CREATE EXTENSION IF NOT EXISTS vector")
        with open(os.path.join(FOLDER, "vectors.sql"), encoding="utf-8") as file:
            connection.execute(file.read().encode())
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
        pass  # not ours to do; or another process is doing it at this moment
    except psycopg.errors.UndefinedTable:
        return False  # an engine that has no list of extensions
    return has_vectors(connection)


def has_vectors(connection: Connection) -> bool:
    """Whether the table of vectors is there."""
    row = connection.execute(b"SELECT to_regclass('cortext.vectors') IS NOT NULL").fetchone()
    return bool(row and row[0])
