"""A team on one server: roles of their own in a database whose tables belong to an administrator."""

from __future__ import annotations

from typing import Any

import psycopg

from cortext.server import admin
from cortext.server.shared_store import SharedStore
from cortext.server.store import PostgresStore
from tests.support.postgres import PASSWORD, as_role, needs_policies, new_space, shared


class Team:
    """Two people and a group, each a role of the server."""

    def __init__(self, *, policies: bool) -> None:
        if policies:
            needs_policies()
        self.url = shared().database()
        self.suffix = new_space()
        self.ann, self.ben, self.group = (f"{name}_{self.suffix}" for name in ("ann", "ben", "group"))
        self.users = f"users_{self.suffix}"
        for role in (self.users, self.group):
            self.sql(f"CREATE ROLE {role}")
        for role in (self.ann, self.ben):
            self.sql(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}' IN ROLE {self.users}")
        admin.migrate(self.url, report=lambda step: None)
        admin.run(self.url, [admin.grants(self.url, self.users)])
        if policies:
            admin.run(self.url, admin.policies(self.url))

    def sql(self, query: str, *values: object, role: str = "") -> list[tuple[Any, ...]]:
        """Run a statement as the administrator, or as a role."""
        with psycopg.connect(self.at(role) if role else self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def at(self, role: str) -> str:
        """Return the URL of a role."""
        return as_role(self.url, role)

    def store(self, role: str, space: str = "home", **options: Any) -> PostgresStore:
        """Return a store of a role."""
        return PostgresStore(self.at(role), space, **options)

    def shared(self, role: str, **options: Any) -> SharedStore:
        """Return what others share with a role."""
        return SharedStore(self.at(role), **options)
