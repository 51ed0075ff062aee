"""The schema on the server: numbered migrations, applied once and in order. Published ones never change."""

from __future__ import annotations

import os
import time

from cortext.errors import ConfigError
from cortext.store.postgres.driver import Connection, psycopg

FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
_VERSION = b"SELECT version FROM cortext.schema_version WHERE one"
_BOOTSTRAP = (
    "CREATE SCHEMA IF NOT EXISTS cortext",
    "CREATE TABLE IF NOT EXISTS cortext.schema_version (one boolean PRIMARY KEY, version bigint NOT NULL)",
    "INSERT INTO cortext.schema_version VALUES (true, 0) ON CONFLICT (one) DO NOTHING",
)

# Creating a table also creates a type and catalogue rows, so a concurrent creation can fail in any of these ways.
_ALREADY_CREATED = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateObject,
)


def migrations() -> dict[int, str]:
    """Return the migrations of this version of cortext: number and file."""
    return {int(name[:4]): os.path.join(FOLDER, name) for name in sorted(os.listdir(FOLDER)) if name[:4].isdigit()}


def prepare(connection: Connection, where: str) -> None:
    """Apply missing migrations; ConfigError if a newer cortext created the tables."""
    try:
        found = version(connection)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        found = -1
    newest = max(migrations())
    if found < newest:
        found = _upgrade(connection, where)
        enable_vectors(connection)
    if found > newest:
        raise ConfigError(
            f"{where} was created by a newer cortext (its tables have version {found}, this cortext knows {newest})",
            kept="nothing was read or changed",
            hint="upgrade cortext on this machine",
        )


def version(connection: Connection) -> int:
    """Return the schema version of the server."""
    row = connection.execute(_VERSION).fetchone()
    return int(row[0]) if row else -1


def _upgrade(connection: Connection, where: str) -> int:
    row = connection.execute(b"SHOW server_encoding").fetchone()
    if row is not None and row[0].upper() not in ("UTF8", "UTF-8"):
        raise ConfigError(
            f"{where} stores text as {row[0]}, which cannot hold every character",
            kept="nothing was changed",
            hint="create a database with `ENCODING 'UTF8'`",
        )
    for statement in _BOOTSTRAP:
        _create(connection, statement)
    found = 0
    for number, path in migrations().items():
        with open(path, encoding="utf-8") as file:
            script = file.read()
        # The row acts as a lock: if many processes start at once, one migrates and the others wait for it.
        with connection.transaction():
            connection.execute(b"SET LOCAL lock_timeout = 60000")
            row = connection.execute(_VERSION + b" FOR UPDATE").fetchone()
            found = int(row[0]) if row else 0
            if found < number:
                connection.execute(script.encode())
                connection.execute(b"UPDATE cortext.schema_version SET version = %s WHERE one", (number,))
                found = number
    return found


def _create(connection: Connection, statement: str) -> None:
    """Execute a CREATE; retry if another process runs the same one, because IF NOT EXISTS can then still fail."""
    for _ in range(5):
        try:
            connection.execute(statement.encode())
            return
        except _ALREADY_CREATED:
            time.sleep(0.05)
    connection.execute(statement.encode())


def enable_vectors(connection: Connection) -> bool:
    """Create the table of vectors if pgvector is available; return whether the table exists."""
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
        pass  # we lack the privilege, or another process is creating it right now
    except psycopg.errors.UndefinedTable:
        return False  # an engine without a catalogue of extensions
    return has_vectors(connection)


def has_vectors(connection: Connection) -> bool:
    """Whether the table of vectors exists."""
    row = connection.execute(b"SELECT to_regclass('cortext.vectors') IS NOT NULL").fetchone()
    return bool(row and row[0])
