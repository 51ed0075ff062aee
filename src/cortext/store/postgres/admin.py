"""What an administrator of a server does: migrate the tables, grant roles their use, and install the policies.

The policies are row-level security: the database itself hides the rows of others, so that a bug in a statement cannot
show them. They bind every role except the owner of the tables and superusers, and roles named as a service, which act
for many people and are trusted to filter by the setting `store.owner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cortext.errors import ConfigError
from cortext.safety.addresses import masked
from cortext.store.postgres import schema as postgres_schema
from cortext.store.postgres.driver import CHANGEABLE, GRANTS, Connection, as_error, psycopg

_MY_ROLES = "SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE pg_has_role(r.oid, 'member')"
# Sessions that are shared with me; their owner must be the one who shared them, so a share cannot be forged. What is in
# the owner's trash is not shared.
_SHARED = (
    "{0}.deleted_at IS NULL AND EXISTS (SELECT 1 FROM cortext.shares h WHERE h.session_id = {0}.session_id "
    "AND h.life = {0}.life AND h.owner = {0}.owner AND h.grantee IN (" + _MY_ROLES + "){1})"
)
_MINE = "owner = current_user::text"
_SEEN = "EXISTS (SELECT 1 FROM cortext.sessions s WHERE s.session_id = {0}.session_id AND s.life = {0}.life)"
_WRITABLE = (
    "EXISTS (SELECT 1 FROM cortext.sessions s WHERE s.session_id = {0}.session_id AND s.life = {0}.life "
    "AND (s.owner = current_user::text OR " + _SHARED.format("s", " AND h.can_write") + "))"
)
_OF_MY_SESSION = _SEEN[:-1] + " AND s.owner = current_user::text)"
PREFIX = "cortext_"
# The tables whose rows hang on a session.
_HANGING = ("messages", "notes", "quarantine", "vectors")
_TABLES = ("sessions", *_HANGING, "chats", "facts", "updates", "claims", "shares", "audit")


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Connect as an administrator: no check of the tables, no limits. Driver errors become ours."""
    try:
        with psycopg.connect(
            url, autocommit=True, connect_timeout=10, application_name="cortext", prepare_threshold=None
        ) as connection:
            yield connection
    except psycopg.Error as error:
        raise as_error(error, masked(url)) from error


def migrate(
    url: str, *, owner: str = "", finish: bool = False, report: Callable[[postgres_schema.Step], None]
) -> postgres_schema.Versions:
    """Bring the tables up to date: see schema.migrate. `owner` is who gets rows without one; by default this role."""
    with connected(url) as connection:
        who = owner or connection.info.user
        return postgres_schema.migrate(connection, masked(url), owner=who, finish=finish, report=report)


def pending(url: str, *, finish: bool) -> list[postgres_schema.Step]:
    """Return the statements that `migrate` would execute."""
    with connected(url) as connection:
        found = postgres_schema.versions(connection)
        if found is None:
            return []
        return [*postgres_schema.unfinished(connection, found), *postgres_schema.pending(found, finish=finish)]


def grants(url: str, role: str) -> list[str]:
    """Return the statements that let a role use the tables, and nothing else."""
    with connected(url) as connection:
        tables = _tables(connection)
    to = _quoted(role)
    return [
        f"GRANT USAGE ON SCHEMA cortext TO {to}",
        f"REVOKE UPDATE ON cortext.sessions FROM {to}",  # an earlier version granted every column
        *(f"GRANT {what} ON cortext.{table} TO {to}" for table, what in GRANTS.items() if table in tables),
    ]


def policies(url: str, *, service: str = "", remove: bool = False) -> list[str]:
    """Return the statements that install the policies, or remove them."""
    with connected(url) as connection:
        tables = _tables(connection)
        if "shares" not in tables:
            raise ConfigError(
                f"the tables on {masked(url)} have no owners yet",
                kept="nothing was changed",
                hint="run `cortext store migrate` first",
            )
        made = [] if remove else _narrowed(connection)
    for table in (name for name in _TABLES if name in tables):
        rules = _rules(table)
        known = [*rules, f"{PREFIX}service"]
        made += [f"DROP POLICY IF EXISTS {name} ON cortext.{table}" for name in known if not service or remove]
        if remove:
            made.append(f"ALTER TABLE cortext.{table} DISABLE ROW LEVEL SECURITY")
            continue
        if service:
            made.append(f"DROP POLICY IF EXISTS {PREFIX}service ON cortext.{table}")
            made.append(
                f"CREATE POLICY {PREFIX}service ON cortext.{table} TO {_quoted(service)} USING (true) WITH CHECK (true)"
            )
            continue
        made += [f"CREATE POLICY {name} ON cortext.{table} {rule}" for name, rule in rules.items()]
        made.append(f"ALTER TABLE cortext.{table} ENABLE ROW LEVEL SECURITY")
    return made


def run(url: str, statements: list[str]) -> None:
    """Execute these statements, all or none."""
    with connected(url) as connection, connection.transaction():
        for statement in statements:
            connection.execute(statement.encode())


def _rules(table: str) -> dict[str, str]:
    """Return the policies of a table, by name."""
    own = {f"{PREFIX}own": f"USING ({_MINE}) WITH CHECK ({_MINE})"}
    if table == "sessions":
        write = _SHARED.format("sessions", " AND h.can_write")
        return own | {
            f"{PREFIX}read": f"FOR SELECT USING ({_SHARED.format('sessions', '')})",
            f"{PREFIX}write": f"FOR UPDATE USING ({write}) WITH CHECK ({write})",
        }
    if table in _HANGING:
        write, mine = _WRITABLE.format(table), _OF_MY_SESSION.format(table)
        change = write if table == "vectors" else mine  # a vector is replaced by a newer one of the same message
        return {
            f"{PREFIX}read": f"FOR SELECT USING ({_SEEN.format(table)})",
            f"{PREFIX}insert": f"FOR INSERT WITH CHECK ({write})",
            f"{PREFIX}update": f"FOR UPDATE USING ({change}) WITH CHECK ({change})",
            f"{PREFIX}delete": f"FOR DELETE USING ({mine})",
        }
    if table == "shares":
        return own | {f"{PREFIX}read": f"FOR SELECT USING (grantee IN ({_MY_ROLES}))"}
    if table == "audit":
        return {
            f"{PREFIX}read": f"FOR SELECT USING ({_MINE} OR actor = current_user::text)",
            f"{PREFIX}insert": "FOR INSERT WITH CHECK (actor = current_user::text)",
        }
    return own


def _narrowed(connection: Connection) -> list[str]:
    """Return the statements that replace an earlier version's grant to change every column of a session."""
    query = (
        b"SELECT grantee::text FROM information_schema.table_privileges WHERE table_schema = 'cortext' "
        b"AND table_name = 'sessions' AND privilege_type = 'UPDATE' AND grantee <> (SELECT tableowner::text "
        b"FROM pg_catalog.pg_tables WHERE schemaname = 'cortext' AND tablename = 'sessions') ORDER BY 1"
    )
    made = []
    for (role,) in connection.execute(query).fetchall():
        to = role if role == "PUBLIC" else _quoted(role)
        made.append(f"REVOKE UPDATE ON cortext.sessions FROM {to}")
        made.append(f"GRANT UPDATE ({CHANGEABLE}) ON cortext.sessions TO {to}")
    return made


def _tables(connection: Connection) -> set[str]:
    query = b"SELECT table_name FROM information_schema.tables WHERE table_schema = 'cortext'"
    return {str(row[0]) for row in connection.execute(query)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
