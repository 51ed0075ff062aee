"""The server in the settings as its administrator sees it: migrations, grants and policies."""

from __future__ import annotations

from collections.abc import Callable

from cortext.config.load import server_address
from cortext.errors import UsageError
from cortext.safety.addresses import is_address
from cortext.wiring.stores import Stores


def admin_address(stores: Stores, given: str) -> str:
    """Return the server to administer: the one that is named, or the one in the settings."""
    address = given or server_address(stores.settings)
    if not address or not is_address(address):
        raise UsageError(
            "no server is configured", hint="name it: postgresql://admin@host/database, or set CORTEXT_STORE"
        )
    return address


def migrate(
    address: str, *, owner: str, finish: bool, role: str, dry_run: bool, report: Callable[[str], None]
) -> dict[str, int]:
    """Migrate the tables and let `role` use them; return what was done. With `dry_run`, only report the statements."""
    from cortext.server import admin
    from cortext.server.schema import Step, migrations

    if dry_run:
        done = [step.statement for step in admin.pending(address, finish=finish)]
        done += admin.grants(address, role) if role else []
        for statement in done:
            report(statement)
        return {"statements": len(done), "dry_run": True}
    count = 0

    def step(each: Step) -> None:
        nonlocal count
        count += 1
        report(each.statement)

    found = admin.migrate(address, owner=owner, finish=finish, report=step)
    granted = admin.grants(address, role) if role else []
    admin.run(address, [granted])
    for statement in granted:
        report(statement)
    finished = found.version == max(migrations())
    return {"statements": count + len(granted), "version": found.applied, "finished": finished, "dry_run": False}


def policies(address: str, *, service: str, remove: bool, apply: bool) -> list[str]:
    """Return the statements that install or remove the policies; with `apply`, execute them, table by table."""
    from cortext.server import admin

    found = admin.policies(address, service=service, remove=remove)
    if apply:
        admin.run(address, found)
    return [statement for group in found for statement in group]
