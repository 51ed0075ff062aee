"""What an administrator of a server does: migrate the tables, grant roles their use, and install the policies.

The policies are row-level security: the database itself hides the rows of others, so that a bug in a statement cannot
show them. They bind every role except the owner of the tables and superusers, and roles named as a service, which act
for many people and are trusted to filter by the setting `store.owner`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cortext.errors import ConfigError
from cortext.safety.credentials import mask_address
from cortext.server import schema
from cortext.server.driver import CHANGEABLE, GRANTS, Connection, as_error, psycopg

# Whether this name is a role of mine or a group that I am in. Not a list of my roles: each mention of a list is one
# more query in the plan of a statement, and an append would have fourteen of them.
_ME = "pg_has_role(to_regrole(quote_ident({0})), 'member')"
# Sessions of others that are shared with me; their owner must be the one who shared them, so a share cannot be forged.
# What is in the owner's trash is not shared. A session of my own is not looked up among the shares.
_SHARED = (
    "{0}.owner <> current_user::text AND {0}.deleted_at IS NULL AND EXISTS (SELECT 1 FROM cortext.shares h "
    "WHERE h.session_id = {0}.session_id AND h.life = {0}.life AND h.owner = {0}.owner AND "
    + _ME.format("h.grantee")
    + "{1})"
)
_MINE = "owner = current_user::text"
_SEEN = "EXISTS (SELECT 1 FROM cortext.sessions s WHERE s.session_id = {0}.session_id AND s.life = {0}.life)"
_WRITABLE = (
    "EXISTS (SELECT 1 FROM cortext.sessions s WHERE s.session_id = {0}.session_id AND s.life = {0}.life "
    "AND (s.owner = current_user::text OR " + _SHARED.format("s", " AND h.can_write") + "))"
)
_OF_MY_SESSION = _SEEN[:-1] + " AND s.owner = current_user::text)"
PREFIX = "cortext_"
_SERVICE = f"{PREFIX}service"
_RULES = ("own", "read", "write", "insert", "update", "delete")  # of this version and earlier ones
_PROTECTED = b"""
SELECT c.relname FROM pg_class c WHERE c.relrowsecurity AND c.relnamespace = to_regnamespace('cortext')
"""
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
        raise as_error(error, mask_address(url)) from error


def migrate(
    url: str, *, owner: str = "", finish: bool = False, report: Callable[[schema.Step], None]
) -> schema.Versions:
    """Bring the tables up to date: see schema.migrate. `owner` is who gets rows without one; by default this role."""
    with connected(url) as connection:
        _refuse_pooler(connection, url)
        who = owner or connection.info.user
        found = schema.migrate(connection, mask_address(url), owner=who, finish=finish, report=report)
        _complete(connection)
        return found


def pending(url: str, *, finish: bool) -> list[schema.Step]:
    """Return the statements that `migrate` would execute."""
    with connected(url) as connection:
        found = schema.versions(connection)
        if found is None:
            steps = schema.fresh()
        else:
            steps = [*schema.unfinished(connection, found), *schema.pending(found, finish=finish)]
        last = max([found.applied if found else 0, *(step.migration for step in steps)])
        return [*steps, *schema.spreading(connection, last)]


def grants(url: str, role: str) -> list[str]:
    """Return the statements that let a role use the tables, and nothing else."""
    with connected(url) as connection:
        # Before the tables are created: only pgvector brings the table of vectors.
        tables = _tables(connection) or GRANTS.keys() - {"vectors"}
    to = _quoted(role)
    return [
        f"GRANT USAGE ON SCHEMA cortext TO {to}",
        f"REVOKE UPDATE ON cortext.sessions FROM {to}",  # an earlier version granted every column
        *(f"GRANT {what} ON cortext.{table} TO {to}" for table, what in GRANTS.items() if table in tables),
    ]


def policies(url: str, *, service: str = "", remove: bool = False) -> list[list[str]]:
    """Return the statements that install the policies, or remove them; a list for each table, executed together.

    The policies of services stay when the others are installed again; `remove` with a service removes only its own.
    """
    with connected(url) as connection:
        tables = _tables(connection)
        if "shares" not in tables:
            raise ConfigError(
                f"the tables on {mask_address(url)} have no owners yet",
                kept="nothing was changed",
                hint="run `cortext store migrate` first",
            )
        if not remove and schema.is_distributed(connection):
            raise ConfigError(
                f"the tables on {mask_address(url)} are distributed by Citus, which has no policies with subqueries",
                kept="nothing was changed; every statement of cortext still filters by the owner",
                hint="use PostgreSQL without Citus if people have roles of their own and could send SQL themselves",
            )
        installed = _installed(connection)
        narrowed = [] if remove else _narrowed(connection)
    made = [narrowed] if narrowed else []
    for table in (name for name in _TABLES if name in tables):
        if service and remove:
            made.append([_dropped(_service_policy(service), table)])
        elif service:
            made.append(_service_rule(table, service))
        elif remove:
            there = [_dropped(name, table) for name in sorted(installed.get(table, {}))]
            made.append([*there, f"ALTER TABLE cortext.{table} DISABLE ROW LEVEL SECURITY"])
        else:
            made.append(_protection(table))
    return made


def run(url: str, groups: list[list[str]]) -> None:
    """Execute each group of statements in a transaction of its own, which lets others pass if a table is in use."""
    with connected(url) as connection:
        _refuse_pooler(connection, url)
        for group in groups:
            schema.together(connection, group)


def _refuse_pooler(connection: Connection, url: str) -> None:
    """Raise ConfigError behind a pooler: the limits for locks would apply to somebody else's statements."""
    row = connection.execute(b"SELECT pg_backend_pid()").fetchone()
    if row is not None and row[0] != connection.info.backend_pid:  # a pooler invents the one that it tells its clients
        raise ConfigError(
            f"there is a pooler between this command and {mask_address(url)}",
            kept="nothing was changed",
            hint="name the server itself: cortext store migrate postgresql://admin@host/database",
        )


def _complete(connection: Connection) -> None:
    """Give a table that was created later (vectors) the policies and the grants that the others have."""
    protected = {str(row[0]) for row in connection.execute(_PROTECTED)}
    services = [roles for name, roles in _installed(connection).get("sessions", {}).items() if _SERVICE in name]
    missing = [] if "sessions" not in protected else sorted(_tables(connection) & set(_TABLES) - protected)
    groups = [_protection(table) for table in missing]
    groups += [_service_rule(table, role) for table in missing for roles in services for role in roles]
    if "vectors" in _tables(connection):
        groups += [[f"GRANT {GRANTS['vectors']} ON cortext.vectors TO {_name(role)}"] for role in _users(connection)]
    for group in groups:
        schema.together(connection, group)


def _protection(table: str) -> list[str]:
    """Return the statements that install the policies of a table again."""
    rules = _rules(table)
    return [
        *(_dropped(f"{PREFIX}{name}", table) for name in _RULES),
        *(f"CREATE POLICY {name} ON cortext.{table} {rule}" for name, rule in rules.items()),
        f"ALTER TABLE cortext.{table} ENABLE ROW LEVEL SECURITY",
    ]


def _service_rule(table: str, role: str) -> list[str]:
    """Return the statements that admit a service to a table."""
    name = _service_policy(role)
    create = f"CREATE POLICY {name} ON cortext.{table} TO {_quoted(role)} USING (true) WITH CHECK (true)"
    return [_dropped(name, table), create]


def _service_policy(role: str) -> str:
    """Return the name of the policy of a service: one for each, and within the length of a name."""
    return f"{_SERVICE}_{hashlib.sha256(role.encode()).hexdigest()[:12]}"


def _dropped(policy: str, table: str) -> str:
    return f"DROP POLICY IF EXISTS {policy} ON cortext.{table}"


def _installed(connection: Connection) -> dict[str, dict[str, list[str]]]:
    """Return the policies of ours that are there: for each table, their names and the roles they admit."""
    query = b"SELECT tablename::text, policyname::text, roles::text[] FROM pg_policies WHERE schemaname = 'cortext'"
    found: dict[str, dict[str, list[str]]] = {}
    for table, name, roles in connection.execute(query):
        if name.startswith(PREFIX):
            found.setdefault(table, {})[name] = roles
    return found


def _users(connection: Connection) -> list[str]:
    """Return the roles that may write the notes of a session, and so its vectors."""
    query = (
        b"SELECT grantee::text FROM information_schema.table_privileges WHERE table_schema = 'cortext' "
        b"AND table_name = 'notes' AND privilege_type = 'INSERT' ORDER BY 1"
    )
    return [str(row[0]) for row in connection.execute(query)]


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
        return own | {f"{PREFIX}read": f"FOR SELECT USING ({_ME.format('grantee')})"}
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
        to = _name(role)
        made.append(f"REVOKE UPDATE ON cortext.sessions FROM {to}")
        made.append(f"GRANT UPDATE ({CHANGEABLE}) ON cortext.sessions TO {to}")
    return made


def _tables(connection: Connection) -> set[str]:
    query = b"SELECT table_name FROM information_schema.tables WHERE table_schema = 'cortext'"
    return {str(row[0]) for row in connection.execute(query)}


def _name(role: str) -> str:
    return role if role == "PUBLIC" else _quoted(role)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
