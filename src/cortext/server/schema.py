"""The schema on the server. An empty database is filled at first use; existing tables are changed only by an
administrator (`migrate`), and every other process says what to run.

Migrations are numbered, and published ones never change. A release expands the tables (0006) so that the release before
it keeps working, and contracts them (0007, 0008) when no process of that one is left. So two numbers are stored:
`version`, the oldest release that the tables still serve, and `applied`, the last migration.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from cortext.errors import ConfigError
from cortext.server.driver import Connection, psycopg

FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
NEEDED = 6  # the migration that this release needs
CONTRACTS = (7, 8)  # migrations that the release before cannot work with
# Engines that are refused, by how they introduce themselves.
_UNSUPPORTED = {"CockroachDB": "CockroachDB", "-YB-": "YugabyteDB"}
# The tables whose rows have an owner, and the key by which rows without one are found.
OWNED = {
    "sessions": "session_id, life",
    "chats": "chat, space",
    "facts": "space, id",
    "updates": "chat, bot, number",
    "claims": "key, topic",
    "vectors": "session_id, life, id, model",
}
# With Citus: the column that chooses the node of a row; none for a table that every node has. All rows of a session are
# on one node, and so are those of a chat.
SPREAD = {
    **dict.fromkeys(("sessions", "messages", "notes", "quarantine", "vectors", "shares", "audit"), "session_id"),
    **dict.fromkeys(("chats", "updates"), "chat"),
    "claims": "key",
    "facts": "owner",
    "schema_version": "",
}
_BATCH = 1000  # rows that get an owner in one transaction
_VERSION = b"SELECT * FROM cortext.schema_version WHERE one"
_LOCK_SECONDS = 5.0  # a change of a table waits so long for a lock, then lets others pass and tries again
_ATTEMPTS = 12

_CONCURRENT = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)")
# Whether an index of ours is complete, and whether somebody is building it right now.
_INDEX = b"""
SELECT i.indisvalid, EXISTS (SELECT 1 FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
FROM pg_index i WHERE i.indexrelid = to_regclass('cortext.' || %s)
"""

_EXTENSION = b"SELECT installed_version IS NOT NULL FROM pg_available_extensions WHERE name = 'vector'"
_DISTRIBUTED = b"""
SELECT c.relname::text FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
WHERE c.relnamespace = to_regnamespace('cortext')
"""

# An earlier release, or a superuser of that name, may have installed the extension where only a role named `cortext`
# finds it.
_HIDDEN_EXTENSION = b"""
SELECT 1 FROM pg_extension WHERE extname = 'vector' AND extnamespace = to_regnamespace('cortext')
"""

# Creating a table also creates a type and catalogue rows, so a concurrent creation can fail in any of these ways.
_ALREADY_CREATED = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateObject,
)


class Versions(NamedTuple):
    """The state of the tables: the oldest release they serve, and the last migration."""

    version: int
    applied: int


class Step(NamedTuple):
    """A statement of a migration."""

    migration: int
    statement: str


def migrations() -> dict[int, str]:
    """Return the migrations of this version of cortext: number and file."""
    return {int(name[:4]): os.path.join(FOLDER, name) for name in sorted(os.listdir(FOLDER)) if name[:4].isdigit()}


def statements(path: str) -> list[str]:
    """Return the statements of a script, without comments."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^\s*--.*\n", "", file.read(), flags=re.MULTILINE)
    return [statement.strip() for statement in re.split(r";\s*(?:\n|$)", text) if statement.strip()]


def versions(connection: Connection) -> Versions | None:
    """Return the state of the tables; None if there are none."""
    try:
        row = connection.execute(_VERSION).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    if row is None:
        return None
    return Versions(row[1], max(row[1:3]))


def prepare(connection: Connection, where: str) -> None:
    """Check that this release can use the tables; create them in an empty database. ConfigError says what to do."""
    found = versions(connection)
    if found is None:
        create(connection, where)
        enable_vectors(connection)
        return
    newest = max(migrations())
    if found.version > newest:
        raise ConfigError(
            f"{where} was created by a newer cortext (its tables have version {found.version}, this cortext knows "
            f"{newest})",
            kept="nothing was read or changed",
            hint="upgrade cortext on this machine",
        )
    if found.applied < NEEDED:
        raise ConfigError(
            f"the tables on {where} have version {found.applied}, this cortext needs {NEEDED}",
            kept="nothing was read or changed",
            hint="run `cortext store migrate` as the role that owns the tables; the release before this one keeps "
            "working meanwhile",
        )


def refuse_unsupported(connection: Connection, where: str) -> None:
    """Raise ConfigError for an engine that speaks the protocol, but not everything that the tables need."""
    row = connection.execute(b"SELECT version()").fetchone()
    name = next((name for sign, name in _UNSUPPORTED.items() if row is not None and sign in str(row[0])), "")
    if name:
        raise ConfigError(
            f"{where} is {name}, which is not supported",
            kept="nothing was changed",
            hint="use PostgreSQL 13 or newer; docs/scale.md says which servers were tested and what others lack",
        )


def fresh() -> list[Step]:
    """Return the statements that create the tables in an empty database."""
    made = ("CREATE SCHEMA IF NOT EXISTS cortext", *statements(os.path.join(FOLDER, "fresh.sql")))
    return [Step(max(migrations()), statement) for statement in made]


def create(connection: Connection, where: str, report: Callable[[Step], None] = lambda step: None) -> None:
    """Create the tables in an empty database. Many processes may do so at once."""
    refuse_unsupported(connection, where)
    row = connection.execute(b"SHOW server_encoding").fetchone()
    if row is not None and row[0].upper() not in ("UTF8", "UTF-8"):
        raise ConfigError(
            f"{where} stores text as {row[0]}, which cannot hold every character",
            kept="nothing was changed",
            hint="create a database with `ENCODING 'UTF8'`",
        )
    try:
        for step in fresh():
            _create(connection, step.statement)
            report(step)
    except psycopg.errors.InsufficientPrivilege:
        raise ConfigError(
            f"there are no tables on {where}, and this role may not create them",
            kept="nothing was changed",
            hint="run `cortext store migrate` as a role that may create a schema in this database",
        ) from None
    newest = max(migrations())
    _distribute(connection, newest, report)
    connection.execute(
        b"INSERT INTO cortext.schema_version (one, version, applied) VALUES (true, %s, %s) ON CONFLICT DO NOTHING",
        (newest, newest),
    )


def pending(found: Versions, *, finish: bool) -> Iterator[Step]:
    """Yield the statements that `migrate` would execute."""
    for number, path in migrations().items():
        if number > found.applied and (finish or number not in CONTRACTS):
            yield from (Step(number, statement) for statement in statements(path))


def unfinished(connection: Connection, found: Versions) -> list[Step]:
    """Return the statements of migrations that were applied, but whose index is missing or was left incomplete."""
    return [
        Step(number, statement)
        for number, path in migrations().items()
        for statement in (statements(path) if number <= found.applied else ())
        if (match := _CONCURRENT.match(statement)) and not _is_complete(connection, match[1])
    ]


def migrate(
    connection: Connection, where: str, *, owner: str, finish: bool, report: Callable[[Step], None]
) -> Versions:
    """Apply what is missing, one statement at a time; with `finish`, also what the release before cannot work with.

    Rows without an owner get `owner`. Every statement can be repeated, so an interrupted migration continues.
    """
    found = versions(connection)
    if found is None:
        create(connection, where, report)
        _show_extension(connection)
        enable_vectors(connection)
        return versions(connection) or Versions(0, 0)
    if found.version > max(migrations()):
        prepare(connection, where)  # raises: a newer cortext made these tables
    refuse_unsupported(connection, where)
    connection.execute(b"SET statement_timeout = 0")
    for step in unfinished(connection, found):
        report(step)
        _change(connection, step.statement)
    number = found.applied
    for step in pending(found, finish=finish):
        if step.migration != number:
            _record(connection, number, owner)
            number = step.migration
        report(step)
        _change(connection, step.statement)
    _record(connection, number, owner)
    _show_extension(connection)
    enable_vectors(connection)
    _distribute(connection, number, report)
    return versions(connection) or found


def spreading(connection: Connection, applied: int) -> list[Step]:
    """Return the statements that distribute the tables which are not distributed, if the database has Citus.

    None as long as there are keys of the release before: they do not contain the column that chooses the node.
    """
    if applied < max(migrations()) or not _has_citus(connection):
        return []
    done = {str(row[0]) for row in connection.execute(_DISTRIBUTED)}
    if not _vectors_exist(connection):
        done.add("vectors")
    made = []
    for table, column in SPREAD.items():
        beside = "none" if table == "sessions" else "cortext.sessions"
        distributed = f"create_distributed_table('cortext.{table}', '{column}', colocate_with => '{beside}')"
        how = distributed if column else f"create_reference_table('cortext.{table}')"
        if table not in done:
            made.append(Step(applied, f"SELECT {how}"))
    return made


def is_distributed(connection: Connection) -> bool:
    """Whether the sessions are spread over the nodes of Citus."""
    return _has_citus(connection) and ("sessions",) in connection.execute(_DISTRIBUTED).fetchall()


def _has_citus(connection: Connection) -> bool:
    row = connection.execute(b"SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')").fetchone()
    return bool(row and row[0])


def _distribute(connection: Connection, applied: int, report: Callable[[Step], None] = lambda step: None) -> None:
    """In a database with Citus, distribute the tables that are not. Many processes may do so at once."""
    for step in spreading(connection, applied):
        report(step)
        try:
            connection.execute(step.statement.encode())
        except psycopg.errors.InvalidTableDefinition:
            pass  # another process just did it


def _show_extension(connection: Connection) -> None:
    """Move pgvector to where every role looks for it."""
    for _ in connection.execute(_HIDDEN_EXTENSION).fetchall():
        statement = "ALTER EXTENSION vector SET SCHEMA public"
        try:
            _change(connection, statement)
        except psycopg.errors.InsufficientPrivilege:
            raise ConfigError(
                "pgvector is installed in the schema `cortext`, where this role does not find it",
                kept="what was migrated so far; everything but search by meaning on the server works",
                hint=f"run `{statement}` as the role that installed it, then `cortext store migrate` again",
            ) from None


def _record(connection: Connection, number: int, owner: str) -> None:
    """Record a migration as applied; a contracting one also excludes the release before."""
    for step in unfinished(connection, Versions(number, number)):
        raise ConfigError(
            f"the index of this statement is not complete: {' '.join(step.statement.split())}",
            kept="what was migrated so far; the release before this one keeps working",
            hint="run `cortext store migrate` again",
        )
    if number < NEEDED:
        connection.execute(b"UPDATE cortext.schema_version SET version = %s WHERE version < %s", (number, number))
        return
    for table in OWNED:
        if table != "vectors" or _vectors_exist(connection):
            _give(connection, table, owner)
    connection.execute(b"UPDATE cortext.schema_version SET applied = %s WHERE applied < %s", (number, number))
    if number in CONTRACTS:
        connection.execute(b"UPDATE cortext.schema_version SET version = %s WHERE version < %s", (number, number))


def _give(connection: Connection, table: str, owner: str) -> None:
    """Give the rows without an owner to `owner`, some at a time: a row that is being written waits for its batch."""
    key = OWNED[table]
    row = f"({', '.join(['%s'] * (key.count(',') + 1))})"
    last: tuple[object, ...] = ()
    while True:
        after = f"AND ({key}) > {row}" if last else ""
        find = f"SELECT {key} FROM cortext.{table} WHERE owner = '' {after} ORDER BY {key} LIMIT {_BATCH}"
        keys = connection.execute(find.encode(), last).fetchall()
        if not keys:
            return
        last = keys[-1]
        give = f"UPDATE cortext.{table} SET owner = %s WHERE owner = '' AND ({key}) >= {row} AND ({key}) <= {row}"
        work = partial(connection.execute, give.encode(), (owner, *keys[0], *last))
        _patiently(connection, work, seconds=_LOCK_SECONDS)


def _change(connection: Connection, statement: str) -> None:
    """Execute a statement; if it cannot lock a table that is in use, let the others pass and try again.

    An index that is built concurrently blocks nobody, so it may wait: it waits for every older transaction.
    """
    index = _CONCURRENT.match(statement)

    def execute() -> None:
        if index and not _is_complete(connection, index[1]):
            # Left by an interrupted attempt: IF NOT EXISTS would take it for the index.
            connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS cortext.{index[1]}".encode())
        connection.execute(statement.encode())

    _patiently(connection, execute, seconds=0 if index else _LOCK_SECONDS)


def together(connection: Connection, group: Sequence[str]) -> None:
    """Execute these statements, all or none; if they cannot lock a table, let the others pass and try again."""

    def execute() -> None:
        with connection.transaction():
            for statement in group:
                connection.execute(statement.encode())

    _patiently(connection, execute, seconds=_LOCK_SECONDS)


def _patiently(connection: Connection, work: Callable[[], object], *, seconds: float) -> None:
    """Call `work`, whose statements wait so long for a lock (0: for ever), until it gets its locks."""
    connection.execute(f"SET lock_timeout = {round(seconds * 1000)}".encode())
    for attempt in range(_ATTEMPTS):
        try:
            work()
            return
        except psycopg.errors.LockNotAvailable:
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(0.5)


def _is_complete(connection: Connection, index: str) -> bool:
    """Whether this index exists and is used; ConfigError while another process builds it."""
    row = connection.execute(_INDEX, (index,)).fetchone()
    if row is not None and row[1]:
        raise ConfigError(
            f"another process is building the index {index}",
            kept="what was migrated so far; the release before this one keeps working",
            hint="wait for the other `cortext store migrate`, then run it again",
        )
    return row is not None and bool(row[0])


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
    """Create the table of vectors if pgvector is available and we may; return whether the table exists."""
    if _vectors_exist(connection):
        return True
    try:
        row = connection.execute(_EXTENSION).fetchone()
        if row is None:
            return False
        if not row[0]:  # else Citus would refuse the statement, which changes nothing, to a role that is no superuser
            # Not into a schema named like this role, where the server looks first: no other role looks there.
            connection.execute(b"CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
        for statement in statements(os.path.join(FOLDER, "vectors.sql")):
            connection.execute(statement.encode())
        found = versions(connection)
        _distribute(connection, found.applied if found else 0)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
        pass  # we lack the privilege, or another process is creating it right now
    except psycopg.errors.UndefinedTable:
        return False  # an engine without a catalogue of extensions
    except psycopg.errors.UndefinedObject:
        return False  # the extension is where this role does not look: `migrate` says so
    return _vectors_exist(connection)


def has_vectors(connection: Connection) -> bool:
    """Whether there is a table of vectors that this role may use."""
    row = connection.execute(b"SELECT has_table_privilege(to_regclass('cortext.vectors'), 'INSERT')").fetchone()
    return bool(row and row[0])


def _vectors_exist(connection: Connection) -> bool:
    row = connection.execute(b"SELECT to_regclass('cortext.vectors') IS NOT NULL").fetchone()
    return bool(row and row[0])
