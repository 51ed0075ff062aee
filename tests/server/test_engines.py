"""The table of engines in docs/scale.md says what the tests ran on, and the migrations are as plain as it says."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from cortext.errors import ConfigError
from cortext.server import admin
from cortext.server import schema as postgres_schema
from cortext.server.store import PostgresStore
from tests.support.debian import NotToBeHad
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import Remote, shared

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"


def engines() -> dict[str, str]:
    """Return what was run, by engine."""
    table = PAGE.read_text(encoding="utf-8").partition("## Which server")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return {row[0].strip(): row[1].strip() for row in rows[1:]}


@pytest.mark.req("TEAM-05")
def test_the_table_names_the_versions_that_the_tests_use() -> None:
    server = shared()
    if isinstance(server, Remote):
        pytest.skip("the table is about the servers that the tests start")
    version = server.sql("SHOW server_version")[0][0].split()[0]
    vector = server.sql("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")[0][0]
    assert engines()[f"PostgreSQL {version}, pgvector {vector}"].startswith("the short tests, 20")
    assert f"a primary with a synchronous replica, PostgreSQL {version}" in engines()


@pytest.mark.req("TEAM-05")
def test_the_table_names_the_pooler_that_the_tests_use() -> None:
    for supporting, expected in ((False, "1.18"), (True, "1.24")):
        try:
            with PgBouncer(shared(), supporting=supporting) as pooler:
                version = ".".join(pooler.version.split(".")[:2])
        except NotToBeHad as error:
            pytest.skip(str(error))
        if version != expected and not supporting:
            continue  # another Debian
        assert any(name.startswith(f"PgBouncer {version} ") for name in engines())


@pytest.mark.req("TEAM-05")
def test_what_was_run_has_a_date_and_what_was_not_says_nothing() -> None:
    for name, ran in engines().items():
        assert re.search(r"20\d\d-\d\d-\d\d", ran) or ran.startswith(("nothing", "the release before")), name


@pytest.mark.req("TEAM-05")
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("CockroachDB", "CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)"),
        ("YugabyteDB", "PostgreSQL 11.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu"),
    ],
)
def test_an_engine_that_is_not_supported_is_refused_and_unchanged(name: str, version: str) -> None:
    """A real server, which introduces itself as the other engine does."""
    url = shared().database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE FUNCTION public.version() RETURNS text LANGUAGE sql AS $$SELECT '{version}'$$")
    other = f"{url}?options=-csearch_path%3Dpublic%2Cpg_catalog"
    for use in (lambda: PostgresStore(other).get("talk"), lambda: admin.migrate(other, report=lambda step: None)):
        with pytest.raises(ConfigError, match=f"{name}, which is not supported"):
            use()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regnamespace('cortext')").fetchone() == (None,)
    assert engines()[name] == "nothing" and f"| {name} | nothing | **not supported**" in PAGE.read_text(
        encoding="utf-8"
    )


@pytest.mark.req("TEAM-05")
def test_an_empty_database_needs_one_generated_column_and_no_transaction() -> None:
    """Engines without stored generated columns are named in the table; more of them would exclude more engines."""
    found = postgres_schema.statements(str(Path(postgres_schema.FOLDER, "fresh.sql")))
    assert [statement.split("(")[0].split()[-1] for statement in found if "GENERATED" in statement] == [
        "cortext.messages"
    ]
    for path in postgres_schema.migrations().values():
        for statement in postgres_schema.statements(path):
            assert ";" not in statement and not re.match(r"(?i)begin|commit|alter table .*,\s*add", statement), (
                statement
            )
